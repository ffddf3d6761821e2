//! The storage contract: ordered bytes, snapshots, transactions.
//!
//! Layers above this crate see one `Engine`: a handful of ordered key spaces with snapshot isolation. Engines
//! (RocksDB, LMDB, memory) implement these traits, and `conformance::run` tests that they do. The traits are object
//! safe on purpose: a virtual call costs nanoseconds and a read a microsecond, so the layers above need not be
//! compiled once per engine.
//!
//!   Engine -- latest() --> Read         newest committed data, no snapshot, no allocation
//!          -- snapshot() -> Snapshot    one consistent view, which threads may share
//!          -- begin() ---> Txn          reads its own writes; commits atomically or not at all
//!                                       |
//!                          Read -- cursor() --> Cursor   owns everything that it reads from
//!
//! Where to read: `contract.rs` (the traits, with a timeline), `conflict.rs` (write conflicts), `overlay/` (staged
//! writes and transactions), `active.rs` (which versions may be removed), `clock.rs` (stamps). `sync` has the locks
//! and atomics that threads share.
//!
//! The crate does not know documents, BSON, collections, or MongoDB's error codes.

pub mod conformance;
pub mod difference;
pub mod interrupt;
pub mod overlay;
pub mod reuse;
pub mod sync;
pub mod table;

mod active;
mod activity;
mod batch;
mod capabilities;
mod clock;
mod compressor;
mod conflict;
mod contract;
mod error;
mod fault;
mod memory;
mod scratch;
mod types;

pub use active::{Active, Ticket};
pub use activity::{DiskActivity, DiskSegment, EngineEvent};
pub use batch::Batch;
pub use capabilities::Capabilities;
pub use clock::Clock;
pub use compressor::Compressor;
pub use conflict::{Claim, Claimer, Conflicts, KeyHash, Owner};
pub use contract::{Cursor, Engine, KEYS_AT_ONCE, Maintenance, Read, Snapshot, Tuning, Txn};
pub use error::{Error, Result};
pub use fault::{Faults, Faulty, Point};
pub use memory::{Memory, minimal::Minimal};
pub use scratch::Scratch;
pub use types::{
    CachedSize, CommitStamp, Durability, KeyRange, Limits, LogKeys, Next, RangeSize, Savepoint,
    Space, TxnOptions, Watch, log_key,
};
