//! Collections, records and index keys over the storage contract.
//!
//!   query, server --> Store -- catalog() --> Catalog --> Collection --> Index      immutable, shared
//!                           -- latest(), snapshot() --> Reader --> RecordCursor, IndexCursor
//!                           -- write(f) --> WriteTxn::{insert, update, delete}     the only retry loop
//!                           -- create_indexes, drop_collection, ...                DDL
//!
//! Where to read: `store/txn/mod.rs` (writes), `store/transaction.rs` (transactions of clients), `store/ddl.rs` and
//! `gate.rs` (schema changes), `build/` (index builds), `index/keygen.rs` and `keystring/` (index keys),
//! `store/commit/` (change log and stamps).
//!
//! # Invariants
//! - Only this crate and the engines see storage keys; their layout is in docs/format.md.
//! - A record, its index keys and the counters of its collection change in one commit.
//! - A `Collection` is immutable; DDL publishes a new version, and waits until no writer uses the old one.
//!
//! The crate does not know plans, commands, sessions, or sockets.

mod alter;
mod annotations;
mod attend;
mod build;
mod bulk_figures;
mod cache;
mod catalog;
mod clock;
mod config_string;
mod engine_error;
mod ident;
mod index;
pub mod keystring;
mod log_keeper;
mod memory;
mod namespace;
mod node;
mod open;
mod pack;
mod partition_boundary;
mod record;
mod record_key;
mod repair;
mod session_record;
mod shrink;
mod spill;
mod steward;
mod store;
mod ttl;
mod upkeep;

pub use alter::rename::Rename;
pub use alter::spread::Spread;
pub use alter::target::TargetFacts;
pub use annotations::Annotations;
pub use build::{BuildOptions, Copied, Trial};
pub use bulk_figures::BulkBuildFigures;
pub use catalog::{
    Arrivals, BucketFacts, CachedStats, Catalog, CollMod, Collection, CollectionOptions,
    CollectionStats, CollectionVersion, CreatedIndexes, IndexSelector, Uuid, ValidationAction,
    ValidationLevel, ViewOptions,
};
pub use config_string::{EngineConfig, TableConfig, engine_config, table_config};
pub use index::{
    Geometry, Grid, Index, IndexKind, IndexSpec, KeyPart, KindFacts, PathField,
    given as given_filter, hash_value, key_term,
};
pub use nagi_kv::{
    CommitStamp, DiskActivity, DiskSegment, Durability, EngineEvent, interrupt,
    reuse::CacheEstimate,
};
pub use namespace::Namespace;
pub use node::{NodeMode, NodeOptions, OnLost};
pub use record::{DOCUMENT_DEPTH_MAX, RecordBuf, RecordId, RecordKey};
pub use repair::quarantine::lost_and_found;
pub use repair::reindex::Repaired;
pub use repair::salvage::{LostRange, Salvaged};
pub use repair::validate::{ValidateReport, ValidateStep};
pub use session_record::{SessionKey, SessionRecord};
pub use shrink::Shrunk;
pub use spill::{NextEntry, Spill, SpillCursor, SpillFigures};
pub use store::cache_partition::first_partition;
pub use store::change_log::{
    ChangeScope, IdHash, LogDocument, LogPosition, Look, NAMESPACE as OPLOG_NAMESPACE, OpHead,
    Oplog, Portion, Shown, Trimmed, Watch, patch,
};
pub use store::commit::{
    CatalogChange, Change, ChangeLog, Client, EditKind, Joins, Replaced, Stamp, Statement, Waits,
    Written,
};
pub use store::conflict_waits::Holder;
pub use store::members::{NODE_ANSWER_BYTES_MAX, NodeAnswer, NodeState, QUESTION_BYTES_MAX};
pub use store::near_records::NearRecords;
pub use store::reader::{
    IndexCursor, RECORDS_AT_ONCE, Reader, RecordCursor, SharedReader, Snapshot,
};
pub use store::time_series::listed_options;
pub use store::transaction::{End, Lifetime, Transaction};
pub use store::txn::WriteTxn;
pub use store::written::KeysWritten;
pub use store::{Store, StoreOptions, WriteOptions};
