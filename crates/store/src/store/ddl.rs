//! DDL: creating and dropping collections and indexes.
//!
//! One DDL statement at a time modifies the catalog (index builds release the lock while they build). Each
//! statement makes new versions of its collections, stores them durably, publishes them, and then waits until no
//! writer uses the old versions. The keys of dropped objects are deleted after the reply (see `reclaim`).
//!
//!   lock -> check -> commit catalog keys (synced) -> publish -> wait for writers at the gate
//!
//! A crash between the commit and the deletion leaves `Dropped` keys in the catalog; the next start resumes the
//! deletion.

use std::sync::Arc;

use nagi_bson::{Doc, Value, compare, text::doc_text};
use nagi_error::{Code, Result, bail};
use nagi_kv::sync::{MutexGuard, point};
use nagi_kv::{Durability, Space, Txn, TxnOptions};

use crate::catalog::{
    Catalog, Collection, CollectionOptions, CollectionState, CollectionVersion, IndexSelector,
    StoredFacts, Uuid, view_graph,
};
use crate::{
    Index, IndexSpec, Namespace, Store,
    annotations::Annotations,
    engine_error::engine,
    ident::{CatalogKey, Ident},
    index::{Bulk, Multikey},
    record_key::Layout,
    store::{
        change_log,
        commit::{
            change::{Change, Logged, Replaced},
            client::CatalogChange,
        },
        reclaim::Job,
        time_series,
    },
};

/// State that only the holder of the DDL lock uses.
pub(crate) struct DdlState {
    pub(crate) next_ident: u32,
}

/// A DDL statement in progress: catalog keys are staged here, then committed and published.
pub(crate) struct Ddl<'s> {
    pub(crate) store: &'s Store,
    state: MutexGuard<'s, DdlState>,
    txn: Box<dyn Txn>,
    pub(crate) catalog: Catalog,
    /// Old versions that are no longer current after publication.
    replaced: Vec<Arc<Collection>>,
    published: Vec<Arc<Collection>>,
    dropped: Vec<(Space, Ident)>,
    /// Builds of the dropped indexes.
    builds: Vec<Arc<Bulk>>,
    logged: Logged,
    /// The changes, if the client's are noted.
    noted: Option<Vec<CatalogChange>>,
}

impl<'s> Ddl<'s> {
    pub(crate) fn begin(store: &'s Store) -> Result<Ddl<'s>> {
        let state = store.ddl.lock();
        let txn = store.engine.begin(TxnOptions::default()).map_err(engine)?;
        let catalog = Catalog::clone(&store.catalog.load());
        let (replaced, published) = (Vec::new(), Vec::new());
        let (dropped, builds) = (Vec::new(), Vec::new());
        let logged = Logged::default();
        let noted = store.client.notes_catalog_changes().then(Vec::new);
        Ok(Ddl { store, state, txn, catalog, replaced, published, dropped, builds, logged, noted })
    }

    pub(crate) fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.catalog.collection(namespace).cloned()
    }

    pub(crate) fn ident(&mut self) -> Result<Ident> {
        let ident = Ident(self.state.next_ident);
        self.state.next_ident += 1;
        let key = Ident(0).catalog_key(CatalogKey::NextIdent);
        let next = self.state.next_ident.to_le_bytes();
        self.txn.put(Space::Catalog, &key, &next).map_err(engine)?;
        Ok(ident)
    }

    /// Stores a new collection, or a new version of one.
    pub(crate) fn put(&mut self, collection: CollectionVersion) -> Result<Arc<Collection>> {
        self.store.refuse_live_log(&collection, "change")?;
        self.put_as(collection, None, false)
    }

    /// The same for a collection that `collMod` has changed.
    pub(crate) fn put_modified(
        &mut self,
        collection: CollectionVersion,
    ) -> Result<Arc<Collection>> {
        self.store.refuse_live_log(&collection, "change")?;
        self.put_as(collection, None, true)
    }

    /// The same for a renamed collection that replaces `target`.
    pub(crate) fn put_over(
        &mut self,
        collection: CollectionVersion,
        target: Option<Replaced>,
    ) -> Result<Arc<Collection>> {
        self.put_as(collection, target, false)
    }

