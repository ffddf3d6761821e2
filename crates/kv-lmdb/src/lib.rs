//! The memory-mapped engine on LMDB (`--storageEngine mmapv1`).
//!
//! LMDB is a copy-on-write tree in one mapped file: reads cost least of all and copy nothing, and the
//! system owns the memory. But it has one writer, each durable transaction costs a sync, and without
//! syncs a power cut may leave a broken file. So nothing writes it but a thread in the background, in few
//! large transactions that are always synced; commits go to a log of our own and to a table in memory.
//!
//!   commit --> group --> log record (log/) --> table of the active layer (view.rs) --> published
//!                          |
//!   nagi_kv_disk::journal ------+--> sync each commit interval --> waiters of `Synced`
//!
//!   apply.rs   freezes the active layer, has it written to `data.mdb`, lets the log's segments be used
//!              again; early back-pressure when commits outrun it
//!   step.rs    a layer to the file: synced steps, or all in one when the log could not be synced
//!   view.rs    layers above a state of the file: what a reader sees
//!   merge.rs   one cursor over all of them
//!   load.rs    bulk loads, past log and layers
//!   check.rs   reads every entry, removes damaged ones
//!   allocator.rs  grows the file and makes log segments ahead of need
//!   db/        LMDB: the only `unsafe`; long keys, checksums
//!
//! At any moment, and so after a power cut: file + log = every commit that was synced, and a whole number
//! of later ones. The reasons are in docs/decisions/011.
//!
//! Does not know about: documents, collections.

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

pub use check::{Repair, repair};
pub use engine::{Lmdb, open};
pub use options::{Growth, Options};
