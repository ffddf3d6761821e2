//! What engines on disk share: files, the thread that syncs the log, commits in groups.
//!
//!   marker        whose data directory this is, and in which format
//!   special       files that are no data of ours, pipes and devices among them
//!   room          is there space left on the disk
//!   descriptors   spare file descriptors for the journal
//!   journal       one thread that syncs the log for all waiting commits
//!   group         one thread that writes for all commits that wait
//!   scratch       files for runs of sorts, which have no name
//!   fatal         the end of the process when the log cannot be written
//!
//! Does not know about: any engine, documents, MongoDB's error codes.

pub mod descriptors;
pub mod fatal;
pub mod group;
pub mod journal;
pub mod marker;
pub mod room;
pub mod scratch;

mod special;

pub use special::{is_own_entry, refuse_special};
