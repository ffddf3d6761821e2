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
//! A document may have many keys in each index, so its keys are counted before it is copied, and the caller may end
//! the copy before each index.
//!
//! Nothing that a trial does is logged: an operator must not read there that an index was built.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf};
use nagi_error::{Code, Error, Result, bail};
use nagi_kv::{Durability, Engine, Memory, Space};

use super::{
    plan::{checked, made, missing},
    with_new,
};
use crate::{
    Collection, Index, IndexSpec, Store, StoreOptions, WriteOptions,
    catalog::{self, CollectionOptions},
    engine_error::engine,
    index::keygen::KeySink,
    store::{
        ddl::{Ddl, create},
        txn::fill_sink,
    },
};

/// What the engine needs for an entry beside its key and value.
const ENTRY_BYTES: usize = 160;
/// A document with all its keys may have this part of the whole copy.
const DOCUMENT_PART: usize = 8;

/// A copy of a collection in memory. Its memory is freed when it is dropped.
pub struct Trial {
    store: Arc<Store>,
    /// The version with all indexes.
    full: Arc<Collection>,
    /// The names of the indexes on trial.
    names: Vec<Box<str>>,
    engine: Arc<Memory>,
    bytes_max: usize,
    /// Indexes on trial that a document could not be indexed in, with the texts of the errors.
    refused: Vec<(Box<str>, String)>,
    sink: KeySink,
}

/// What became of a document that was to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    Yes,
    /// Its keys alone would need too much of the copy.
    TooLarge,
    /// The copy has no room for it.
    Full,
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
        let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, options)?;
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
        let (refused, sink) = (Vec::new(), KeySink::default());
        Ok(Trial { store, full, names, engine, bytes_max, refused, sink })
    }

    /// Checks that an index can be tried, as far as that does not depend on documents.
    ///
    /// # Errors
    /// Those of [`Trial::new`].
    pub fn check(of: &Collection, spec: Doc<'_>) -> Result<()> {
        parsed(of, &[spec]).map(drop)
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

    /// The indexes that were taken off the trial by [`Trial::insert`], with the texts of the errors.
    pub fn refused(&self) -> &[(Box<str>, String)] {
        &self.refused
    }

    /// Copies a document. All indexes must be shown. `go_on` is called before each index with the bytes that the copy
    /// would need so far, and ends it with its error. An index on trial in which the document cannot be indexed is
    /// taken off the trial if `may_refuse`.
    ///
    /// # Errors
    /// 11000 if another document has the same key of a unique index; 171 and others if it cannot be indexed; those of
    /// `go_on`.
    pub fn insert(
        &mut self,
        doc: Doc<'_>,
        may_refuse: bool,
        go_on: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Copied> {
        let mut bytes = doc.len() + ENTRY_BYTES;
        let full = Arc::clone(&self.full);
        for index in full.written_indexes() {
            go_on(bytes)?;
            match fill_sink(index, doc, &mut self.sink) {
                Ok(()) => {}
                Err(error) if may_refuse && self.names.iter().any(|n| **n == *index.name()) => {
                    self.refuse(index.name(), &error)?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let cost = |(key, bits): (&[u8], &[u8])| key.len() + bits.len() + ENTRY_BYTES;
            bytes += self.sink.iter().map(cost).sum::<usize>();
            if bytes > self.bytes_max / DOCUMENT_PART {
                return Ok(Copied::TooLarge);
            }
        }
        if self.engine.byte_count() + bytes > self.bytes_max {
            return Ok(Copied::Full);
        }
        go_on(bytes)?;
        let options = WriteOptions {
            bypass_validation: true,
            keep_empty_timestamps: true,
            ..WriteOptions::default()
        };
        self.store.write(options, &mut |txn| txn.insert(&self.full, doc).map(drop))?;
        Ok(Copied::Yes)
    }

    /// Takes an index off the trial. Its entries stay until the end, but no plan uses them.
    fn refuse(&mut self, name: &str, error: &Error) -> Result<()> {
        let kept = self.full.indexes.iter().filter(|index| *index.name() != *name).cloned();
        let kept = kept.collect();
        let mut ddl = Ddl::begin(&self.store)?;
        let full = ddl.put(self.full.with_indexes(kept))?;
        ddl.finish_with(Durability::Buffered)?;
        self.full = full;
        self.names.retain(|own| **own != *name);
        self.refused.push((name.into(), error.message().to_owned()));
        Ok(())
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
