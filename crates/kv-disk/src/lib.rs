//! Components shared by the engines on disk: files, the thread that syncs the log, group commit.
//!
//!   marker        the engine and format of a data directory
//!   special       refuses pipes, sockets and devices in a data directory
//!   capacity      refuses writes before the disk is full
//!   descriptors   reserve file descriptors for the log
//!   journal       one thread that syncs the write-ahead log for all waiting commits
//!   group         group commit: one thread writes for all waiting commits
//!   scratch       unnamed files for runs of sorts
//!   fatal         ends the process when the log cannot be written
//!
//! The crate does not know engines, documents, or MongoDB's error codes.

pub mod capacity;
pub mod descriptors;
pub mod fatal;
pub mod group;
pub mod journal;
pub mod marker;
pub mod scratch;

mod special;

pub use special::{is_own_entry, refuse_special};
