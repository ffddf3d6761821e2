//! The store: collections of documents over one engine, with one catalog and one write loop.
//!
//! A [`Store`] is a handle; all handles share one [`Shared`], which owns the engine, the catalog, the caches and the
//! lock of DDL. `query` and `server` use handles and never see a key of the engine. A plain handle runs each call
//! as a transaction of its own. The handle of a [`crate::Transaction`] is *bound*: all its calls read one snapshot and
//! write into one transaction of the engine, so callers need not know whether they run in a transaction.
//!
//! # Reads
//!
//! ```text
//!   collection(name)   Arc<Collection>: an immutable version with options and indexes, one atomic load
//!   latest()           Reader of the newest commit; each call may see later ones: for one or two reads
//!   snapshot()         Snapshot: all reads see the commits up to one stamp: for scans and cursors
//!   find_by_id()       record cache --miss--> index on _id --> record key --> record
//! ```
//!
//! Readers take no locks on collections or records and do not wait for writers. A cursor is not kept across requests:
//! its position is stored instead, and it resumes in a new snapshot if [`Store::is_current`] finds the collection
//! unchanged.
//!
//! # Writes
//!
//! [`Store::write`] runs a closure on a [`WriteTxn`] and commits. It has the only retry loop for write conflicts, so
//! the closure runs again from its beginning in a new transaction and must not keep state of an earlier attempt:
//!
//! ```text
//!   attempt 0   begin | f: enter the gate, put record, index keys, counters | commit --> stamp
//!                                   | conflict: another transaction holds or has changed the key
//!   interrupt check: killed, timed out --> error
//!   attempt 1   begin, queue for the contended record | f again | commit --> stamp
//! ```
//!
//! The record, its index keys and the counters of the collection become visible in one commit. Before it, the
//! documents that change are removed from the record cache. On a bound handle there is no loop: the conflict is
//! returned, and the owner of the transaction decides. The returned [`Written`] has the stamp of the commit, which is
//! the operation time of the reply.
//!
//! # DDL
//!
//! One statement at a time holds the lock `ddl`. It commits the new catalog entries, publishes a new version of the
//! catalog, and waits until no writer uses the old one (the *gate* of the collection). A drop or rename first *freezes*
//! the collection: it waits for writers in progress and keeps new ones out. The keys of dropped collections are
//! deleted in the background, also after a restart.
//!
//! Invariants
//! - A key of the engine is changed only by [`WriteTxn`], DDL, index builds and maintenance of this crate; every commit
//!   passes `commit/stamps.rs`, which gives it its stamp.
//! - A published `Collection` never changes. A write uses the index list of the version that it entered.
//! - A cached document is the newest committed version, or it is not in the cache.
//!
//! Read next: `txn/mod.rs` (one attempt of a write), `contended.rs` (retries), `commit/stamps.rs` (order of commits),
//! `transaction.rs` (bound handles), `ddl.rs`, `frozen.rs` and `catalog/gate.rs` (schema changes), `reader.rs`
//! (cursors), `cache.rs` (the record cache); docs/format.md (keys), docs/transactions.md, decisions 008 and 046.

mod alone;
pub(crate) mod cache_partition;
pub(crate) mod change_log;
pub(crate) mod commit;
pub(crate) mod conflict_waits;
pub(crate) mod contended;
pub(crate) mod ddl;
pub(crate) mod frozen;
pub(crate) mod insert;
pub(crate) mod members;
pub(crate) mod middle;
pub(crate) mod near_records;
mod points;
mod private;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod reclaim;
pub(crate) mod time_series;
pub(crate) mod transaction;
pub(crate) mod txn;
pub(crate) mod written;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use nagi_bson::{Doc, Value, oid::Generator};
use nagi_budget::Budget;
use nagi_error::Result;
use nagi_kv::sync::{Condvar, Mutex};
use nagi_kv::{Capabilities, Compressor, Durability, Engine, Read, Space};

use crate::{
    Catalog, Collection, Namespace, NodeOptions, Reader, Snapshot, Spill, SpillFigures, WriteTxn,
    annotations::Annotations,
    cache::Cache,
    clock,
    engine_error::engine,
    index,
    record::{self, Packing},
    store::{
        cache_partition::CachePartition,
        change_log::{Feed, Lists},
        commit::{ChangeLog, Client, Stamp, Written, held::HeldCommits, stamps::Stamps},
        contended::until_done,
        ddl::Idents,
        members::Members,
        queue::Queue,
        reader::unique_record_key,
        reclaim::Reclaimer,
        transaction::{Bound, OpenTransactions},
    },
};

