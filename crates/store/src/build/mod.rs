//! Building indexes on existing data while others read and write.
//!
//! Collections that are not small are built from sorted keys ([`crate::build::bulk`]). The others:
//!
//!   publish as "not ready" -> wait for writers who do not know it -> read records in batches, put
//!   their keys in ordinary transactions -> publish as ready
//!
//! From the first step on every writer keeps the index. A batch locks its records before it reads
//! them, so a document that somebody changes meanwhile is either read in its newest state or makes
//! the batch conflict and begin again. Putting a key that a writer has put already changes nothing.
//! Memory is bounded by a batch; a crash leaves an index that is not ready, dropped at the next start.
//!
//! Several builds may run on one collection. A [`Build`] owns the indexes that it has published: it
//! fills, publishes or takes out these and no others, whatever else is not ready in the collection.

pub(crate) mod bulk;
pub(crate) mod doubts;
mod place;
mod plan;

use std::{sync::Arc, time::Duration};

use nagi_bson::{Doc, Value};
use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Error, Result, bail, err};
use nagi_kv::{Durability, Space};

use crate::{
    Collection, CreatedIndexes, Index, IndexSpec, Namespace, RecordId, RecordKey, Store,
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
use plan::{checked, plan};

/// Records in a batch, unless conflicts make it smaller.
const BATCH_COUNT: usize = if cfg!(feature = "shuttle") { 2 } else { 256 };
/// Records between two polls at the interrupt: a document may have hundreds of keys.
const ASK_EACH: usize = 32;
/// Bytes of keys after which a batch ends.
const BATCH_BYTES: usize = 4 << 20;
/// What a build has at a time: staged keys, the same as the engine's batch, the largest document.
const BUILD_BYTES: u64 = 3 * BATCH_BYTES as u64;
/// What ends an operation from outside, whatever it does.
const INTERRUPTIONS: [Code; 6] = [
    Code::MAX_TIME_MS_EXPIRED,
    Code::EXCEEDED_TIME_LIMIT,
    Code::CLIENT_DISCONNECT,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::INTERRUPTED,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
];
/// How long a build waits for others to give their room back.
const BUILD_WAIT: Duration = Duration::from_secs(60);

/// A build under way.
pub(crate) struct Build {
    /// As it was published with the indexes.
    pub(crate) collection: Arc<Collection>,
    /// What this build owns.
    pub(crate) indexes: Vec<Arc<Index>>,
}

impl Build {
    /// What builds of an earlier process have left of a collection.
    pub(crate) fn left_over(collection: &Arc<Collection>) -> Build {
        let indexes = collection.indexes.iter().filter(|index| !index.ready).cloned().collect();
        Build { collection: Arc::clone(collection), indexes }
    }

    /// Whether the index, in whatever version, is one of its own.
    pub(crate) fn owns(&self, index: &Index) -> bool {
        self.indexes.iter().any(|own| own.ident == index.ident)
    }
}

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
    /// `maxNumActiveUserIndexBuilds`: with as many builds under way, this one waits. Without it the build neither
    /// waits nor counts.
    pub most: Option<&'a dyn Fn() -> u64>,
}

impl Store {
    /// Creates the collection if need be, then builds the indexes that do not exist. Returns when
    /// they are ready; other work, also on this collection, continues.
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
        let (result, started, _place) = loop {
            let place = self.place_for(namespace, &specs, options)?;
            match self.start(namespace, &specs) {
                // The same index is being built for somebody else: wait, then look again.
                Err(error) if error.code() == Code::INDEX_BUILD_ALREADY_IN_PROGRESS => {
                    drop(place);
                    self.wait_for_build(options)?;
                }
                other => {
                    let (result, started) = other?;
                    break (result, started, place);
                }
            }
        };
        let Some(build) = started else { return Ok(result) };
        let _room = self.room_for_build(options);
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

    /// Reads what an index asks of the engine (2, 9, 14, 72, 115). All indexes have the server's
    /// compressor: the choice of another one is kept and listed, and the log says that it does nothing.
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
        let mut ddl = Ddl::begin(self)?;
        let existing = ddl.collection(namespace);
        let created_collection = existing.is_none();
        let collection = match existing {
            Some(collection) => collection,
            None => create(&mut ddl, namespace, CollectionOptions::default(), None)?,
        };
        refuse_view(&collection)?;
        let before = collection.named_indexes().count();
        // No one can have written to a collection that comes into being here.
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
        // The collection comes into being even if its indexes do not.
        if started.is_some() || created_collection {
            ddl.finish()?;
        }
        Ok((result?, started.filter(|_| !created_collection)))
    }

    /// Puts the keys of all records into the indexes of the build.
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
        // Records that come later have their keys from their writers, also those that come before the end.
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
                    put_batch(txn, collection, indexes, &ids, options)
                },
            )?;
            // Shorter batches where many write, longer ones again where no one does.
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

    /// Judges what was stored apart, then lets plans use the indexes.
    fn finish(&self, build: &Build, options: BuildOptions<'_>) -> Result<()> {
        self.judge_all(build, options)?;
        let ready = |index: &Index| index.changed(index.spec.clone(), true);
        self.republish(build, Durability::Synced, &ready)
    }

    /// Judges what was stored apart in the unique indexes of the build.
    pub(crate) fn judge_all(&self, build: &Build, options: BuildOptions<'_>) -> Result<()> {
        let unique: Vec<_> = build.indexes.iter().filter(|index| index.doubts.is_some()).collect();
        if unique.is_empty() {
            return Ok(());
        }
        // Once the writers that know the index so far have left, nothing more is stored apart.
        self.republish(build, Durability::Buffered, &|index| index.strict())?;
        unique.iter().try_for_each(|index| self.judge(&build.collection, index, options))
    }

    /// Publishes the indexes of the build as `change` makes them; waits for earlier writers.
    pub(crate) fn republish(
        &self,
        build: &Build,
        durability: Durability,
        change: &dyn Fn(&Index) -> Result<Index>,
    ) -> Result<()> {
        let mut ddl = Ddl::begin(self)?;
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

    /// The collection as it is now; 276 if it is gone.
    pub(crate) fn newest_of(&self, build: &Build) -> Result<Arc<Collection>> {
        let gone = || {
            err!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", build.collection.uuid)
        };
        self.newest(&build.collection).ok_or_else(gone)
    }

    /// Takes out what a build that failed or was interrupted has published, and nothing else.
    pub(crate) fn give_up(&self, build: &Build) -> Result<()> {
        let mut ddl = Ddl::begin(self)?;
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

/// The error of a build: whose collection is gone has been aborted (276).
pub(crate) fn of_build(error: Error, built: &Collection) -> Error {
    match error.code() {
        Code::QUERY_PLAN_KILLED => {
            err!(Code::INDEX_BUILD_ABORTED, "collection dropped. UUID {}", built.uuid)
        }
        _ => error,
    }
}

/// The error of a build as its client sees it: which build of which collection has failed. That of who was
/// interrupted says that alone.
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
    /// Charges the keys that a build collects; waits a while if many builds run.
    fn room_for_build(&self, options: BuildOptions<'_>) -> Charge {
        let mut charge = Charge::empty(&self.budget, Pool::IndexBuilds);
        let mut go_on = || options.interrupt.is_none_or(|check| check().is_ok());
        if !charge.cover_within(BUILD_BYTES, BUILD_WAIT, &mut go_on) {
            // It has begun and has to continue; the watcher finds the room.
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
        txn.lock(collection, id.key())?;
        if at == 0 {
            // Whoever drops an index waits for those who are inside.
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