    fn put_as(
        &mut self,
        collection: CollectionVersion,
        target: Option<Replaced>,
        by_coll_mod: bool,
    ) -> Result<Arc<Collection>> {
        let key = collection.ident.catalog_key(CatalogKey::Collection);
        let doc = collection.to_entry()?;
        self.txn.put(Space::Catalog, &key, doc.as_bytes()).map_err(engine)?;
        let collection = Collection::new(collection);
        let is_first = self.noted.is_some() && self.is_first(&collection.namespace);
        let older = self.catalog.names.put(&collection);
        let (before, after) = (older.as_deref(), Some(&*collection));
        self.change(&Change::Catalog { before, after, target, by_coll_mod })?;
        self.note(older.clone(), Some(&collection), is_first);
        self.replaced.extend(older);
        self.published.push(Arc::clone(&collection));
        Ok(collection)
    }

    /// Returns true if the database of `namespace` has no collection yet.
    fn is_first(&self, namespace: &Namespace) -> bool {
        self.catalog.database(namespace.database()).next().is_none()
    }

    /// Notes a change for the client, if its changes are noted.
    pub(crate) fn note(
        &mut self,
        before: Option<Arc<Collection>>,
        after: Option<&Arc<Collection>>,
        is_first: bool,
    ) {
        if let Some(noted) = &mut self.noted {
            let after = after.cloned();
            noted.push(CatalogChange::Collection { before, after, is_first });
        }
    }

    /// The hook for catalog changes, see `change`.
    fn change(&mut self, change: &Change<'_>) -> Result<()> {
        self.store.log_change(&mut *self.txn, change, &mut self.logged)
    }

    /// Removes a collection with its records, counters and indexes.
    pub(crate) fn remove(&mut self, collection: &Arc<Collection>) -> Result<()> {
        self.store.refuse_live_log(collection, "drop")?;
        let (before, after) = (Some(&**collection), None);
        self.change(&Change::Catalog { before, after, target: None, by_coll_mod: false })?;
        self.note(Some(Arc::clone(collection)), None, false);
        self.replace(collection)
    }

    /// The same for a collection that a renamed one replaces, which is logged as a part of the renaming.
    pub(crate) fn replace(&mut self, collection: &Arc<Collection>) -> Result<()> {
        self.store.refuse_live_log(collection, "drop")?;
        let key = collection.ident.catalog_key(CatalogKey::Collection);
        self.txn.delete(Space::Catalog, &key).map_err(engine)?;
        if !collection.is_view() {
            self.drop_range(collection.space, collection.ident)?;
            for index in &collection.indexes {
                self.remove_index(index)?;
            }
        }
        self.catalog.names.remove(&collection.namespace);
        self.replaced.push(Arc::clone(collection));
        Ok(())
    }

    /// Removes an index's keys; the caller stores the new version of the collection.
    pub(crate) fn remove_index(&mut self, index: &Index) -> Result<()> {
        if let Some(bulk) = &index.bulk {
            self.drop_range(Space::Index, bulk.side)?;
            self.builds.push(Arc::clone(bulk));
        }
        self.drop_range(Space::Index, index.ident)
    }

    fn drop_range(&mut self, space: Space, ident: Ident) -> Result<()> {
        let key = ident.catalog_key(CatalogKey::Dropped);
        self.txn.put(Space::Catalog, &key, &[space as u8]).map_err(engine)?;
        self.dropped.push((space, ident));
        Ok(())
    }

    /// Commits only the allocated idents, so that they are not reused.
    pub(crate) fn keep_idents(self) -> Result<()> {
        self.store.commit(self.txn, Durability::Buffered).map(drop)
    }

    /// Commits, publishes, and waits for the writers of old versions; if keys must be deleted, the wait is left to
    /// the reclaimer.
    pub(crate) fn finish(self) -> Result<()> {
        self.finish_with(Durability::Synced)
    }

