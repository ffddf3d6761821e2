//! Builds indexes on existing data while other clients read and write.
//!
//! Collections that are not small are built from sorted keys ([`crate::build::bulk`]). For the others:
//!
//!   publish as "not ready" -> wait for writers that do not know the index -> read records in batches, put
//!   their keys in ordinary transactions -> publish as ready
//!
//! From the first step on every writer maintains the index. A batch locks its records before it reads them. So a
//! document that another writer changes concurrently is either read in its newest version, or makes the batch
//! conflict and be repeated. Putting a key that a writer has put already changes nothing. Memory is bounded by a
//! batch. A crash leaves an index that is not ready, which the next start drops.
//!
//! Several builds may run on one collection. A [`Build`] owns the indexes that it has published: it fills,
//! publishes or removes only these, whatever other unfinished indexes the collection has.

pub(crate) mod bulk;
pub(crate) mod deferred;
mod place;
mod plan;
mod trial;

use std::{sync::Arc, time::Duration};

use nagi_bson::{Doc, Value};
use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_kv::{Durability, Space};

use crate::{
    Catalog, Collection, CreatedIndexes, Index, IndexSpec, Namespace, RecordId, RecordKey, Store,
    WriteOptions, WriteTxn,
    build::bulk::{Meter, dropped},
    catalog::{self, CollectionOptions, Uuid},
    index::keygen::KeySink,
    store::{
        ddl::{Ddl, create, refuse_view},
        transaction::Bound,
        txn::PutBy,
    },
};
pub(crate) use plan::to_build;
use plan::{checked, is_missing, plan};
pub use trial::{Copied, Trial};

/// Records per batch; reduced after conflicts.
const BATCH_COUNT: usize = if cfg!(feature = "shuttle") { 2 } else { 256 };
/// Records between two interrupt checks, because a document may have hundreds of keys.
const ASK_EACH: usize = 32;
/// Bytes of keys after which a batch is full.
const BATCH_BYTES: usize = 4 << 20;
/// Memory of a build: staged keys, the same amount in the engine's batch, and the largest document.
const BUILD_BYTES: u64 = 3 * BATCH_BYTES as u64;
/// Errors that cancel any operation from outside.
const INTERRUPTIONS: [Code; 6] = [
    Code::MAX_TIME_MS_EXPIRED,
    Code::EXCEEDED_TIME_LIMIT,
    Code::CLIENT_DISCONNECT,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::INTERRUPTED,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
];
/// The maximum wait of a build for memory that other requests hold.
const BUILD_WAIT: Duration = Duration::from_secs(60);

/// A build in progress.
pub(crate) struct Build {
    /// The version that was published with the indexes.
    pub(crate) collection: Arc<Collection>,
    /// The indexes that this build owns.
    pub(crate) indexes: Vec<Arc<Index>>,
}

impl Build {
    /// The unfinished builds of an earlier process on a collection.
    pub(crate) fn left_over(collection: &Arc<Collection>) -> Build {
        let indexes = collection.indexes.iter().filter(|index| !index.ready).cloned().collect();
        Build { collection: Arc::clone(collection), indexes }
    }

    /// Its collection, if it is there.
    pub(crate) fn of(&self, catalog: &Catalog) -> Vec<Arc<Collection>> {
        catalog.names.by_ident(self.collection.ident).cloned().into_iter().collect()
    }

    /// Returns true if the index, in any version, belongs to this build.
    pub(crate) fn owns(&self, index: &Index) -> bool {
        self.indexes.iter().any(|own| own.ident == index.ident)
    }
}

/// Options of a build.
#[derive(Clone, Copy, Default)]
pub struct BuildOptions<'a> {
    /// Called from time to time; an error cancels and undoes the build.
    pub interrupt: Option<&'a dyn Fn() -> Result<()>>,
    /// Called with the phase, the number of completed steps and the total: first documents, then keys.
    pub progress: Option<&'a dyn Fn(&'static str, i64, i64)>,
    /// `maxIndexBuildMemoryUsageMegabytes`, in bytes: limit for sorting keys. 200 MB if none.
    pub memory_bytes: Option<u64>,
    /// `ignoreUnknownIndexOptions`.
    pub ignore_unknown: bool,
    /// `maxNumActiveUserIndexBuilds`: if that many builds are in progress, this one waits. If none, the build
    /// neither waits nor counts.
    pub most: Option<&'a dyn Fn() -> u64>,
}

