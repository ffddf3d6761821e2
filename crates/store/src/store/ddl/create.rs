//! Creating collections: those that clients ask for, and those that a first insert makes.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::{Code, Result, bail};
use nagi_kv::{Durability, Space};

use super::Ddl;
use crate::{
    Index, IndexSpec, Namespace, Store,
    annotations::Annotations,
    catalog::{
        Catalog, Collection, CollectionOptions, CollectionState, CollectionVersion, StoredFacts,
        Uuid, view_graph,
    },
    index::Multikey,
    record_key::Layout,
};

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
    let is_striped = !options.capped && options.view.is_none();
    let stripes_power = if is_striped { ddl.stripes_power } else { 0 };
    let ident = ddl.striped_ident(stripes_power)?;
    let layout = if options.clustered.is_some() { Layout::Ids } else { Layout::Numbers };
    let mut indexes = Vec::new();
    if options.view.is_none() {
        let version = options.id_index_version.unwrap_or(2);
        let spec = match &options.clustered {
            Some(name) => IndexSpec::clustered(name, options.collation),
            None => IndexSpec::id_of_version(version, options.collation),
        };
        let index = Index::new_empty(spec, ddl.striped_ident(stripes_power)?, Multikey::new(1))?;
        indexes.push(Arc::new(index.of_records(layout, (space, ident))));
    }
    let mut state = CollectionState::of_nothing(&ddl.store.promises);
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
