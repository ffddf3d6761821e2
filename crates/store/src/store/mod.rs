//! The store: one engine, one catalog, one write loop.

pub(crate) mod commit;
pub(crate) mod contended;
pub(crate) mod ddl;
pub(crate) mod division;
pub(crate) mod frozen;
pub(crate) mod insert;
pub(crate) mod private;
pub(crate) mod reader;
pub(crate) mod reclaim;
pub(crate) mod transaction;
pub(crate) mod txn;
pub(crate) mod written;
use std::sync::Arc;

use arc_swap::ArcSwap;
use nagi_bson::{Doc, Value, oid::Generator};
use nagi_budget::Budget;
use nagi_error::Result;
use nagi_kv::sync::{Condvar, Mutex};
use nagi_kv::{Compressor, Durability, Engine, Space};

use crate::{
    Catalog, Collection, Namespace, Reader, Snapshot, Spill, SpillFigures, WriteTxn,
    cache::Cache,
    clock,
    engine_error::engine,
    index,
    notes::Notes,
    record::{self, Packing},
    store::{
        commit::{ChangeLog, Client, Stamp, Written, stamps::Stamps},
        contended::until_done,
        ddl::DdlState,
        division::Division,
        reader::unique_record_key,
        reclaim::Reclaimer,
        transaction::{Bound, OpenTransactions},
    },
};

/// How the store runs.
#[derive(Clone)]
pub struct StoreOptions {
    /// Memory for whole documents read by `_id`; 0 turns the cache off.
    pub record_cache_bytes: usize,
    /// Of large documents of collections that chose zstd; what blocks have is the engine's option.
    pub zstd_level: i32,
    /// What memory is charged to.
    pub budget: Arc<Budget>,
    /// Keeps all changes in `Space::Changes`.
    pub change_log: Option<Arc<dyn ChangeLog>>,
}

/// What zstd takes for its default, too: more costs more time than it saves space.
const ZSTD_LEVEL: i32 = 3;

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            record_cache_bytes: 64 << 20,
            zstd_level: ZSTD_LEVEL,
            budget: Budget::unlimited(),
            change_log: None,
        }
    }
}

/// How a write is done.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'a> {
    /// When it counts as done.
    pub durability: Durability,
    /// Asked before each retry after a conflict; an error ends the write (killOp, deadline).
    pub interrupt: Option<&'a dyn Fn() -> Result<()>>,
    /// `bypassDocumentValidation`.
    pub bypass_validation: bool,
    /// `bypassEmptyTsReplacement`: empty timestamps at the top of an inserted document stay.
    pub keep_empty_timestamps: bool,
}

/// A way to everything stored; shared by all threads. Plain, each call is a transaction of its own;
/// bound to a [`crate::Transaction`], all calls read and write in that.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bound: Option<Arc<Bound>>,
    /// The client whose commits go through this handle.
    pub(crate) client: Arc<Client>,
}

/// What all handles share.
pub struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) ddl: Mutex<DdlState>,
    pub(crate) cache: Option<Cache>,
    pub(crate) division: Division,
    pub(crate) budget: Arc<Budget>,
    pub(crate) notes: Notes,
    pub(crate) ids: Generator,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) zstd_level: i32,
    /// Index builds under way that count, for those who wait until one has ended.
    pub(crate) builds: Mutex<u64>,
    pub(crate) build_ended: Condvar,
    /// Transactions that DDL ends.
    pub(crate) open: OpenTransactions,
    pub(crate) stamps: Stamps,
    pub(crate) change_log: Option<Arc<dyn ChangeLog>>,
    /// What sorts and groups have on disk.
    pub(crate) spills: Arc<crate::spill::Totals>,
}

