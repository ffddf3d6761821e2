//! Collections that are private to one transaction until it commits.

use std::sync::Arc;

use nagi_error::Result;
use nagi_kv::{CommitStamp, Durability, Space};

use crate::{
    Namespace, Store, WriteTxn,
    engine_error::engine,
    ident::{CatalogKey, Ident},
};
use crate::{
    catalog::{Catalog, Collection, CollectionOptions},
    store::{
        commit::client::CatalogChange,
        ddl::{Ddl, check_case, made},
    },
};

/// The collections that a transaction has created. A collection and its state reference each other, so unpublished
/// ones are released when this is dropped.
#[derive(Default)]
pub(crate) struct Private(Vec<Arc<Collection>>);

impl Private {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, ident: Ident) -> bool {
        self.0.iter().any(|created| created.ident == ident)
    }

    pub(crate) fn get(&self, ident: Ident) -> Option<&Arc<Collection>> {
        self.0.iter().find(|created| created.ident == ident)
    }

    /// Adds a collection, or replaces its older version.
    pub(crate) fn put(&mut self, collection: Arc<Collection>) {
        self.0.retain(|created| created.ident != collection.ident);
        self.0.push(collection);
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.0.iter().for_each(|collection| collection.state.set_current(None));
    }
}

impl Catalog {
    /// Breaks the reference cycles of the collections at shutdown, so that they are freed.
    pub(crate) fn close(&self) {
        self.iter().for_each(|collection| collection.state.set_current(None));
    }
}

/// Creates a collection that is private to one transaction until it commits. Its idents are allocated permanently.
pub(crate) fn create_private(
    store: &Store,
    namespace: &Namespace,
    options: CollectionOptions,
) -> Result<Arc<Collection>> {
    let mut ddl = Ddl::begin(store)?;
    if ddl.collection(namespace).is_some() {
        // Another client created it after the transaction began.
        return Err(engine(nagi_kv::Error::Conflict));
    }
    let collection = Collection::new(made(&mut ddl, namespace, options, None)?);
    ddl.keep_idents()?;
    collection.state.set_current(Some(Arc::clone(&collection)));
    Ok(collection)
}

/// Commits a transaction that created collections, and publishes them.
pub(crate) fn commit_private(
    store: &Store,
    mut txn: WriteTxn<'_>,
    mut created: Private,
) -> Result<CommitStamp> {
    let mut ddl = Ddl::begin(store)?;
    let mut noted = Vec::new();
    for collection in &created.0 {
        if ddl.collection(&collection.namespace).is_some() {
            return Err(engine(nagi_kv::Error::Conflict));
        }
        check_case(&ddl.catalog, collection.namespace.database())?;
        let key = collection.ident.catalog_key(CatalogKey::Collection);
        let doc = collection.to_entry()?;
        txn.txn().put(Space::Catalog, &key, doc.as_bytes()).map_err(engine)?;
        store.put_next_record(txn.txn(), collection)?;
        let is_first = ddl.catalog.database(collection.namespace.database()).next().is_none();
        ddl.catalog.names.put(collection);
        let after = Some(Arc::clone(collection));
        noted.push(CatalogChange::Collection { before: None, after, is_first });
    }
    let version = match &ddl.lock {
        // A conflict with any change of the catalog since the transaction's begin.
        Some(lock) => {
            let idents: Vec<_> = created.0.iter().map(|collection| collection.ident).collect();
            Some(lock.stage(txn.txn(), idents)?)
        }
        None => None,
    };
    let publishing = store.stamps.publish();
    let stamp = txn.commit(Durability::Buffered)?;
    store.client.note_catalog(noted);
    created.0.iter().for_each(|collection| store.client.note_changed(&collection.namespace));
    created.0.clear();
    store.catalog.store(Arc::new(ddl.catalog.clone()));
    if let (Some(lock), Some(version)) = (&ddl.lock, version) {
        lock.committed(version);
    }
    drop(publishing);
    drop(ddl);
    if let (Some(members), Some(version)) = (&store.members, version) {
        members.wait_for_version(version)?;
    }
    store.sync_to(stamp)?;
    Ok(stamp)
}
