//! RocksDB behind safe types.
//!
//! `setup/ffi.rs` turns `Options` into RocksDB's; `ffi.rs` is the database and write batches;
//! `files/ffi.rs` lists and rewrites table files; `file_list.rs` looks at the MANIFEST before it is read;
//! `cursor/raw.rs` is the iterator, which owns its bounds, its snapshot and the database;
//! `snapshot/ffi.rs` is one state for many reads;
//! `listen/ffi.rs` hears of compactions that failed;
//! `log/ffi.rs` asks which logs a recovery would read;
//! `native/ffi.rs` is what the C++ files of this crate add.

mod cache;
mod cursor;
mod ffi;
mod file_list;
mod files;
mod listen;
mod log;
mod native;
mod setup;
mod snapshot;
mod table;

pub(crate) use cursor::RocksCursor;
pub(crate) use ffi::{Batch, Db, Ticker, Warm, repair_file_list};
pub(crate) use files::LiveFile;
pub(crate) use log::first_needed_log;
pub use native::make_unreadable;
pub(crate) use native::table_opens;
pub(crate) use setup::System;
pub(crate) use snapshot::SnapshotHandle;
pub(crate) use table::TableFile;
