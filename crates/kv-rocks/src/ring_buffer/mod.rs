//! The write-ahead ring buffer (`RingBuffer`): holds the bytes of the log between a commit and the log's files.
//!
//! A commit must not wait for the file system. Writing to a file usually takes two microseconds, but sometimes a
//! hundred milliseconds: while the file system commits its own journal, while the system throttles writers because
//! too much of the page cache is dirty (no matter which process made it dirty), or while a new file is created or,
//! without `fallocate`, grown. So commits write to a ring buffer in shared memory, and a thread copies the bytes
//! from there to the log's files.
//!
//!   commit --> RocksDB --> ring_buffer.cc --> ring (shared memory) --> thread.rs --> <number>.log
//!   sync   ------------------------------> waits for the thread, then fdatasync
//!
//! The ring is a file of a memory file system, so its content survives the process: the next process that opens the
//! data directory first writes it to the log's files (replay.rs). A crash of the machine loses it, like the content
//! of the page cache; `Durability::Synced` waits for the disk.
//!
//! ```text
//!   commit 1     ring: [1]          acknowledged (Buffered)
//!   commit 2     ring: [1 2]
//!   thread       ring: [2]          log file: 1
//!   kill -9      ring: [2]          log file: 1         the ring is a file in /dev/shm
//!   next start   ring: []           log file: 1 2       replay, then RocksDB's recovery
//! ```
//!
//!   ring.rs     records in the shared memory; one producer, one consumer
//!   files.rs    the log's files: create, reuse, append, allocate ahead
//!   thread.rs   ring -> files; waits for space, for a sync, for everything to be written
//!   place.rs    finds, creates and removes rings; the file `SPOOL` names the ring of a folder
//!   found.rs    opens the ring of an earlier process, if no other user can have made or changed it
//!   replay.rs   writes the content of a killed process's ring to the log's files
//!   ring_buffer.cc    RocksDB's file system interface; ffi.rs has the calls in both directions
//!   raw.rs      the mapping and system calls
//!
//! Formats: docs/format.md, "The ring buffer of the write-ahead log". Why: docs/decisions/017.

mod ffi;
mod files;
mod found;
mod place;
mod raw;
mod replay;
mod ring;
mod thread;

pub(crate) use ffi::Environment;
pub(crate) use files::ahead;
pub(crate) use place::open;
pub(crate) use thread::{Gauges, RingBuffer};

#[cfg(test)]
mod tests;