/// Options of the store.
#[derive(Clone)]
pub struct StoreOptions {
    /// Memory of the record cache (whole documents read by `_id`), in bytes; 0 disables the cache.
    pub record_cache_bytes: usize,
    /// Compression level of large documents in collections that chose zstd; the level of blocks is an engine
    /// option.
    pub zstd_level: i32,
    /// The memory budget that is charged.
    pub budget: Arc<Budget>,
    /// Logs all changes in `Space::Changes`. All nodes over the same data do, or none does.
    pub change_log: Option<Arc<dyn ChangeLog>>,
    /// How long changes are kept at least, where nodes list their commits; a log by stamp has a size instead.
    pub change_log_lasts: Duration,
    /// Temporary collections of an earlier run stay: a log that is to be applied says what becomes of them.
    pub keep_temporary: bool,
    /// This process as one of several, over an engine to which others may write.
    pub node: NodeOptions,
}

/// The default of zstd too: a higher level costs more time than its space savings are worth.
const ZSTD_LEVEL: i32 = 3;

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            record_cache_bytes: 64 << 20,
            zstd_level: ZSTD_LEVEL,
            budget: Budget::unlimited(),
            change_log: None,
            change_log_lasts: Duration::from_secs(3600),
            keep_temporary: false,
            node: NodeOptions::default(),
        }
    }
}

/// Options of a write.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// The durability required before the write returns.
    pub durability: Durability,
    /// Interrupt check before each retry after a conflict; an error ends the write (killOp, deadline).
    pub interrupt: Option<&'a dyn Fn() -> Result<()>>,
    /// `bypassDocumentValidation`.
    pub bypass_validation: bool,
    /// `bypassEmptyTsReplacement`: empty top-level timestamps of an inserted document are kept.
    pub keep_empty_timestamps: bool,
}

/// A handle to the store, shared by all threads. On a plain handle each call is a transaction of its own; on a
/// handle bound to a [`crate::Transaction`] all calls read and write in that transaction.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bound: Option<Arc<Bound>>,
    /// The client whose commits go through this handle.
    pub(crate) client: Arc<Client>,
}

/// State shared by all handles.
pub struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    /// What the engine promises; constant.
    pub(crate) promises: Capabilities,
    /// The stripes of new collections, as a power of two; constant.
    pub(crate) stripes_power: u32,
    /// For an engine that finds conflicts only at the commit.
    pub(crate) queue: Option<Queue>,
    pub(crate) catalog: ArcSwap<Catalog>,
    /// This node among those that share the data, if it does.
    pub(crate) members: Option<Arc<Members>>,
    /// The lock of DDL, and what only its holder uses.
    pub(crate) ddl: Mutex<Idents>,
    pub(crate) cache: Option<Cache>,
    pub(crate) cache_partition: CachePartition,
    pub(crate) budget: Arc<Budget>,
    pub(crate) annotations: Annotations,
    pub(crate) ids: Generator,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) zstd_level: i32,
    /// Number of active index builds that count against the limit; paired with `build_ended`.
    pub(crate) builds: Mutex<u64>,
    pub(crate) build_ended: Condvar,
    /// Open transactions, which DDL may abort.
    pub(crate) open: OpenTransactions,
    pub(crate) stamps: Stamps,
    pub(crate) held: Arc<HeldCommits>,
    pub(crate) change_log: Option<Arc<dyn ChangeLog>>,
    /// The log is one of nodes that list their commits.
    pub(crate) lists: Option<Arc<Lists>>,
    /// The collection that shows the log, if there is one.
    pub(crate) log_shown: ArcSwapOption<Collection>,
    /// The stamp of the newest entry of the log; 0 until it was searched for, or a commit has logged.
    pub(crate) log_newest: AtomicU64,
    /// The log of a replica set is there, but the server is no member of it.
    pub(crate) counts_unlogged: AtomicBool,
    /// The newest documents of the log, for change streams.
    pub(crate) feed: Feed,
    /// Totals of the sorts and groups that spill to disk.
    pub(crate) spills: Arc<crate::spill::Totals>,
    /// Totals of the bulk builds of indexes.
    pub(crate) bulk_builds: Arc<crate::bulk_figures::BulkTotals>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(members) = &self.members {
            members.stop();
        }
        if let Some(lists) = &self.lists {
            lists.stop();
        }
        self.catalog.load().close();
    }
}

impl std::ops::Deref for Store {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Store {
    /// The engine, for flushes, checkpoints and statistics.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Extension slots: state that upper layers attach to the database.
    pub fn annotations(&self) -> &Annotations {
        &self.annotations
    }

    /// The memory budget of the process.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes of the record cache: used, and its limit.
    pub fn record_cache_bytes(&self) -> (u64, u64) {
        let (used, most) = self.cache.as_ref().map_or((0, 0), Cache::bytes);
        (used as u64, most as u64)
    }

