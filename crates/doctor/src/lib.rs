//! `nagi doctor`: what of this machine hurts a database, why, and the command that repairs it.
//!
//!   readers   /proc, /sys, statvfs, the record of free space, a short test of the disk
//!      |
//!    Facts    plain data; recorded ones make the tests
//!      |
//!    CHECKS   one a file: Facts -> fine, not known, or a finding
//!      |
//!   report    a table for people, JSON for scripts, warnings for a server that starts
//!
//! Invariants
//! - A check is a pure function of the facts: it opens nothing, asks no clock and never fails. What could
//!   not be read is "not known".
//! - The test of the disk is bounded in bytes and time, and its file has no name while it runs, so that
//!   nothing stays behind however the process ends.
//!
//! Does not know about: options of the server beyond the data directory and the number of connections,
//! engines, the log.

mod access;
mod cgroup;
mod checks;
mod cli;
mod facts;
mod finding;
mod history;
mod json;
mod limits;
mod measure;
mod mount;
mod read;
mod report;
mod startup;
mod units;

pub use checks::{CHECKS, Check};
pub use cli::{Defaults, run};
pub use facts::{Access, DataFolder, Facts};
pub use finding::{Finding, NotKnown, Outcome, Severity, StartupLine, Verdict};
pub use history::{FILE as HISTORY_FILE, Sample, days_until_full, keep_record};
pub use measure::{Allocation, BlockFigures, Latencies, Measured};
pub use read::memory_bytes;
pub use startup::startup_warnings;
