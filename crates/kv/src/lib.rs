//! The storage contract: ordered bytes, snapshots, transactions.
//!
//! Everything above this crate sees one `Engine`: a handful of ordered key spaces with snapshot
//! isolation. Everything below it (RocksDB, memory, later others) implements these traits and is
//! held to them by `conformance::run`. The traits are object safe on purpose: a virtual call costs
//! nanoseconds, a read a microsecond, and nothing above is compiled once per engine.
//!
//!   Engine -- latest() --> Read         newest committed state, no snapshot, no allocation
//!          -- snapshot() -> Snapshot    one consistent state, shareable between threads
//!          -- begin() ---> Txn          reads its own writes; commits atomically or not at all
//!                                       |
//!                          Read -- cursor() --> Cursor   owns whatever keeps it alive
//!
//! `sync` has the locks and atomics that threads meet at.
//!
//! Does not know about: documents, BSON, collections, MongoDB's error codes.

pub mod conformance;
pub mod overlay;
pub mod sync;
pub mod table;

mod active;
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
pub use batch::Batch;
pub use capabilities::Capabilities;
pub use clock::Clock;
pub use compressor::Compressor;
pub use conflict::{Claim, Claimer, Conflicts, KeyHash, Owner};
pub use contract::{Cursor, Engine, Maintenance, Read, Snapshot, Tuning, Txn};
pub use error::{Error, Result};
pub use fault::{Faults, Faulty, Point};
pub use memory::Memory;
pub use scratch::Scratch;
pub use types::{
    CommitStamp, Durability, KeyRange, Limits, Next, RangeSize, Savepoint, Space, TxnOptions,
    Watch, log_key,
};