impl Drop for Shared {
    fn drop(&mut self) {
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
    /// The engine, for flush, checkpoint and statistics.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// What the layer above keeps for the whole database.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The account of the process's memory.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes of whole documents in memory, and how many there may be.
    pub fn record_cache_bytes(&self) -> (u64, u64) {
        let (used, most) = self.cache.as_ref().map_or((0, 0), Cache::bytes);
        (used as u64, most as u64)
    }

    /// A new ObjectId, as an insert without `_id` gets one.
    pub fn new_object_id(&self) -> [u8; 12] {
        self.ids.next((clock::now_ms() / 1000) as u32)
    }

    /// Whether a document could be stored in a collection without rules of its own.
    ///
    /// # Errors
    /// Those of [`WriteTxn::insert`] that depend on the document alone.
    pub fn check_insertable(&self, doc: Doc<'_>) -> Result<()> {
        insert::prepare(doc, self, true, &mut Vec::new()).map(drop)
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

    /// Whether this version of a collection is still the newest; false too once it is dropped.
    /// What a parked cursor asks before it continues.
    pub fn is_current(&self, collection: &Collection) -> bool {
        collection.state.is_current(collection)
    }

    /// The newest version of a collection that the caller holds; none once it is dropped.
    pub fn newest(&self, collection: &Collection) -> Option<Arc<Collection>> {
        collection.state.current()
    }

    /// Reads the newest commits; each call may see later ones. For one or two reads.
    pub fn latest(&self) -> Reader<'_> {
        Reader::of(self.engine.latest())
    }

    /// One state for many reads; of a bound handle, the transaction's, with its own writes.
    pub fn snapshot(&self) -> Result<Snapshot> {
        match &self.bound {
            Some(bound) => Snapshot::of_transaction(bound),
            None => Ok(Snapshot::of_engine(self.engine.snapshot().map_err(engine)?)),
        }
    }

    /// As [`Store::find_by_id`] of the collection with this name, without a reference of the collection's own: many
    /// clients that read one collection write nothing in common. None where that cannot be: there is no such
    /// collection, it is a view, or the handle is bound to a transaction.
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
                self.find_by_id(collection, id, buf).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The document with this `_id`, newest commit, copied into `buf`. From the record cache, or two
    /// gets (one where records lie under their ids). No allocation after warm-up, but where the cache is filled.
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
        let read = self.engine.latest();
        let (space, ident) = index.place();
        record::with_scratch(|key, value| {
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

    /// Runs `f` in a transaction and commits. After a conflict it all begins again: `f` must start
    /// afresh each time.
    pub fn write<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<Written<T>> {
        if let Some(bound) = &self.bound {
            // The transaction's own commit, or whoever repeats it, deals with conflicts.
            let value = bound.write(self, options, f)?;
            return Ok(Written { value, stamp: Stamp::Transaction(Arc::clone(bound)) });
        }
        until_done(&options, |attempt, contended| {
            let mut txn = WriteTxn::begin(self, &options, attempt, contended.clone())?;
            let done = f(&mut txn);
            *contended = txn.contended();
            let value = done?;
            let stamp = Stamp::Committed(txn.commit(options.durability)?);
            Ok(Written { value, stamp })
        })
    }

    /// As [`Store::write`], for upkeep that does not ask for the stamp.
    pub(crate) fn write_value<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<T> {
        self.write(options, f).map(|written| written.value)
    }

    /// How a collection's large documents are stored.
    pub(crate) fn packing(&self, collection: &Collection) -> Packing {
        Packing { compressor: self.compressor(collection), zstd_level: self.zstd_level }
    }

    /// What a collection's blocks are compressed with.
    pub fn compressor(&self, collection: &Collection) -> Compressor {
        self.engine.compressor(collection.space)
    }

    /// How WiredTiger would have been told to make the collection; tools look here for
    /// `block_compressor`.
    pub fn creation_string(&self, collection: &Collection) -> String {
        creation_string(self.compressor(collection))
    }

    /// The same of the indexes, which are all alike.
    pub fn index_creation_string(&self) -> String {
        creation_string(self.engine.compressor(Space::Index))
    }

    /// A place for runs; empty.
    pub fn spill(&self) -> Spill {
        Spill::new(Arc::clone(&self.engine), Arc::clone(&self.spills))
    }

    /// What is on disk, and what was since the start.
    pub fn spill_figures(&self) -> SpillFigures {
        self.spills.figures()
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
