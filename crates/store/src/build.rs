//! Building indexes on existing data while others read and write.
//!
//! Collections that are not small are built from sorted keys ([`crate::bulk`]). The others:
//!
//!   publish as "not ready" -> wait for writers who do not know it -> read records in batches, put
//!   their keys in ordinary transactions -> publish as ready
//!
//! From the first step on every writer keeps the index. A batch locks its records before it reads
//! them, so a document that somebody changes meanwhile is either read in its newest state or makes
//! the batch conflict and begin again. Putting a key that a writer has put already changes nothing.
//! Memory is bounded by a batch; a crash leaves an index that is not ready, dropped at the next start.

use std::{sync::Arc, time::Duration};

use nagi_bson::{Doc, Value, text::doc_text};
use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_kv::{Durability, Space};

use crate::{
    Collection, CreatedIndexes, Index, IndexSpec, Namespace, RecordId, Store, WriteOptions,
    WriteTxn,
    bulk::{Bulk, Meter, dropped},
    catalog::{self, CollectionOptions, Ddl},
    index::{Multikey, keygen::KeySink, multikey_words},
    transaction::Bound,
    txn::PutBy,
};

/// Most indexes of a collection.
const INDEX_COUNT_MAX: usize = 64;
/// Records in a batch, unless conflicts make it smaller.
const BATCH_COUNT: usize = 256;
/// Records between two looks at the interrupt: a document may have hundreds of keys.
const ASK_EACH: usize = 32;
/// Bytes of keys after which a batch ends.
const BATCH_BYTES: usize = 4 << 20;
/// What a build has at a time: staged keys, the same as the engine's batch, the largest document.
const BUILD_BYTES: u64 = 3 * BATCH_BYTES as u64;
/// How long a build waits for others to give their room back.
const BUILD_WAIT: Duration = Duration::from_secs(60);
/// How a build runs.
#[derive(Clone, Copy, Default)]
pub struct BuildOptions<'a> {
    /// Asked now and then; an error ends the build and undoes it.
    pub interrupt: Option<&'a dyn Fn() -> Result<()>>,
    /// Told what is being done, and how much of how much is: documents, then keys.
    pub progress: Option<&'a dyn Fn(&'static str, i64, i64)>,
    /// `maxIndexBuildMemoryUsageMegabytes`, in bytes: for the keys that are being sorted. 200 MB if none.
    pub memory_bytes: Option<u64>,
    /// `ignoreUnknownIndexOptions`.
    pub ignore_unknown: bool,
}

impl Store {
    /// Creates the collection if need be, then builds the indexes that do not exist. Returns when
    /// they are ready; other work, also on this collection, goes on.
    pub fn create_indexes(
        &self,
        namespace: &Namespace,
        specs: &[Doc<'_>],
        options: BuildOptions<'_>,
    ) -> Result<CreatedIndexes> {
        if specs.is_empty() {
            bail!(Code::BAD_VALUE, "Must specify at least one index to create");
        }
        let existing = self.collection(namespace);
        let default = existing.as_ref().and_then(|c| c.options.collation);
        let is_clustered = existing.is_some_and(|c| c.options.clustered.is_some());
        let parse = |spec: &Doc<'_>| {
            let spec = catalog::without_clustered(*spec, is_clustered)?;
            IndexSpec::parse_with(spec.as_doc(), namespace, options.ignore_unknown, default)
                .and_then(checked)
        };
        let specs = specs.iter().map(parse).collect::<Result<Vec<_>>>()?;
        specs.iter().try_for_each(|spec| self.check_compressor(spec))?;
        if let Some(bound) = self.private() {
            return self.create_private_indexes(bound, namespace, &specs);
        }
        let (result, started) = loop {
            match self.start(namespace, &specs) {
                // The same index is being built for somebody else: wait, then look again.
                Err(error) if error.code() == Code::INDEX_BUILD_ALREADY_IN_PROGRESS => {
                    self.wait_for_build(options)?;
                }
                other => break other?,
            }
        };
        let Some(collection) = started else { return Ok(result) };
        let _room = self.room_for_build(options);
        let built = self
            .fill_indexes(&collection, options)
            .and_then(|()| self.finish(&collection, options));
        if let Err(error) = built {
            log::info!(target: "INDEX", id = 20649, namespace = namespace.as_str(),
                error:% = error; "Index build: failed");
            let undone = self.give_up(&collection);
            self.build_ended.notify_all();
            return undone.and(Err(of_build(error, &collection)));
        }
        self.build_ended.notify_all();
        for index in unready(&collection) {
            log::info!(target: "INDEX", id = 20345, namespace = namespace.as_str(),
                index = index.name(); "Index build: done building");
        }
        Ok(result)
    }

