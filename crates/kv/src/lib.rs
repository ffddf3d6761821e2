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
//! Beside the contract, what engines on disk share: `descriptors` (spare ones for the journal), `fatal`
//! (the end when the log fails), `group` (group commit), `journal` (the thread that syncs the log),
//! `marker` (whose data folder this is), `room` (is there space left), `scratch` (files that nobody keeps).
//! `sync` has the locks and atomics that threads meet at.
//!
//! Does not know about: documents, BSON, collections, MongoDB's error codes.

pub mod conformance;
pub mod descriptors;
pub mod fatal;
pub mod group;
pub mod journal;
pub mod marker;
pub mod overlay;
pub mod room;
pub mod scratch;
pub mod sync;
pub mod table;

mod active;
mod clock;
mod compressor;
mod conflict;
mod contract;
mod error;
mod fault;
mod memory;
mod special;
mod types;

pub use active::{Active, Ticket};
pub use clock::Clock;
pub use compressor::Compressor;
pub use conflict::{Claim, Claimer, Conflicts, KeyHash, Owner};
pub use contract::{Cursor, Engine, Read, Snapshot, Txn};
pub use error::{Error, Result};
pub use fault::{Faults, Faulty, Point};
pub use memory::Memory;
pub use scratch::Scratch;
pub use special::{is_own_entry, refuse_special};
pub use types::{
    CommitStamp, Durability, KeyRange, Limits, Next, RangeSize, Savepoint, Space, TxnOptions,
    Watch, log_key,
};
