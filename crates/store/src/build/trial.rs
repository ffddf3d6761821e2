//! Indexes on trial: a copy of a collection in memory, with indexes that the collection does not have.
//!
//! ```text
//!   collection (any engine)                    trial (memory engine of its own)
//!   options, indexes -- Trial::new ----------> the same name, collation and indexes, and the ones on trial
//!   some documents --- Trial::insert --------> documents and keys, by the ordinary write path
//!                      Trial::show ----------> chooses which of the indexes on trial plans may use
//! ```
//!
//! The planner and explain run on [`Trial::store`] as on any other store. So every kind of index can be tried, its keys
//! are those that a build would write, and neither the catalog nor the plan cache of the server is touched. The caller
//! chooses the documents: see `hypothetical` in the crate `query`.
//!
//! Nothing that a trial does is logged: an operator must not read there that an index was built.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Result, bail};
use nagi_kv::{Durability, Memory, Space};

use super::{
    plan::{checked, made, missing},
    with_new,
};
use crate::{
    Collection, Index, IndexSpec, Store, StoreOptions, WriteOptions,
    catalog::{self, CollectionOptions},
    engine_error::engine,
    store::ddl::{Ddl, create},
};

/// A copy of a collection in memory. Its memory is freed when it is dropped.
pub struct Trial {
    store: Arc<Store>,
    /// The version with all indexes.
    full: Arc<Collection>,
    /// The names of the indexes on trial.
    names: Vec<Box<str>>,
}

impl Trial {
    /// Makes an empty copy of `of` with the indexes `specs` in addition. Its documents and keys may have `bytes_max`
    /// bytes, including the overhead of each entry.
    ///
    /// # Errors
    /// Those of [`Store::create_indexes`] for the specifications; 68 if an index exists already.
    pub fn new(of: &Collection, specs: &[Doc<'_>], bytes_max: usize) -> Result<Trial> {
        let engine = Arc::new(Memory::with_limit(bytes_max));
        let options = StoreOptions { record_cache_bytes: 0, ..StoreOptions::default() };
        let store = Store::open(engine, options)?;
        let specs = parsed(of, specs)?;
        let mut ddl = Ddl::begin(&store)?;
        let copy = create(&mut ddl, &of.namespace, copied_options(of)?, Some(Space::Records))?;
        let there = of.ready_indexes().filter(|index| !index.spec.is_id());
        let there = there.filter(|index| !index.spec.is_clustered());
        let mut indexes: Vec<Arc<Index>> = Vec::new();
        for spec in there.map(|index| index.spec.clone()).chain(specs.iter().cloned()) {
            indexes.push(Arc::new(made(&mut ddl, &copy, spec, true)?));
        }
        let full = ddl.put(copy.with_indexes(with_new(&copy, &indexes)))?;
        ddl.finish_with(Durability::Buffered)?;
        let names = specs.into_iter().map(|spec| spec.name).collect();
        Ok(Trial { store, full, names })
    }

    /// The store with the copy.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The names of the indexes on trial.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The version of the copy that has all indexes.
    pub fn collection(&self) -> &Arc<Collection> {
        &self.full
    }

    /// Inserts documents. All indexes must be shown.
    ///
    /// # Errors
    /// 11000 if they have the same key of a unique index; 171 and others if a document cannot be indexed; 146 if
    /// the copy is full.
    pub fn insert(&self, docs: &[DocBuf]) -> Result<()> {
        let options = WriteOptions {
            bypass_validation: true,
            keep_empty_timestamps: true,
            ..WriteOptions::default()
        };
        self.store
            .write(options, &mut |txn| {
                docs.iter().try_for_each(|doc| txn.insert(&self.full, doc.as_doc()).map(drop))
            })
            .map(drop)
    }

    /// The bytes of each index's entries, uncompressed and without overhead. Not of an index whose entries are the
    /// records. Reads all entries.
    pub fn index_bytes(&self) -> Result<Vec<(Box<str>, u64)>> {
        let read = self.store.engine().latest();
        let bytes_of = |index: &Arc<Index>| {
            let (space, ident) = index.place();
            let mut cursor = read.cursor(space, &ident.bytes(), &ident.end()).map_err(engine)?;
            let mut bytes = 0;
            let mut found = cursor.seek(&ident.bytes()).map_err(engine)?;
            while found {
                bytes += (cursor.key().len() + cursor.value().len()) as u64;
                found = cursor.next().map_err(engine)?;
            }
            Ok((index.spec.name.clone(), bytes))
        };
        self.full.indexes.iter().filter(|index| !index.is_of_records()).map(bytes_of).collect()
    }

    /// Lets plans use those indexes on trial for which `is_shown` returns true, and the collection's own.
    pub fn show(&self, is_shown: &dyn Fn(&str) -> bool) -> Result<()> {
        let kept = |index: &&Arc<Index>| {
            let on_trial = self.names.iter().any(|name| **name == *index.name());
            !on_trial || is_shown(index.name())
        };
        let indexes = self.full.indexes.iter().filter(kept).cloned().collect();
        let mut ddl = Ddl::begin(&self.store)?;
        ddl.put(self.full.with_indexes(indexes))?;
        ddl.finish_with(Durability::Buffered)
    }
}

/// The specifications, checked as those of a build.
fn parsed(of: &Collection, specs: &[Doc<'_>]) -> Result<Vec<IndexSpec>> {
    let is_clustered = of.options.clustered.is_some();
    let parse = |spec: &Doc<'_>| {
        let spec = catalog::without_clustered(*spec, is_clustered)?;
        IndexSpec::parse_with(spec.as_doc(), &of.namespace, false, of.options.collation)
            .and_then(checked)
    };
    let parsed = specs.iter().map(parse).collect::<Result<Vec<_>>>()?;
    let new = missing(of, &parsed)?;
    match parsed.iter().find(|spec| new.iter().all(|new| new.name != spec.name)) {
        None => Ok(new),
        Some(spec) => {
            bail!(Code::INDEX_ALREADY_EXISTS, "Identical index already exists: {}", spec.name)
        }
    }
}

/// The options of the copy: those that change how documents are found. It has no validator and is not capped.
fn copied_options(of: &Collection) -> Result<CollectionOptions> {
    let own = of.options.doc.as_doc();
    let doc = DocBuf::build(|out| {
        let kept = ["collation", "clusteredIndex"];
        own.iter().filter(|e| kept.contains(&e.name())).for_each(|e| out.put_element(e));
    });
    CollectionOptions::parse(doc.as_doc(), &of.namespace)
}