    /// All indexes have one compressor: one that asks for another is refused (115).
    fn check_compressor(&self, spec: &IndexSpec) -> Result<()> {
        let Value::Doc(options) = spec.doc.get("storageEngine") else { return Ok(()) };
        let asked = catalog::table_options(options)?.compressor;
        let given = self.engine.compressor(Space::Index);
        match asked {
            Some(asked) if self.compresses() && asked != given => bail!(
                Code::COMMAND_NOT_SUPPORTED,
                "index '{}' cannot have the block compressor {}: all indexes have the server's, {} \
                 (storage.wiredTiger.indexConfig.configString)",
                spec.name,
                asked.name(),
                given.name()
            ),
            _ => Ok(()),
        }
    }

    /// Indexes of a collection that this transaction has created: nothing is to be built.
    fn create_private_indexes(
        &self,
        bound: &Bound,
        namespace: &Namespace,
        specs: &[IndexSpec],
    ) -> Result<CreatedIndexes> {
        let (collection, created_collection) = match self.collection(namespace) {
            Some(collection) => (collection, false),
            None => (bound.create(self, namespace, CollectionOptions::default())?, true),
        };
        catalog::refuse_view(&collection)?;
        let before = collection.indexes.len();
        let mut ddl = Ddl::begin(self)?;
        let indexes = plan(&mut ddl, &collection, specs, true)?;
        let after = indexes.len();
        if after > before {
            if !bound.is_created_and_untouched(&collection) {
                bail!(
                    Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                    "Cannot create new indexes on existing collection {namespace} in a \
                     multi-document transaction."
                );
            }
            ddl.keep_idents()?;
            bound.put_created(collection.renewed(indexes));
        }
        Ok(CreatedIndexes { before, after, created_collection })
    }

    /// Waits until some build has ended, or a moment.
    fn wait_for_build(&self, options: BuildOptions<'_>) -> Result<()> {
        if let Some(interrupt) = options.interrupt {
            interrupt()?;
        }
        let mut builds = self.builds.lock();
        self.build_ended.wait_for(&mut builds, Duration::from_millis(50));
        Ok(())
    }

    /// Publishes the new indexes as not ready; none if all exist.
    fn start(
        &self,
        namespace: &Namespace,
        specs: &[IndexSpec],
    ) -> Result<(CreatedIndexes, Option<Arc<Collection>>)> {
        let mut ddl = Ddl::begin(self)?;
        let existing = ddl.collection(namespace);
        let created_collection = existing.is_none();
        let collection = match existing {
            Some(collection) => collection,
            None => catalog::create(&mut ddl, namespace, CollectionOptions::default(), None)?,
        };
        catalog::refuse_view(&collection)?;
        let before = collection.indexes.len();
        // Nobody can have written to a collection that comes into being here.
        let planned = plan(&mut ddl, &collection, specs, created_collection);
        let result = CreatedIndexes { before, after: before, created_collection };
        let (result, started) = match planned {
            Ok(indexes) if indexes.len() > before => {
                let result = CreatedIndexes { after: indexes.len(), ..result };
                (Ok(result), Some(ddl.put(collection.with_indexes(indexes))?))
            }
            Ok(_) => (Ok(result), None),
            Err(error) => (Err(error), None),
        };
        // The collection comes into being even if its indexes do not.
        if started.is_some() || created_collection {
            ddl.finish()?;
        }
        Ok((result?, started.filter(|_| !created_collection)))
    }