    /// Like `finish`, with the durability that the change needs. A drop must be on disk before the files of the
    /// dropped objects are removed.
    pub(crate) fn finish_with(mut self, durability: Durability) -> Result<()> {
        self.store.count_logged(&mut *self.txn, &self.logged)?;
        let publishing = self.store.stamps.publish();
        let stamp = self.store.commit(self.txn, Durability::Buffered)?;
        for old in &self.replaced {
            // A single store per collection, so that a collection that only changes never appears to be missing.
            point();
            let newest = self.published.iter().rev().find(|new| new.ident == old.ident);
            old.state.set_current(newest.cloned());
        }
        for new in &self.published {
            if new.state.is_dropped() {
                new.state.set_current(Some(Arc::clone(new)));
            }
        }
        point();
        self.store.catalog.store(Arc::new(self.catalog));
        if let Some(shown) = self.published.iter().find(|new| new.layout == Layout::Stamps) {
            self.store.log_shown.store(Some(Arc::clone(shown)));
        }
        drop(publishing);
        point();
        if let Some(noted) = self.noted {
            self.store.client.note_catalog(noted);
        }
        for changed in self.replaced.iter().chain(&self.published) {
            self.store.client.note_changed(&changed.namespace);
        }
        self.replaced.iter().for_each(|old| old.state.arrivals.announce());
        let changed = self.replaced.iter().chain(&self.published);
        self.store.logged(&self.logged, changed.map(|collection| &collection.namespace));
        drop(self.state);
        // The sync runs without the publication lock: readers wait for that lock, and a sync may take long.
        let synced = match durability {
            Durability::Synced => self.store.engine.sync(stamp).map_err(engine),
            Durability::Buffered => Ok(()),
        };
        // A client that holds a transaction open is not waited for; its transaction is aborted.
        self.store.open.end_users_of(&self.replaced);
        if self.dropped.is_empty() {
            self.replaced.iter().for_each(|old| old.state.wait_for_earlier());
        } else if synced.is_ok() {
            self.store.reclaimer.push(Job {
                replaced: self.replaced,
                builds: self.builds,
                ranges: self.dropped,
            });
        }
        synced
    }
}

impl Store {
    /// `create`: returns an existing collection with the same options; fails with 48 if the options differ.
    pub fn create_collection(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
    ) -> Result<Arc<Collection>> {
        self.create_with(namespace, options, Durability::Synced)
    }

    fn create_with(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
        durability: Durability,
    ) -> Result<Arc<Collection>> {
        let options = CollectionOptions::parse(options, namespace)?;
        if let Some(bound) = self.private() {
            return bound.create(self, namespace, options);
        }
        // With all their options, buckets are created as any collection: so they are in dumps and logs.
        let is_whole = namespace.is_buckets() && options.clustered.is_some();
        if options.timeseries.is_some() && !is_whole {
            return self.create_time_series(namespace, &options, durability);
        }
        let mut ddl = Ddl::begin(self)?;
        if let Some(existing) = ddl.collection(namespace) {
            return same_options(existing, &options);
        }
        let collection = create(&mut ddl, namespace, options, None)?;
        ddl.finish_with(durability)?;
        say_created(&collection);
        Ok(collection)
    }

    /// `create` with a given UUID, as an entry of an oplog has it. The name and the UUID must be free (48).
    pub fn create_collection_of(
        &self,
        namespace: &Namespace,
        options: Doc<'_>,
        uuid: Uuid,
    ) -> Result<Arc<Collection>> {
        let options = CollectionOptions::parse(options, namespace)?;
        let mut ddl = Ddl::begin(self)?;
        if ddl.collection(namespace).is_some() || ddl.catalog.by_uuid(uuid).is_some() {
            bail!(Code::NAMESPACE_EXISTS, "Collection {namespace} already exists.");
        }
        let version = made(&mut ddl, namespace, options, None)?;
        let collection = ddl.put(CollectionVersion { uuid, ..version })?;
        ddl.finish()?;
        say_created(&collection);
        Ok(collection)
    }

    /// Returns the collection, created if necessary, as the first insert does. It is as durable as that insert: the
    /// log contains the collection before its documents, so no sync is needed here.
    pub fn collection_or_create(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        match self.collection(namespace) {
            Some(collection) => Ok(collection),
            None => {
                self.refuse_beside_buckets(namespace)?;
                self.create_with(namespace, Doc::EMPTY, Durability::Buffered).or_else(|error| {
                    // Another client created it first, with other options.
                    self.collection(namespace).ok_or(error)
                })
            }
        }
    }

    /// Drops a collection or view, or the buckets of a time series whose view is missing. Returns the dropped
    /// collection, or `None` if it did not exist. Takes milliseconds, independent of its size.
    pub fn drop_collection(&self, namespace: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.drop_collection_of(namespace, None)
    }

