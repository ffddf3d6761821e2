//! Collections, records and index keys over the storage contract.
//!
//!   query, server --> Store -- catalog() --> Catalog --> Collection --> Index      immutable, shared
//!                           -- latest(), snapshot() --> Reader --> RecordCursor, IndexCursor
//!                           -- write(f) --> WriteTxn::{insert, update, delete}     the one retry loop
//!                           -- create_indexes, drop_collection, ...                DDL
//!
//! Invariants
//! - Only this crate and the engines see storage keys; their layout is in docs/format.md.
//! - A record, its index keys and the counters of its collection change in one commit.
//! - A `Collection` never changes; DDL publishes a new one, and waits until no writer uses the old.
//!
//! Does not know about: plans, commands, sessions, sockets.

mod aside;
mod build;
mod bulk;
mod cache;
mod capped;
mod catalog;
mod clock;
mod commit;
mod condition;
mod config_string;
mod contended;
mod division;
mod doubts;
mod engine_error;
mod gate;
mod ident;
mod index;
mod insert;
pub mod keystring;
mod namespace;
mod notes;
mod pack;
mod reader;
mod reclaim;
mod record;
mod reindex;
mod room;
mod salvage;
mod session_record;
mod spill;
mod split;
mod store;
mod transaction;
mod ttl;
mod txn;
mod upkeep;
mod validate;
mod written;

pub use aside::lost_and_found;
pub use build::BuildOptions;
pub use capped::Arrivals;
pub use catalog::{
    Catalog, CollMod, Collection, CollectionOptions, CollectionStats, CreatedIndexes,
    IndexSelector, Rename, Uuid, ValidationAction, ValidationLevel, ViewOptions,
};
pub use commit::{Change, ChangeLog, Client, Stamp, Statement, Written};
pub use config_string::{EngineConfig, TableConfig, engine_config, table_config};
pub use division::first_division;
pub use index::{
    Geometry, Grid, Index, IndexKind, IndexSpec, KeyPart, Wildcard, hash_value, key_term,
};
pub use nagi_kv::{CommitStamp, Durability};
pub use namespace::Namespace;
pub use notes::Notes;
pub use reader::{IndexCursor, RECORDS_AT_ONCE, Reader, RecordCursor, SharedReader, Snapshot};
pub use record::{DOCUMENT_DEPTH_MAX, RecordBuf, RecordId};
pub use reindex::Repaired;
pub use salvage::{LostRange, Salvaged};
pub use session_record::{SessionKey, SessionRecord};
pub use spill::{NextEntry, Spill, SpillCursor, SpillFigures};
pub use store::{Store, StoreOptions, WriteOptions};
pub use transaction::{End, Lifetime, Transaction};
pub use txn::WriteTxn;
pub use validate::ValidateReport;
pub use written::KeysWritten;
