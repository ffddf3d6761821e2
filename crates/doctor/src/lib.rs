//! `nagi doctor`: reports the settings of this machine that are harmful for a database, the reasons, and the
//! commands that fix them.
//!
//!   readers   /proc, /sys, statvfs, the record of free space, a short disk test; the caller's: the data files
//!      |
//!    Facts    plain data; tests use recorded facts
//!      |
//!    CHECKS   one per file: Facts -> good, not known, or a finding
//!      |
//!   report    a table for people, JSON for scripts, warnings for a server that starts
//!
//! Invariants
//! - A check is a pure function of the facts: it opens no file, reads no clock and never fails. An input that
//!   could not be read gives "not known".
//! - The disk test is bounded in bytes and time. Its file has no name while the test runs, so that no file
//!   remains however the process terminates.
//!
//! This crate does not know the engines, the log, or options of the server other than those in [`Defaults`].

mod access;
mod cgroup;
mod checks;
mod cli;
mod exposure;
mod facts;
mod finding;
mod history;
mod json;
mod limits;
mod live;
mod measure;
mod read;
mod report;
mod startup;
mod units;

pub use access::closed_ancestor;
pub use checks::{CHECKS, Check};
pub use cli::{Defaults, FLAGS, Flag, run};
pub use exposure::{AtRest, Exposure};
pub use facts::{Access, DataFiles, DataFolder, Facts};
pub use finding::{Finding, NotKnown, Outcome, Severity, StartupLine, Verdict};
pub use history::{FILE as HISTORY_FILE, Sample, days_until_full, keep_record};
pub use live::report as live_report;
pub use measure::{Allocation, BlockFigures, Latencies, Measured};
pub use startup::startup_warnings;