    /// The same, with the precondition that the collection has the UUID `expected` (361).
    pub fn drop_collection_of(
        &self,
        namespace: &Namespace,
        expected: Option<Uuid>,
    ) -> Result<Option<Arc<Collection>>> {
        let (mut ddl, _frozen) = Ddl::alone(self, &|catalog| {
            let collection = named(catalog, namespace);
            let other = collection.and_then(|found| time_series::other_half(catalog, found));
            collection.cloned().into_iter().chain(other).collect()
        })?;
        ddl.catalog.check_uuid(namespace, expected)?;
        let Some(collection) = named(&ddl.catalog, namespace).cloned() else { return Ok(None) };
        if let Some(other) = ddl.other_half(&collection) {
            ddl.remove(&other)?;
        }
        ddl.remove(&collection)?;
        ddl.finish()?;
        log::info!(target: "STORAGE", id = 20318, namespace = namespace.as_str(),
            uuid:% = collection.uuid; "Finishing collection drop");
        Ok(Some(collection))
    }

    /// Drops every collection of a database; returns false if there was none.
    pub fn drop_database(&self, database: &str) -> Result<bool> {
        let of = |catalog: &Catalog| catalog.database(database).cloned().collect::<Vec<_>>();
        let (mut ddl, _frozen) = Ddl::alone(self, &of)?;
        let all = of(&ddl.catalog);
        for collection in &all {
            ddl.remove(collection)?;
        }
        if all.is_empty() {
            return Ok(false);
        }
        ddl.change(&Change::DatabaseDropped(database))?;
        if let Some(noted) = &mut ddl.noted {
            noted.push(CatalogChange::DatabaseDropped(database.to_owned()));
        }
        ddl.finish()?;
        log::info!(target: "COMMAND", id = 20336, db = database; "dropDatabase");
        Ok(true)
    }

    /// Drops indexes and returns the previous number of indexes. The builds of unfinished indexes are aborted.
    /// Codes 20, 26, 27, 72, 166, 181; 12587 for a part of the indexes of one build.
    pub fn drop_indexes(&self, namespace: &Namespace, which: IndexSelector<'_>) -> Result<usize> {
        let mut ddl = Ddl::begin(self)?;
        let Some(collection) = ddl.collection(namespace) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "ns not found {namespace}");
        };
        refuse_view(&collection)?;
        self.refuse_live_log(&collection, "change")?;
        let dropped = select_indexes(&collection, &which)?;
        refuse_part_of_build(&collection, &dropped)?;
        let before = collection.named_indexes().count();
        if dropped.is_empty() {
            return Ok(before);
        }
        // One version for each, so that the log has an entry for each: the tools that read logs know no other form.
        let mut latest = collection;
        for index in &dropped {
            ddl.remove_index(index)?;
            let kept = latest.indexes.iter().filter(|kept| kept.ident != index.ident).cloned();
            latest = ddl.put(latest.with_indexes(kept.collect()))?;
        }
        ddl.finish()?;
        for index in &dropped {
            log::info!(target: "INDEX", id = 4715601, namespace = namespace.as_str(),
                index = index.name(); "Index dropped");
        }
        Ok(before)
    }
}

/// Returns the existing collection if it was created with the same options (48 otherwise).
pub(crate) fn same_options(
    existing: Arc<Collection>,
    options: &CollectionOptions,
) -> Result<Arc<Collection>> {
    if existing.options.same(options) {
        return Ok(existing);
    }
    let kind = if existing.is_view() { "View" } else { "Collection" };
    bail!(Code::NAMESPACE_EXISTS, "{kind} {} already exists.", existing.namespace);
}

/// Refuses a database whose name differs from another's only in case (13297).
pub(crate) fn check_case(catalog: &Catalog, database: &str) -> Result<()> {
    if let Some(other) = catalog.names.other_case(database) {
        bail!(
            Code::Location(13297),
            "db already exists with different case already have: [{other}] trying to create \
             [{database}]"
        );
    }
    Ok(())
}

/// Stages a new collection with its `_id` index. Its records go to `space`, or to the space that the options imply.
pub(crate) fn create(
    ddl: &mut Ddl<'_>,
    namespace: &Namespace,
    options: CollectionOptions,
    space: Option<Space>,
) -> Result<Arc<Collection>> {
    let collection = made(ddl, namespace, options, space)?;
    ddl.put(collection)
}

fn say_created(collection: &Collection) {
    let namespace = collection.namespace.as_str();
    log::info!(target: "STORAGE", id = 20320, namespace = namespace, uuid:% = collection.uuid;
        "createCollection");
    for index in &collection.indexes {
        log::info!(target: "INDEX", id = 20345, namespace = namespace, index = index.name();
            "Index build: done building");
    }
}

