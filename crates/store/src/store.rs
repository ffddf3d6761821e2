//! The store: one engine, one catalog, one write loop.

use std::sync::Arc;

use arc_swap::ArcSwap;
use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::Result;
use nagi_kv::{Durability, Engine};

use crate::{
    BuildOptions, Catalog, CollMod, Collection, CollectionStats, CreatedIndexes, IndexSelector,
    Namespace, Reader, Snapshot, ValidateReport, WriteTxn, engine_error::engine,
};

/// How the store runs.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Memory for whole documents read by `_id`; 0 turns the cache off.
    pub record_cache_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { record_cache_bytes: 64 << 20 }
    }
}

/// How a write is done.
#[derive(Clone, Copy)]
pub struct WriteOptions<'a> {
    /// When it counts as done.
    pub durability: Durability,
    /// Asked before each retry after a conflict; an error ends the write (killOp, deadline).
    pub interrupt: Option<&'a dyn Fn() -> Result<()>>,
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        WriteOptions { durability: Durability::Buffered, interrupt: None }
    }
}

/// Everything stored. Shared by all threads.
pub struct Store {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) catalog: ArcSwap<Catalog>,
}

impl Store {
    /// Reads the catalog, finishes what a crash left half done.
    pub fn open(engine: Arc<dyn Engine>, options: StoreOptions) -> Result<Arc<Store>> {
        let _ = options;
        let catalog = ArcSwap::from_pointee(Catalog::default());
        Ok(Arc::new(Store { engine, catalog }))
    }

    /// The engine, for flush, checkpoint and statistics.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// The newest version of the catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// The collection or view, in the newest catalog.
    pub fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.catalog.load().collection(namespace).cloned()
    }

    /// Reads the newest commits; each call may see later ones. For one or two reads.
    pub fn latest(&self) -> Reader<'_> {
        Reader { read: self.engine.latest() }
    }

    /// One state for many reads.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot { inner: self.engine.snapshot().map_err(engine)? })
    }

    /// The document with this `_id`, newest commit, copied into `buf`. From the record cache, or two
    /// gets. No allocation after warm-up.
    pub fn find_by_id<'b>(
        &self,
        collection: &Collection,
        id: Value<'_>,
        buf: &'b mut Vec<u8>,
    ) -> Result<Option<Doc<'b>>> {
        let _ = (collection, id, buf);
        unimplemented!("next commit")
    }

    /// Runs `f` in a transaction and commits. After a conflict it all begins again: `f` must start
    /// afresh each time.
    pub fn write<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<T> {
        let _ = (options, f);
        unimplemented!("next commit")
    }

    /// `create`: same options as an existing one: that one; other options: 48.
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
    ) -> Result<Arc<Collection>> {
        let _ = (namespace, options);
        unimplemented!("next commit")
    }

    /// The collection, created if need be: what a first insert does.
    pub fn collection_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        match self.collection(namespace) {
            Some(collection) => Ok(collection),
            None => self.create_collection(namespace, Doc::EMPTY),
        }
    }

    /// Drops a collection or view; gives back what it was, none if it did not exist.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        let _ = namespace;
        unimplemented!("next commit")
    }

    /// Drops every collection of a database; false if there was none.
    pub fn drop_database(&self, database: &str) -> Result<bool> {
        let _ = database;
        unimplemented!("next commit")
    }

    /// Renames within a database, copies across. Codes 26, 48, 73, 166.
    pub fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Result<()> {
        let _ = (from, to, drop_target);
        unimplemented!("next commit")
    }

    /// Creates the collection if need be, then builds the indexes that do not exist. Returns when
    /// they are ready; other work, also on this collection, goes on.
    pub fn create_indexes(
        &self,
        namespace: &Namespace,
        specs: &[Doc<'_>],
        options: BuildOptions<'_>,
    ) -> Result<CreatedIndexes> {
        let _ = (namespace, specs, options);
        unimplemented!("next commit")
    }

    /// Drops indexes; gives back how many there were. Codes 26, 27, 72, 181.
    pub fn drop_indexes(&self, namespace: &Namespace, which: IndexSelector<'_>) -> Result<usize> {
        let _ = (namespace, which);
        unimplemented!("next commit")
    }

    /// `collMod`; gives back the fields of the reply (`*_old`, `*_new`).
    pub fn coll_mod(&self, namespace: &Namespace, changes: CollMod<'_>) -> Result<DocBuf> {
        let _ = (namespace, changes);
        unimplemented!("next commit")
    }

    /// Figures of a collection.
    pub fn stats(&self, collection: &Collection) -> Result<CollectionStats> {
        let _ = collection;
        unimplemented!("next commit")
    }

    /// Reads everything and compares records, index keys and counters.
    pub fn validate(&self, collection: &Collection) -> Result<ValidateReport> {
        let _ = collection;
        unimplemented!("next commit")
    }
}