    /// Puts the keys of all records into the indexes that are not ready.
    pub(crate) fn fill_indexes(
        &self,
        collection: &Arc<Collection>,
        options: BuildOptions<'_>,
    ) -> Result<()> {
        let indexes = unready(collection);
        let total = collection.count();
        if total > 0 {
            log::info!(target: "INDEX", id = 20384, namespace = collection.namespace.as_str(),
                count = indexes.len(); "Index build: starting");
        }
        if indexes.iter().any(|index| index.logs) {
            return self.fill_in_bulk(collection, &indexes, options);
        }
        // Later records have their keys from their writers.
        let mut meter = Meter::new("Index Build: scanning collection", total);
        let mut newest = self.latest().scan(collection, false)?;
        let end = if newest.advance()? { newest.id() } else { RecordId(0) };
        drop(newest);
        let mut scan = self.latest().scan(collection, true)?;
        let mut ids = Vec::with_capacity(BATCH_COUNT);
        let (mut done, mut last, mut batch_count) = (0i64, RecordId(0), BATCH_COUNT);
        loop {
            if let Some(interrupt) = options.interrupt {
                interrupt()?;
            }
            ids.clear();
            scan.resume_after(last);
            while ids.len() < batch_count && scan.advance()? && scan.id() <= end {
                ids.push(scan.id());
            }
            if ids.is_empty() {
                break;
            }
            let conflicts = std::cell::Cell::new(0);
            let count = self.write(
                WriteOptions { interrupt: options.interrupt, ..Default::default() },
                &mut |txn| {
                    conflicts.set(conflicts.get() + 1);
                    put_batch(txn, collection, &indexes, &ids, options)
                },
            )?;
            // Shorter batches where many write, longer ones again where nobody does.
            batch_count = match conflicts.get() {
                1 => (batch_count * 2).min(BATCH_COUNT),
                _ => (batch_count / 2).max(1),
            };
            done += count as i64;
            last = ids[count - 1];
            meter.at(done as u64, options);
            scan = self.latest().scan(collection, true)?;
        }
        if total > 0 {
            log::info!(target: "INDEX", id = 20391, namespace = collection.namespace.as_str(),
                totalRecords = done; "Index build: collection scan done");
        }
        Ok(())
    }

    /// Judges what was put aside, then lets plans use the indexes.
    pub(crate) fn finish(&self, built: &Collection, options: BuildOptions<'_>) -> Result<()> {
        let unique: Vec<_> =
            unready(built).into_iter().filter(|index| index.doubts.is_some()).collect();
        if !unique.is_empty() {
            // Once the writers that know the index so far have left, nothing more is put aside.
            self.republish(built, Durability::Buffered, &|index| index.strict())?;
            for index in &unique {
                self.judge(built, index, options)?;
            }
        }
        let ready = |index: &Index| index.changed(index.spec.clone(), true);
        self.republish(built, Durability::Synced, &ready)
    }

    /// Publishes the indexes of the build as `change` makes them; waits for earlier writers.
    pub(crate) fn republish(
        &self,
        built: &Collection,
        durability: Durability,
        change: &dyn Fn(&Index) -> Result<Index>,
    ) -> Result<()> {
        let mut ddl = Ddl::begin(self)?;
        let Some(current) = self.newest(built) else {
            bail!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", built.uuid);
        };
        let mut indexes = current.indexes.to_vec();
        for index in unready(built) {
            let Some(at) = indexes.iter().position(|i| i.ident == index.ident) else {
                return Err(dropped(index.name()));
            };
            indexes[at] = Arc::new(change(&indexes[at])?);
        }
        ddl.put(current.with_indexes(indexes))?;
        ddl.finish_with(durability)
    }
}