impl Store {
    /// Refuses to change the collection that shows the change log, and to drop it while changes are logged (20).
    pub(crate) fn refuse_live_log(&self, collection: &CollectionVersion, what: &str) -> Result<()> {
        if !collection.shows_log() || what == "drop" && !self.has_change_log() {
            return Ok(());
        }
        if collection.is_pre_images() {
            bail!(Code::ILLEGAL_OPERATION, "can't {what} {}", collection.namespace);
        }
        bail!(Code::ILLEGAL_OPERATION, "can't {what} live oplog while replicating")
    }

    /// Creates the collection that shows the pre-images in the log, if there is none.
    pub fn show_pre_images(&self) -> Result<()> {
        let namespace = Namespace::parse(change_log::PRE_IMAGES_NAMESPACE)?;
        let mut ddl = Ddl::begin(self)?;
        let other = ddl.collection(&namespace);
        if !other.as_ref().is_some_and(|shown| shown.is_pre_images()) {
            other.map_or(Ok(()), |other| ddl.remove(&other))?;
            let given = change_log::image_options();
            let options = CollectionOptions::parse(given.as_doc(), &namespace)?;
            let options = CollectionOptions { clustered: None, ..options };
            let version = made(&mut ddl, &namespace, options, None)?;
            let (indexes, layout) = (Box::default(), Layout::PreImages);
            ddl.put_over(CollectionVersion { indexes, layout, ..version }, None)?;
            ddl.finish()?;
        }
        change_log::connect(&self.catalog(), &self.feed.image_age);
        Ok(())
    }

    /// Creates the collection that shows the change log, or sets its size if there is one. `bytes_max`: the size that
    /// it lists.
    pub fn show_change_log(&self, bytes_max: i64) -> Result<Arc<Collection>> {
        let namespace = Namespace::parse(change_log::NAMESPACE)?;
        let given = nagi_bson::doc! { "capped": true, "size": bytes_max };
        let options = CollectionOptions::parse(given.as_doc(), &namespace)?;
        let mut ddl = Ddl::begin(self)?;
        let version = match ddl.collection(&namespace) {
            Some(shown) if shown.layout == Layout::Stamps => {
                if shown.options.size_bytes_max == options.size_bytes_max {
                    return Ok(shown);
                }
                CollectionVersion { options, ..shown.with_indexes(Vec::new()) }
            }
            other => {
                // Entries of a log that was dropped while the server was not a member of a replica set.
                self.engine.drop_range(Space::Changes, &[0], &[0xFF; 13]).map_err(engine)?;
                // An ordinary collection of that time.
                other.map_or(Ok(()), |other| ddl.remove(&other))?;
                let version = made(&mut ddl, &namespace, options, None)?;
                CollectionVersion { indexes: Box::default(), layout: Layout::Stamps, ..version }
            }
        };
        let shown = ddl.put_over(version, None)?;
        ddl.finish()?;
        Ok(shown)
    }
}

/// A new collection with its `_id` index and newly allocated idents.
pub(crate) fn made(
    ddl: &mut Ddl<'_>,
    namespace: &Namespace,
    options: CollectionOptions,
    space: Option<Space>,
) -> Result<CollectionVersion> {
    check_case(&ddl.catalog, namespace.database())?;
    if let Some(view) = &options.view {
        view_graph::check(&ddl.catalog, namespace, view, options.collation)?;
    }
    let uuid = Uuid::random();
    options.check_place(namespace, uuid)?;
    let space = match space {
        Some(space) => space,
        None => options.space()?,
    };
    let ident = ddl.ident()?;
    let layout = if options.clustered.is_some() { Layout::Ids } else { Layout::Numbers };
    let mut indexes = Vec::new();
    if options.view.is_none() {
        let version = options.id_index_version.unwrap_or(2);
        let spec = match &options.clustered {
            Some(name) => IndexSpec::clustered(name, options.collation),
            None => IndexSpec::id_of_version(version, options.collation),
        };
        let index = Index::new_empty(spec, ddl.ident()?, Multikey::new(1))?;
        indexes.push(Arc::new(index.of_records(layout, (space, ident))));
    }
    let mut state = CollectionState::of_nothing();
    if options.timeseries.is_some() && namespace.is_buckets() {
        state.bucket_facts = StoredFacts::of_nothing(ident, &mut *ddl.txn)?;
    }
    Ok(CollectionVersion {
        uuid,
        namespace: namespace.clone(),
        validator: options.condition()?,
        options,
        indexes: indexes.into(),
        ident,
        space,
        layout,
        state: Arc::new(state),
        version_annotations: Annotations::default(),
    })
}

