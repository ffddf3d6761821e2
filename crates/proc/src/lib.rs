//! What Linux says of processes and the machine: typed readers of `/proc`, `/sys` and `/etc/os-release`.
//!
//! The server's statistics, the account of memory, the checks of `nagi doctor` and `nagi-bench` read the same files;
//! this crate is the one place that knows their forms.
//!
//! Each reader has two parts: a parser that takes the text of a file, so that tests and the doctor can give it recorded
//! texts, and a thin function that reads the file.
//!
//! Invariants
//! - Nothing here fails or panics: a file that is missing, a line of another form or a number that is too large gives
//!   `None`.
//! - Sizes are in bytes, also where the file has KiB.
//!
//! Does not know about: what a figure means for a database, and whether it is good.

pub mod cgroup;
pub mod counters;
pub mod fields;
mod file;
pub mod limits;
pub mod machine;
pub mod maps;
pub mod meminfo;
pub mod mounts;
mod process;
mod schedstat;
pub mod stat;
mod statm;
mod status;

pub use cgroup::memory_bytes;
pub use file::{number, open, text};
pub use process::Process;
pub use schedstat::Schedstat;
pub use stat::Stat;
pub use statm::{Resident, Statm};
pub use status::Status;

/// Size of a page of memory on every machine that Nagi is built for.
pub const PAGE_BYTES: u64 = 4096;
