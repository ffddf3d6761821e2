//! Nagi as a library: a document database with MongoDB's commands within the application, in a folder or in memory.
//!
//! There is no server, no socket and no async runtime. Each command runs on the thread that calls it, and returns when
//! it is done. A folder has the format of the server's data directory: either program opens it, one at a time.
//!
//! ```
//! use nagi::{Database, Options, doc};
//!
//! # let folder = std::env::temp_dir().join(format!("nagi-doc-crate-{}", std::process::id()));
//! let db = Database::open(&folder, Options::new().cache_mb(64))?;
//! let orders = db.database("shop").collection("orders");
//! orders.create_index(doc! { "item": 1 })?;
//! orders.insert_one(doc! { "item": "tea", "n": 2 })?;
//! for order in orders.find(doc! { "item": "tea" })? {
//!     println!("{}", nagi::to_json(order?.as_doc()));
//! }
//! db.close()?;
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), nagi::Error>(())
//! ```
//!
//! # Documents
//!
//! Documents are BSON: [`DocBuf`] owns the bytes, [`Doc`] borrows them, [`Value`] is one value. Every parameter that is
//! a document takes anything that implements [`Document`], also plain bytes. The feature `bson` adds the types of the
//! official crate `bson`, and `Collection::typed` with serde.
//!
//! # Durability
//!
//! A write that returned survives a crash of the process. The log is synced to disk in the background, ten times a
//! second, so a power cut loses at most what was written since; [`Collection::journaled`] and [`Options::journaled`]
//! wait for the disk.
//!
//! # Memory
//!
//! [`Options::cache_mb`] is the budget of one database. Caches and memtables, sorts and groups, open cursors, staged
//! writes of transactions and index builds are charged to it. They spill to disk, wait or fail with
//! `ExceededMemoryLimit` (146) when it is used up, and caches shrink for the others. Not within the budget are: replies
//! and documents that the application holds, what the allocator loses, and fixed memory (code, threads, stacks): some
//! 60 MB together in a test with the smallest budget and glibc's `malloc`.
//!
//! In a server two more mechanisms watch the process. They belong to the process, not to a library, so here:
//! - Values that the expressions of one request build are counted only if the application's allocator is [`Metered`].
//!   Otherwise an expression such as a `$reduce` over large strings is limited by the sizes of documents alone.
//! - Resident memory is not watched. With glibc's `malloc`, free memory may stay with the process; jemalloc gives it
//!   back.
//!
//! ```standalone_crate
//! use std::alloc::System;
//! #[global_allocator]
//! static ALLOCATOR: nagi::Metered<System> = nagi::Metered(System);
//! # fn main() {}
//! ```
//!
//! # Threads
//!
//! A [`Database`] may be shared by threads, and cloned. It has about ten threads of its own (log, memory, expiry of
//! documents, compaction), which end with [`Database::close`]. RocksDB's pool of background threads, which all
//! databases of a process share, stays idle, and with LMDB one thread that waits for damaged files. Do not use a
//! database in a forked child.
//!
//! # When the disk fails
//!
//! If the log cannot be written or synced for another reason than a full disk, no later write could be acknowledged
//! truthfully: the operating system may report the next sync as a success although pages are lost. The process then
//! logs the reason and **exits with code 14**, as the server does. The next open recovers everything that was
//! acknowledged. With LMDB the same happens when the mapped file cannot be read.
//!
//! # Several databases
//!
//! A process may open several folders, each with its own budget. They share: RocksDB's background threads, 16 reserved
//! file descriptors, 256 MB of unpacked time series buckets, and one verification (`validate` with `full`) at a time.
//!
//! # Log
//!
//! Events go to the logger that the application has installed in crate `log`, with MongoDB's components as targets
//! (`STORAGE`, `INDEX`, `COMMAND`, ...). Without a logger they are dropped.

mod collection;
mod cursor;
mod database;
mod document;
mod error;
mod named;
mod open;
mod options;
mod pipeline;
mod scope;
mod session;
mod stream;
#[cfg(feature = "bson")]
mod typed;

pub use collection::{Collection, Updated};
pub use cursor::Cursor;
pub use database::Database;
pub use document::{Document, Parsed, from_json, to_json};
pub use error::{Error, ErrorKind, Result};
pub use nagi_bson::{
    Array, ArrayBuf, Binary, Decimal128, Doc, DocBuf, DocWriter, Element, Regex, Type, Value,
    ValueBuf, array, doc, number,
};
pub use nagi_budget::Metered;
pub use named::NamedDatabase;
pub use options::{Engine, Options};
pub use session::{Session, Transaction};
pub use stream::ChangeStream;
#[cfg(feature = "bson")]
pub use typed::{TypedCollection, TypedCursor, from_doc, to_doc};