/// The collection's indexes with those that are new.
fn plan(
    ddl: &mut Ddl<'_>,
    collection: &Collection,
    specs: &[IndexSpec],
    ready: bool,
) -> Result<Vec<Arc<Index>>> {
    let namespace = &collection.namespace;
    let mut indexes = collection.indexes.to_vec();
    let before = indexes.len();
    for spec in specs {
        if exists(&indexes[..before], spec)? {
            continue;
        }
        refuse_twice(&indexes[before..], spec)?;
        if indexes.len() >= INDEX_COUNT_MAX {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "add index fails, too many indexes for {namespace} key:{}",
                doc_text(spec.key_pattern.as_doc())
            );
        }
        log::info!(target: "INDEX", id = 20438, namespace = namespace.as_str(),
                index = &*spec.name; "Index build: registering");
        let multikey = Arc::new(Multikey::new(multikey_words(spec)));
        let index = Index::new(spec.clone(), ready, ddl.ident()?, multikey)?;
        indexes.push(Arc::new(in_bulk(ddl, collection, index)?));
    }
    Ok(indexes)
}

/// The index, to be built from sorted keys if the collection is large enough.
pub(crate) fn in_bulk(ddl: &mut Ddl<'_>, of: &Collection, index: Index) -> Result<Index> {
    match !index.ready && Bulk::is_worth_it(of) {
        true => Ok(index.logged(Bulk::new(ddl.ident()?))),
        false => Ok(index),
    }
}

/// What a specification needs to be right besides its own syntax: a partial filter that parses.
fn checked(spec: IndexSpec) -> Result<IndexSpec> {
    if let Some(partial) = &spec.partial {
        crate::condition::Condition::partial(partial.as_doc(), spec.collation)?;
    }
    Ok(spec)
}

/// The error of a build: whose collection is gone has been aborted (276).
pub(crate) fn of_build(error: Error, built: &Collection) -> Error {
    match error.code() {
        Code::QUERY_PLAN_KILLED => {
            err!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", built.uuid)
        }
        _ => error,
    }
}

pub(crate) fn unready(collection: &Collection) -> Vec<Arc<Index>> {
    collection.indexes.iter().filter(|index| !index.ready).cloned().collect()
}

impl Store {
    /// Charges the keys that a build collects; waits a while if many builds run.
    fn room_for_build(&self, options: BuildOptions<'_>) -> Charge {
        let mut charge = Charge::empty(&self.budget, Pool::IndexBuilds);
        let mut go_on = || options.interrupt.is_none_or(|check| check().is_ok());
        if !charge.cover_within(BUILD_BYTES, BUILD_WAIT, &mut go_on) {
            // It has begun and has to go on; the watcher finds the room.
            charge.force(BUILD_BYTES);
        }
        charge
    }
}

/// Puts the keys of these records, in their newest state; those that are gone are left out. Ends
/// early when the transaction is large enough; gives back how many records are done.
fn put_batch(
    txn: &mut WriteTxn<'_>,
    collection: &Collection,
    indexes: &[Arc<Index>],
    ids: &[RecordId],
    options: BuildOptions<'_>,
) -> Result<usize> {
    let mut sink = KeySink::default();
    let (mut buf, mut spare) = (Vec::new(), Vec::new());
    for (at, id) in ids.iter().enumerate() {
        if at > 0 && txn.txn().staged_bytes() > BATCH_BYTES {
            return Ok(at);
        }
        if at % ASK_EACH == ASK_EACH - 1
            && let Some(interrupt) = options.interrupt
        {
            interrupt()?;
        }
        txn.lock(collection, *id)?;
        if at == 0 {
            // Whoever drops an index waits for those who are inside.
            txn.store().check_wanted(collection, indexes)?;
        }
        let key = collection.ident.record_key(*id);
        let found = txn.txn().get(collection.space, &key, &mut buf);
        let Some(value) = found.map_err(crate::engine_error::engine)? else { continue };
        let doc = crate::record::decode(value, &mut spare)?.to_buf();
        for index in indexes {
            txn.fill(index, doc.as_doc(), &mut sink)?;
            for (key, bits) in sink.iter() {
                txn.put_key(collection, index, key, bits, *id, PutBy::Build)?;
            }
        }
    }
    Ok(ids.len())
}