impl Collection {
    /// The next version of a collection that is private to one transaction.
    pub(crate) fn renewed(&self, indexes: Vec<Arc<Index>>) -> Arc<Collection> {
        let renewed = Collection::new(self.with_indexes(indexes));
        renewed.state.set_current(Some(Arc::clone(&renewed)));
        renewed
    }

    /// The next version, with other indexes.
    pub(crate) fn with_indexes(&self, indexes: Vec<Arc<Index>>) -> CollectionVersion {
        CollectionVersion {
            uuid: self.uuid,
            namespace: self.namespace.clone(),
            options: self.options.clone(),
            indexes: indexes.into(),
            ident: self.ident,
            space: self.space,
            layout: self.layout,
            state: Arc::clone(&self.state),
            validator: self.validator.clone(),
            version_annotations: Annotations::default(),
        }
    }
}

/// What is dropped by this name.
fn named<'c>(catalog: &'c Catalog, namespace: &Namespace) -> Option<&'c Arc<Collection>> {
    catalog.collection(namespace).or_else(|| catalog.lone_buckets_of(namespace))
}

pub(crate) fn refuse_view(collection: &Collection) -> Result<()> {
    if collection.is_view() {
        bail!(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {} is a view, not a collection",
            collection.namespace
        );
    }
    Ok(())
}

fn select_indexes(collection: &Collection, which: &IndexSelector<'_>) -> Result<Vec<Arc<Index>>> {
    let by_name = |name: &str| -> Result<Vec<Arc<Index>>> {
        match collection.index(name) {
            Some(index) => Ok(vec![Arc::clone(index)]),
            None => bail!(Code::INDEX_NOT_FOUND, "index not found with name [{name}]"),
        }
    };
    let selected = match which {
        IndexSelector::All => {
            return Ok(collection.indexes.iter().filter(|i| !i.spec.is_id()).cloned().collect());
        }
        IndexSelector::Name(name) => by_name(name)?,
        IndexSelector::Names(names) => {
            let mut all = Vec::new();
            for name in names {
                all.extend(by_name(name)?);
            }
            all
        }
        IndexSelector::Key(key) => vec![find_by_key(collection, *key)?],
    };
    if collection.options.clustered.is_some() && selected.iter().any(|index| index.spec.is_id()) {
        bail!(Code::Location(5_979_800), "It is illegal to drop the clusteredIndex");
    }
    if selected.iter().any(|index| index.spec.is_id()) {
        bail!(Code::INVALID_OPTIONS, "cannot drop _id index");
    }
    Ok(selected)
}

/// A build is aborted as a whole: its indexes are dropped together or not at all (12587).
fn refuse_part_of_build(collection: &Collection, dropped: &[Arc<Index>]) -> Result<()> {
    let is_dropped = |index: &Index| dropped.iter().any(|dropped| dropped.ident == index.ident);
    for build in dropped.iter().filter_map(|index| index.building) {
        let mut all = collection.indexes.iter().filter(|index| index.building == Some(build));
        if !all.all(|index| is_dropped(index)) {
            return collection.refuse_while_building();
        }
    }
    Ok(())
}

/// The single index with this key pattern. Codes 27, 181.
pub(crate) fn find_by_key(collection: &Collection, key: Doc<'_>) -> Result<Arc<Index>> {
    let same = |index: &&Arc<Index>| {
        let pattern = index.spec.key_pattern.as_doc();
        compare::equal(Value::Doc(pattern), Value::Doc(key))
    };
    let found: Vec<_> = collection.named_indexes().filter(same).collect();
    match found.as_slice() {
        [] => bail!(Code::INDEX_NOT_FOUND, "can't find index with key: {}", doc_text(key)),
        [one] => Ok(Arc::clone(one)),
        several => {
            let specs: Vec<_> =
                several.iter().map(|index| doc_text(index.spec.doc.as_doc())).collect();
            bail!(
                Code::AMBIGUOUS_INDEX_KEY_PATTERN,
                "{} indexes found for key: {}, identify by name instead. Conflicting indexes: {}",
                several.len(),
                doc_text(key),
                specs.join(", ")
            )
        }
    }
}