    /// A new ObjectId, as for an insert without `_id`.
    pub fn new_object_id(&self) -> [u8; 12] {
        self.ids.next((clock::now_ms() / 1000) as u32)
    }

    /// Checks that a document could be stored in a collection without a validator.
    ///
    /// # Errors
    /// The errors of [`WriteTxn::insert`] that depend on the document alone.
    pub fn check_insertable(&self, doc: Doc<'_>) -> Result<()> {
        insert::prepare(doc, self, true, &mut Vec::new()).map(drop)
    }

    /// A document as it would be inserted: with an `_id`, and without empty timestamps. `rewritten` is its memory if it
    /// has to be changed.
    ///
    /// # Errors
    /// Those of [`Store::check_insertable`].
    pub fn prepared<'d>(
        &self,
        doc: Doc<'d>,
        keep_empty_timestamps: bool,
        rewritten: &'d mut Vec<u8>,
    ) -> Result<Doc<'d>> {
        insert::prepare(doc, self, keep_empty_timestamps, rewritten)
    }

    /// A new ObjectId with this time in seconds.
    pub fn new_id(&self, seconds: u32) -> [u8; 12] {
        self.ids.next(seconds)
    }

    /// The newest version of the catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        match &self.bound {
            Some(bound) => bound.catalog(&self.shared),
            None => self.catalog.load_full(),
        }
    }

    /// The collection or view, in the newest catalog.
    pub fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        match &self.bound {
            Some(bound) => bound.collection(&self.shared, namespace),
            None => {
                let catalog = self.catalog.load();
                let collection = catalog.collection(namespace)?;
                Some(collection.state.handle(collection))
            }
        }
    }

    /// Returns true if this version of a collection is the newest one; false also after a drop. A parked cursor
    /// checks this before it continues.
    pub fn is_current(&self, collection: &Collection) -> bool {
        collection.state.is_current(collection)
    }

    /// The newest version of a collection that the caller holds; `None` once it is dropped.
    pub fn newest(&self, collection: &Collection) -> Option<Arc<Collection>> {
        collection.state.current()
    }

    /// Reads the newest commits; each call may see later ones. Suitable for one or two reads.
    pub fn latest(&self) -> Reader<'_> {
        Reader::of(self.engine.latest())
    }

    /// A snapshot for many reads; for a bound handle, the transaction's snapshot with its own writes.
    pub fn snapshot(&self) -> Result<Snapshot> {
        match &self.bound {
            Some(bound) => Snapshot::of_transaction(bound),
            None => Ok(Snapshot::of_engine(self.engine.snapshot().map_err(engine)?)),
        }
    }

    /// Like [`Store::find_by_id`] for a collection given by name, without taking a reference on the collection:
    /// many clients that read one collection then write no shared memory. `None` if the collection does not exist,
    /// is a view, or was changed meanwhile, or if the handle is bound to a transaction.
    pub fn point_read<'b>(
        &self,
        namespace: &Namespace,
        id: Value<'_>,
        buf: &'b mut Vec<u8>,
    ) -> Result<Option<Option<Doc<'b>>>> {
        if self.bound.is_some() {
            return Ok(None);
        }
        let catalog = self.catalog.load();
        match catalog.collection(namespace) {
            Some(collection) if !collection.is_view() => {
                let found = self.find_by_id(collection, id, buf)?;
                // An index that was replaced meanwhile is perhaps empty already.
                let whole = found.is_some() || collection.state.is_current(collection);
                Ok(whole.then_some(found))
            }
            _ => Ok(None),
        }
    }

    /// True if no other version of the collection was published, and it was not dropped. What was read of it and its
    /// indexes before the call is then whole.
    pub fn is_newest(&self, collection: &Collection) -> bool {
        collection.state.is_current(collection)
    }

    /// The document with this `_id` as of the newest commit, copied into `buf`. Served from the record cache, or
    /// with two gets (one in a collection clustered by `_id`). No allocation after warm-up, except to fill the
    /// cache, and for a snapshot where stamps are an oracle's.
    pub fn find_by_id<'b>(
        &self,
        collection: &Collection,
        id: Value<'_>,
        buf: &'b mut Vec<u8>,
    ) -> Result<Option<Doc<'b>>> {
        let Some(index) = collection.id_index() else { return Ok(None) };
        index.note_use();
        if let Some(bound) = &self.bound {
            return bound.find_by_id(collection, id, buf);
        }
        let (space, ident) = index.place();
        record::with_scratch(|key, value| {
            let snapshot;
            let mut read: &dyn Read = self.engine.latest();
            key.extend_from_slice(&ident.bytes());
            index::append_id(index, id, key);
            let id_key = &key[4..];
            let mut fill = None;
            if let Some(cache) = &self.cache {
                let hash = Cache::hash(collection.ident, id_key);
                buf.clear();
                match cache.get(hash, collection.ident, id_key, buf) {
                    Ok(()) => return Ok(Some(Doc::trusted(&buf[..]))),
                    Err(permit) => fill = permit,
                }
            } else if !self.promises.one_order && !index.is_of_records() {
                // Two gets of the newest commits would take two timestamps.
                snapshot = self.engine.snapshot().map_err(engine)?;
                read = &*snapshot;
            }
            let Some(entry) = read.get(space, key, value).map_err(engine)? else {
                return Ok(None);
            };
            let found = match index.is_of_records() {
                true => Some(entry),
                false => {
                    let record = unique_record_key(index.layout, entry)?.stored(collection.ident);
                    read.get(collection.space, &record, value).map_err(engine)?
                }
            };
            let Some(value) = found else { return Ok(None) };
            if record::is_packed(value) {
                record::decode(value, buf)?;
            } else {
                let mut none = Vec::new();
                let doc = record::decode(value, &mut none)?;
                buf.clear();
                buf.extend_from_slice(doc.as_bytes());
            }
            if let (Some(fill), Some(cache)) = (fill, &self.cache) {
                cache.fill(fill, collection.ident, &key[4..], buf);
            }
            Ok(Some(Doc::trusted(&buf[..])))
        })
    }

    /// Runs `f` in a transaction and commits. After a conflict the whole call is retried: `f` must not depend on
    /// its earlier attempts.
    pub fn write<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<Written<T>> {
        if let Some(bound) = &self.bound {
            // Conflicts are handled by the transaction's commit or by the code that retries the transaction.
            let value = bound.write(self, options, f)?;
            return Ok(Written { value, stamp: Stamp::Transaction(Arc::clone(bound)) });
        }
        let written = until_done(&options, self.client.conflict_waits(), |attempt, contended| {
            let _turn = self.turn(contended.as_ref(), &options, self.client.conflict_waits());
            let mut txn = WriteTxn::begin(self, &options, attempt, contended.clone())?;
            let done = f(&mut txn);
            *contended = txn.contended();
            let value = done?;
            let stamp = Stamp::Committed(txn.commit(options.durability)?);
            Ok(Written { value, stamp })
        })?;
        self.tell_settings()?;
        Ok(written)
    }

    /// Runs one transaction once, outside of transactions of several statements.
    ///
    /// # Errors
    /// 112 for any conflict: then nothing was written. Those of `f`.
    pub fn write_once<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<Written<T>> {
        let mut txn = WriteTxn::begin(self, &options, 0, None)?;
        let value = f(&mut txn)?;
        let stamp = Stamp::Committed(txn.commit(options.durability)?);
        self.tell_settings()?;
        Ok(Written { value, stamp })
    }

    /// Like [`Store::write`], for maintenance work that does not need the stamp.
    pub(crate) fn write_value<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<T> {
        self.write(options, f).map(|written| written.value)
    }

    /// The encoding of a collection's large documents.
    pub(crate) fn packing(&self, collection: &Collection) -> Packing {
        Packing { compressor: self.compressor(collection), zstd_level: self.zstd_level }
    }

    /// The compressor of a collection's blocks.
    pub fn compressor(&self, collection: &Collection) -> Compressor {
        self.engine.compressor(collection.space)
    }

    /// The creation string that WiredTiger would have for this collection; tools read `block_compressor` from it.
    pub fn creation_string(&self, collection: &Collection) -> String {
        creation_string(self.compressor(collection))
    }

    /// The same for indexes, which all have the same options.
    pub fn index_creation_string(&self) -> String {
        creation_string(self.engine.compressor(Space::Index))
    }

    /// An empty spill for sorted runs.
    pub fn spill(&self) -> Spill {
        Spill::new(Arc::clone(&self.engine), Arc::clone(&self.spills))
    }

    /// Spill figures: currently on disk, and totals since the start.
    pub fn spill_figures(&self) -> SpillFigures {
        self.spills.figures()
    }

    /// Bulk builds of indexes since the start.
    pub fn bulk_build_figures(&self) -> crate::BulkBuildFigures {
        self.bulk_builds.figures()
    }
}

fn creation_string(compressor: Compressor) -> String {
    format!(
        "access_pattern_hint=none,allocation_size=4KB,app_metadata=(formatVersion=1),\
         block_allocation=best,block_compressor={},checksum=on,format=btree,prefix_compression=true,\
         type=file",
        compressor.name()
    )
}