/// Whether the index is there already; 85 or 86 if it clashes with another one.
fn exists(indexes: &[Arc<Index>], spec: &IndexSpec) -> Result<bool> {
    if spec.is_id() {
        return Ok(true);
    }
    if let Some(index) = indexes.iter().find(|index| index.spec.name == spec.name) {
        let texts = (doc_text(spec.doc.as_doc()), doc_text(index.spec.doc.as_doc()));
        if !index.spec.same_signature(spec) {
            bail!(
                Code::INDEX_KEY_SPECS_CONFLICT,
                "An existing index has the same name as the requested index. When index names are \
                 not specified, they are auto generated and can cause conflicts. Please refer to \
                 our documentation. Requested index: {}, existing index: {}",
                texts.0,
                texts.1
            );
        }
        if !index.spec.same_options(spec) {
            bail!(
                Code::INDEX_OPTIONS_CONFLICT,
                "An equivalent index already exists with the same name but different options. \
                 Requested index: {}, existing index: {}",
                texts.0,
                texts.1
            );
        }
        if !index.ready {
            bail!(
                Code::INDEX_BUILD_ALREADY_IN_PROGRESS,
                "Index build already in progress: {}",
                texts.1
            );
        }
        return Ok(true);
    }
    match indexes.iter().find(|index| index.spec.same_signature(spec)) {
        None => refuse_second_text(indexes, spec),
        Some(index) if index.spec.same_options(spec) => bail!(
            Code::INDEX_OPTIONS_CONFLICT,
            "Index already exists with a different name: {}",
            index.spec.name
        ),
        Some(index) => bail!(
            Code::INDEX_OPTIONS_CONFLICT,
            "An equivalent index already exists with a different name and options. Requested \
             index: {}, existing index: {}",
            doc_text(spec.doc.as_doc()),
            doc_text(index.spec.doc.as_doc())
        ),
    }
}

/// A collection has one text index. False otherwise: the index is not there.
fn refuse_second_text(indexes: &[Arc<Index>], spec: &IndexSpec) -> Result<bool> {
    match indexes.iter().find(|index| spec.text.is_some() && index.spec.text.is_some()) {
        None => Ok(false),
        Some(index) => bail!(
            Code::CANNOT_CREATE_INDEX,
            "only one text index per collection allowed, found existing text index \"{}\"",
            index.spec.name
        ),
    }
}

/// Two equal indexes in one request.
fn refuse_twice(requested: &[Arc<Index>], spec: &IndexSpec) -> Result<()> {
    let Some(index) = requested
        .iter()
        .find(|index| index.spec.name == spec.name || index.spec.same_signature(spec))
    else {
        return refuse_second_text(requested, spec).map(drop);
    };
    if index.spec.name != spec.name {
        if index.spec.text.is_some() && !index.spec.same_options(spec) {
            bail!(
                Code::INDEX_OPTIONS_CONFLICT,
                "An equivalent index already exists with a different name and options. Requested \
                 index: {}, existing index: {}",
                doc_text(spec.doc.as_doc()),
                doc_text(index.spec.doc.as_doc())
            );
        }
        bail!(
            Code::INDEX_ALREADY_EXISTS,
            "index already exists with different name: {}",
            index.spec.name
        );
    }
    if index.spec.same_signature(spec) && index.spec.same_options(spec) {
        bail!(Code::INDEX_ALREADY_EXISTS, "Identical index already exists: {}", spec.name);
    }
    let code = match index.spec.same_signature(spec) {
        true => Code::INDEX_OPTIONS_CONFLICT,
        false => Code::INDEX_KEY_SPECS_CONFLICT,
    };
    bail!(code, "Index with name: {} already exists with different options", spec.name)
}
