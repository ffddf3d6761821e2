//! The spool: where the log's bytes are between a commit and the disk.
//!
//! A commit must not wait for the file system. Writing to a file usually takes two microseconds, but
//! now and then a hundred milliseconds: while the file system commits its own journal, while the system
//! makes writers pause because too much of the page cache is dirty (whoever made it dirty), while a
//! new file is created or, on a file system without `fallocate`, grown. So commits write to a ring in
//! shared memory, and a thread of the spool's own takes the bytes from there to the log's files.
//!
//!   commit --> RocksDB --> spool.cc --> ring (shared memory) --> thread.rs --> <number>.log
//!   sync   ------------------------------> waits for the thread, then fdatasync
//!
//! The ring is a file of a memory file system, so what it holds survives the process: the next one
//! that opens the folder brings it to the log's files first (replay.rs). A machine that stops loses
//! it, as it would lose what the page cache holds; `Durability::Synced` waits for the disk.
//!
//!   ring.rs     records in the shared memory; one producer, one consumer
//!   files.rs    the log's files: create, use again, append, allocate ahead
//!   thread.rs   ring -> files; who waits for room, for a sync, for all to be written
//!   replay.rs   what a killed process left; the file `SPOOL` names its ring
//!   spool.cc  RocksDB's file system interface; ffi.rs calls in both directions
//!   raw.rs      the mapping and the system's calls
//!
//! Formats: docs/format.md, "The spool". Why: docs/decisions/017.

mod ffi;
mod files;
mod place;
mod raw;
mod replay;
mod ring;
mod thread;

pub(crate) use ffi::Environment;
pub(crate) use files::ahead;
pub(crate) use place::open;
pub(crate) use thread::{Gauges, Spool};

#[cfg(test)]
mod tests;
