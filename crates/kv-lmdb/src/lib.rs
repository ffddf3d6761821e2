//! The memory-mapped engine on LMDB (`--storageEngine mmapv1`).
//!
//! LMDB is a copy-on-write B+ tree in one mapped file: reads are cheap and copy nothing, and the operating system
//! manages the memory. But it allows only one writer, each durable transaction costs a sync, and without syncs a
//! power cut may leave a broken file. So only a background thread writes the file, in few large transactions that
//! are always synced. Commits go to the engine's own write-ahead log and to a table in memory.
//!
//!   commit --> group --> log record (log/) --> table of the active layer (view.rs) --> published
//!                          |
//!   nagi_kv_disk::journal -+--> sync at each commit interval --> wakes waiters of `Synced`
//!
//!   core.rs    the commit path: group, stamps, log record, active layer
//!   apply.rs   freezes the active layer, has it written to `data.mdb`, releases its log segments;
//!              backpressure if commits outrun it
//!   step.rs    writes a layer to the file: in synced steps, or in one transaction if the log cannot be synced
//!   view.rs    layers above a snapshot of the file: the data that a reader sees
//!   merge.rs   one cursor over all of them
//!   load.rs    bulk loads, which bypass log and layers
//!   check.rs   reads every entry, removes damaged ones
//!   allocator.rs  grows the file and makes log segments ahead of need
//!   zeroes.rs  allocates by writing zeroes, where the file system cannot reserve blocks
//!   db/        LMDB: the only `unsafe` code; long keys, checksums
//!
//! Invariant: at any moment, and so after a power cut, file and log together contain every commit that was synced,
//! and a prefix of the later ones. The reasons are in docs/decisions/011.
//!
//! The engine does not know documents or collections.

mod allocator;
mod apply;
mod check;
mod core;
mod db;
mod engine;
mod hook;
mod load;
mod log;
mod merge;
mod options;
#[cfg(test)]
mod power_cut;
mod stats;
mod step;
mod view;
mod zeroes;

pub use check::{Repair, repair};
pub use engine::{Lmdb, open};
pub use options::{Growth, Options};