impl Store {
    /// Creates the collection if it does not exist, then builds the indexes that do not exist. Returns when they
    /// are ready; other operations, also on this collection, continue.
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
        let is_clustered = existing.as_ref().is_some_and(|c| c.options.clustered.is_some());
        let parse = |spec: &Doc<'_>| {
            let spec = catalog::without_clustered(*spec, is_clustered)?;
            IndexSpec::parse_with(spec.as_doc(), namespace, options.ignore_unknown, default)
                .and_then(checked)
        };
        let specs = specs.iter().map(parse).collect::<Result<Vec<_>>>()?;
        specs.iter().try_for_each(|spec| self.check_compressor(spec))?;
        if let Some(fields) = existing.as_ref().and_then(|c| c.options.encrypted_fields.as_ref()) {
            specs.iter().try_for_each(|spec| spec.check_encrypted(fields))?;
        }
        if let Some(bound) = self.private() {
            return self.create_private_indexes(bound, namespace, &specs);
        }
        let (result, started, _place, _building) = loop {
            let place = self.place_for(namespace, &specs, options)?;
            let building = self.members.as_ref().map(|members| members.begin_build());
            match self.start(namespace, &specs) {
                // Another client is building the same index: wait, then check again.
                Err(error) if error.code() == Code::INDEX_BUILD_ALREADY_IN_PROGRESS => {
                    drop((place, building));
                    self.wait_for_build(options)?;
                }
                other => {
                    let (result, started) = other?;
                    break (result, started, place, building);
                }
            }
        };
        let Some(build) = started else { return Ok(result) };
        let _memory = self.room_for_build(options);
        let built = self.fill_indexes(&build, options).and_then(|()| self.finish(&build, options));
        if let Err(error) = built {
            log::info!(target: "INDEX", id = 20649, namespace = namespace.as_str(),
                error:% = error; "Index build: failed");
            let undone = self.give_up(&build);
            self.build_ended.notify_all();
            let error = of_build(error, &build.collection);
            return undone.and(Err(failed(error, &build.collection)));
        }
        self.build_ended.notify_all();
        for index in &build.indexes {
            log::info!(target: "INDEX", id = 20345, namespace = namespace.as_str(),
                index = index.name(); "Index build: done building");
        }
        Ok(result)
    }

    /// Checks the engine options of an index (2, 9, 14, 72, 115). All indexes have the server's compressor: another
    /// choice is stored and listed, and a log message says that it has no effect.
    fn check_compressor(&self, spec: &IndexSpec) -> Result<()> {
        let Value::Doc(options) = spec.doc.get("storageEngine") else { return Ok(()) };
        let Some(asked) = catalog::table_options(options)?.compressor else { return Ok(()) };
        let given = self.engine.compressor(Space::Index);
        if asked != given {
            log::info!(target: "INDEX", id = 9_000_057, index = &*spec.name,
                asked = asked.name(), given = given.name();
                "The block compressor of an index is that of all indexes: its own has no effect");
        }
        Ok(())
    }

    /// Creates indexes of a collection that this transaction has created: nothing has to be built.
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
        refuse_view(&collection)?;
        let before = collection.named_indexes().count();
        let mut ddl = Ddl::begin(self)?;
        let new = plan(&mut ddl, &collection, specs, true)?;
        let after = before + new.len();
        if after > before {
            if !bound.is_created_and_untouched(&collection) {
                bail!(
                    Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                    "Cannot create new indexes on existing collection {namespace} in a \
                     multi-document transaction."
                );
            }
            ddl.keep_idents()?;
            bound.put_created(self, collection.renewed(with_new(&collection, &new)))?;
        }
        Ok(CreatedIndexes { before, after, created_collection })
    }

    /// Publishes the new indexes as not ready; none if all exist.
    fn start(
        &self,
        namespace: &Namespace,
        specs: &[IndexSpec],
    ) -> Result<(CreatedIndexes, Option<Build>)> {
        let mut ddl = Ddl::changing(self, &|catalog| {
            let existing = catalog.collection(namespace).filter(|c| is_missing(c, specs));
            existing.cloned().into_iter().collect()
        })?;
        let existing = ddl.collection(namespace);
        let created_collection = existing.is_none();
        let collection = match existing {
            Some(collection) => collection,
            None => create(&mut ddl, namespace, CollectionOptions::default(), None)?,
        };
        refuse_view(&collection)?;
        let before = collection.named_indexes().count();
        // Nothing can have written to a collection that is created here.
        let planned = plan(&mut ddl, &collection, specs, created_collection);
        let result = CreatedIndexes { before, after: before, created_collection };
        let (result, started) = match planned {
            Ok(indexes) if !indexes.is_empty() => {
                let result = CreatedIndexes { after: before + indexes.len(), ..result };
                let all = with_new(&collection, &indexes);
                let collection = ddl.put(collection.with_indexes(all))?;
                (Ok(result), Some(Build { collection, indexes }))
            }
            Ok(_) => (Ok(result), None),
            Err(error) => (Err(error), None),
        };
        // The collection is created even if its indexes fail.
        if started.is_some() || created_collection {
            ddl.finish()?;
        }
        Ok((result?, started.filter(|_| !created_collection)))
    }

    /// Fills the indexes of the build with the keys of all records.
    pub(crate) fn fill_indexes(&self, build: &Build, options: BuildOptions<'_>) -> Result<()> {
        let Build { collection, indexes } = build;
        if indexes.is_empty() {
            return Ok(());
        }
        let total = collection.count();
        if total > 0 {
            log::info!(target: "INDEX", id = 20384, namespace = collection.namespace.as_str(),
                count = indexes.len(); "Index build: starting");
        }
        if indexes.iter().any(|index| index.logs) {
            return self.fill_in_bulk(build, options);
        }
        // The keys of later records are written by their writers, also of those inserted before this point.
        let mut meter = Meter::new("Index Build: scanning collection", total);
        let mut newest = self.latest().scan(collection, false)?;
        let end = newest.advance()?.then(|| newest.id().to_id());
        drop(newest);
        let is_beyond = |id: RecordKey<'_>| end.as_ref().is_none_or(|end| id > end.key());
        let mut scan = self.latest().scan(collection, true)?;
        let mut ids = Vec::with_capacity(BATCH_COUNT);
        let (mut done, mut last, mut batch_count) = (0i64, None::<RecordId>, BATCH_COUNT);
        loop {
            if let Some(interrupt) = options.interrupt {
                interrupt()?;
            }
            ids.clear();
            if let Some(last) = &last {
                scan.resume_after(last.key());
            }
            while ids.len() < batch_count && scan.advance()? && !is_beyond(scan.id()) {
                ids.push(scan.id().to_id());
            }
            if ids.is_empty() {
                break;
            }
            let conflicts = std::cell::Cell::new(0);
            let count = self.write_value(
                WriteOptions { interrupt: options.interrupt, ..Default::default() },
                &mut |txn| {
                    conflicts.set(conflicts.get() + 1);
                    // Fewer records at a time after conflicts: some may be written again and again.
                    let few = (ids.len() >> (conflicts.get() - 1).min(16)).max(1);
                    put_batch(txn, collection, indexes, &ids[..few], options)
                },
            )?;
            // Shorter batches after conflicts, and longer ones again without conflicts.
            batch_count = match conflicts.get() {
                1 => (batch_count * 2).min(BATCH_COUNT),
                _ => (batch_count / 2).max(1),
            };
            done += count as i64;
            last = Some(ids[count - 1].clone());
            meter.at(done as u64, options);
            scan = self.latest().scan(collection, true)?;
        }
        if total > 0 {
            log::info!(target: "INDEX", id = 20391, namespace = collection.namespace.as_str(),
                totalRecords = done; "Index build: collection scan done");
        }
        Ok(())
    }

    /// Checks doubtful keys, then lets plans use the indexes.
    fn finish(&self, build: &Build, options: BuildOptions<'_>) -> Result<()> {
        self.judge_all(build, options)?;
        let ready = |index: &Index| index.changed(index.spec.clone(), true);
        self.republish(build, Durability::Synced, &ready)
    }

    /// Checks the doubtful keys of the build's unique indexes.
    pub(crate) fn judge_all(&self, build: &Build, options: BuildOptions<'_>) -> Result<()> {
        let unique: Vec<_> =
            build.indexes.iter().filter(|index| index.deferred.is_some()).collect();
        if unique.is_empty() {
            return Ok(());
        }
        // After the writers that know the earlier version have left, no further entry is stored under another key.
        self.republish(build, Durability::Buffered, &|index| index.strict())?;
        unique.iter().try_for_each(|index| self.judge(&build.collection, index, options))
    }

    /// Publishes the build's indexes as changed by `change`, and waits for earlier writers.
    pub(crate) fn republish(
        &self,
        build: &Build,
        durability: Durability,
        change: &dyn Fn(&Index) -> Result<Index>,
    ) -> Result<()> {
        let mut ddl = Ddl::changing(self, &|catalog| build.of(catalog))?;
        let current = self.newest_of(build)?;
        let mut indexes = current.indexes.to_vec();
        for own in &build.indexes {
            let Some(at) = indexes.iter().position(|index| index.ident == own.ident) else {
                return Err(dropped(own.name()));
            };
            indexes[at] = Arc::new(change(&indexes[at])?);
        }
        ddl.put(current.with_indexes(indexes))?;
        ddl.finish_with(durability)
    }

    /// The newest version of the collection; 276 if it was dropped.
    pub(crate) fn newest_of(&self, build: &Build) -> Result<Arc<Collection>> {
        let gone = || {
            err!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", build.collection.uuid)
        };
        self.newest(&build.collection).ok_or_else(gone)
    }

    /// Removes the published indexes of a failed or interrupted build, and nothing else.
    pub(crate) fn give_up(&self, build: &Build) -> Result<()> {
        let mut ddl = Ddl::changing(self, &|catalog| build.of(catalog))?;
        let Some(current) = self.newest(&build.collection) else { return Ok(()) };
        let (doomed, kept): (Vec<_>, Vec<_>) =
            current.indexes.iter().cloned().partition(|index| build.owns(index));
        if doomed.is_empty() {
            return Ok(());
        }
        for index in &doomed {
            ddl.remove_index(index)?;
        }
        ddl.put(current.with_indexes(kept))?;
        ddl.finish()
    }
}

