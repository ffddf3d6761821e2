//! RocksDB behind safe types.
//!
//!   setup/ffi.rs     converts `Options` to RocksDB's options
//!   ffi.rs           the database and write batches
//!   files/ffi.rs     lists and rewrites table files
//!   file_list.rs     checks the MANIFEST before it is read
//!   data.rs          the amount of data, and if it fits into the cache
//!   census/ffi.rs    the bytes of the cache by table file
//!   cursor/raw.rs    the iterator, which owns its bounds, its snapshot and the database
//!   snapshot/ffi.rs  a snapshot for several reads
//!   table/ffi.rs     writes tables that become part of the database
//!   table_keys/ffi.rs  reads the keys of a table
//!   merge/ffi.rs     puts records together from their differences
//!   listen/ffi.rs    notifications of failed compactions
//!   ticker.rs        RocksDB's counters that are read
//!   log/ffi.rs       which logs a recovery would read
//!   native/ffi.rs    declarations of this crate's C++ files

mod cache;
mod census;
mod cursor;
mod data;
mod ffi;
mod file_list;
mod files;
mod listen;
mod log;
mod merge;
mod native;
mod setup;
mod snapshot;
mod table;
mod table_keys;
#[cfg(test)]
mod tests;
mod ticker;

pub(crate) use cursor::{LAST_KEY, RocksCursor};
pub(crate) use ffi::{Batch, Db, Warm, repair_file_list};
pub(crate) use files::LiveFile;
pub(crate) use log::first_needed_log;
pub use native::make_unreadable;
pub(crate) use native::table_opens;
pub(crate) use setup::System;
pub(crate) use snapshot::SnapshotHandle;
pub(crate) use table::TableFile;
pub(crate) use table_keys::{Step, TableKeys};
pub(crate) use ticker::Ticker;
