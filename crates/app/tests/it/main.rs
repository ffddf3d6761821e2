//! The program as users run it: exit codes, one process a folder, the end in order, a full disk.
#![allow(clippy::unwrap_used)] // helpers of tests may

mod damaged;
mod doctor;
mod engines;
mod folders;
mod full_disk;
mod life;
mod private;
mod process;