fn with_new(collection: &Collection, new: &[Arc<Index>]) -> Vec<Arc<Index>> {
    collection.indexes.iter().chain(new).cloned().collect()
}

/// The error of a build; if its collection was dropped, the build was aborted (276).
pub(crate) fn of_build(error: Error, built: &Collection) -> Error {
    match error.code() {
        Code::QUERY_PLAN_KILLED => {
            err!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", built.uuid)
        }
        _ => error,
    }
}

/// The error of a build in the form for its client: it names the build and the collection. The error of an
/// interrupted build stays unchanged.
fn failed(error: Error, built: &Collection) -> Error {
    if INTERRUPTIONS.contains(&error.code()) {
        return error;
    }
    let (build, namespace, uuid) = (Uuid::random(), &built.namespace, built.uuid);
    error.context(&format!(
        "Index build failed: {build}: Collection {namespace} ( {uuid} ) :: caused by :: "
    ))
}

impl Store {
    /// Charges the keys that a build collects; waits for a while if there is no capacity.
    fn room_for_build(&self, options: BuildOptions<'_>) -> Charge {
        let mut charge = Charge::empty(&self.budget, Pool::IndexBuilds);
        let mut go_on = || options.interrupt.is_none_or(|check| check().is_ok());
        if !charge.cover_within(BUILD_BYTES, BUILD_WAIT, &mut go_on) {
            // The build has begun and has to continue; the watcher frees the memory.
            charge.force(BUILD_BYTES);
        }
        charge
    }
}

/// Puts the keys of these records, in their newest version; records that do not exist any more are skipped. Stops
/// early when the transaction is large enough. Returns the number of completed records.
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
        txn.lock(collection, id.key())?;
        if at == 0 {
            // A drop of an index waits for the writers that have entered.
            txn.store().check_wanted(collection, indexes)?;
        }
        let key = id.key().stored(collection.ident);
        let found = txn.txn().get(collection.space, &key, &mut buf);
        let Some(value) = found.map_err(crate::engine_error::engine)? else { continue };
        let doc = crate::record::decode(value, &mut spare)?.to_buf();
        for index in indexes {
            txn.fill(index, doc.as_doc(), &mut sink)?;
            for (key, bits) in sink.iter() {
                txn.put_key(collection, index, key, bits, id.key(), PutBy::Build)?;
            }
        }
    }
    Ok(ids.len())
}
