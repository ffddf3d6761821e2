//! The program as users run it: exit codes, one process per data directory, clean shutdown, a full disk.
#![allow(clippy::unwrap_used)] // test helpers may unwrap

mod damaged;
mod doctor;
mod embedded;
mod engines;
mod exposed;
mod folders;
mod full_disk;
mod life;
mod moments;
mod notify;
mod owners;
mod ping;
mod private;
mod process;
mod redacted;
mod usage;
