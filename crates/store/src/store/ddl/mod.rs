//! DDL: creating and dropping collections and indexes.
//!
//! One DDL statement at a time modifies the catalog (index builds release the lock while they build). Each
//! statement makes new versions of its collections, stores them durably, publishes them, and then waits until no
//! writer uses the old versions. The keys of dropped objects are deleted after the reply (see `reclaim`).
//!
//!   lock -> check -> commit catalog keys (synced) -> publish -> wait for writers at the gate
//!
//! `create.rs` and `drop.rs` have the statements; `shown_logs.rs` makes the collections that show the change log.
//!
//! A crash between the commit and the deletion leaves `Dropped` keys in the catalog; the next start resumes the
//! deletion.

mod create;
mod drop;
mod idents;
mod shown_logs;

use std::{collections::BTreeSet, sync::Arc};

use nagi_error::{Code, Error, Result};
use nagi_kv::sync::{MutexGuard, atomic::Ordering::SeqCst, point};
use nagi_kv::{Durability, Space, Txn, TxnOptions};

use crate::{
    Index, Namespace, Store,
    catalog::{Catalog, Collection, CollectionVersion, put_striped_format},
    engine_error::engine,
    ident::{CatalogKey, Ident},
    index::Bulk,
    record_key::Layout,
    store::{
        commit::{
            change::{Change, Logged, Replaced},
            client::CatalogChange,
        },
        frozen::Frozen,
        members::CatalogLock,
        reclaim::Job,
    },
};

pub(crate) use create::{check_case, create, made, same_options};
pub(crate) use drop::{find_by_key, refuse_view};
pub(crate) use idents::Idents;

/// A DDL statement in progress: catalog keys are staged here, then committed and published.
pub(crate) struct Ddl<'s> {
    pub(crate) store: &'s Store,
    /// If several nodes share the data. Before `state`, because it is given back under that lock.
    pub(in crate::store) lock: Option<CatalogLock<'s>>,
    state: MutexGuard<'s, Idents>,
    /// The collections without writers. After `state`: its end is not waited for by other statements.
    pub(in crate::store) frozen: Option<Frozen<'s>>,
    /// Collections of which something was stored beside their entries.
    beside: Vec<Ident>,
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
    /// The stripes of new collections, as a power of two.
    pub(crate) stripes_power: u32,
}

impl<'s> Ddl<'s> {
    pub(crate) fn begin(store: &'s Store) -> Result<Ddl<'s>> {
        let mut state = store.ddl.lock();
        let lock = match &store.members {
            Some(members) => Some(store.lock_catalog(members, &mut state)?),
            None => None,
        };
        let txn = store.engine.begin(TxnOptions::default()).map_err(engine)?;
        let catalog = Catalog::clone(&store.catalog.load());
        let (replaced, published) = (Vec::new(), Vec::new());
        let (dropped, builds) = (Vec::new(), Vec::new());
        let logged = Logged::default();
        let noted = store.client.notes_catalog_changes().then(Vec::new);
        Ok(Ddl {
            store,
            lock,
            state,
            frozen: None,
            beside: Vec::new(),
            txn,
            catalog,
            replaced,
            published,
            dropped,
            builds,
            logged,
            noted,
            stripes_power: store.stripes_power,
        })
    }

    pub(crate) fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.catalog.collection(namespace).cloned()
    }

    pub(crate) fn ident(&mut self) -> Result<Ident> {
        self.state.next(self.store, &mut *self.txn)
    }

    /// An ident whose keys have so many stripes, as a power of two, if that can be.
    pub(crate) fn striped_ident(&mut self, power: u32) -> Result<Ident> {
        let ident = self.ident()?;
        let can_be = power > 0 && !self.store.promises.only_writer;
        match can_be.then(|| ident.striped(power)).flatten() {
            Some(striped) => put_striped_format(&mut *self.txn).map(|()| striped),
            None => Ok(ident),
        }
    }

    /// Stores a collection without documents under another ident, with indexes of their own. What is stored of `old`
    /// is dropped. Clients see no change.
    pub(crate) fn put_elsewhere(
        &mut self,
        old: &Arc<Collection>,
        new: CollectionVersion,
    ) -> Result<Arc<Collection>> {
        self.replace(old)?;
        let key = new.ident.catalog_key(CatalogKey::Collection);
        let doc = new.to_entry()?;
        self.txn.put(Space::Catalog, &key, doc.as_bytes()).map_err(engine)?;
        self.store.put_next_record(&mut *self.txn, &new)?;
        let collection = Collection::new(new);
        self.catalog.names.put(&collection);
        self.note(Some(Arc::clone(old)), Some(&collection), false);
        self.published.push(Arc::clone(&collection));
        Ok(collection)
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
        self.store.put_next_record(&mut *self.txn, &collection)?;
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
        if let Some(doubts) = index.doubts {
            self.drop_range(Space::Index, doubts)?;
        }
        self.drop_range(Space::Index, index.ident)
    }

    fn drop_range(&mut self, space: Space, ident: Ident) -> Result<()> {
        let key = ident.catalog_key(CatalogKey::Dropped);
        self.txn.put(Space::Catalog, &key, &[space as u8]).map_err(engine)?;
        self.dropped.push((space, ident));
        Ok(())
    }

    /// Stores a value that belongs to a collection, beside its entry. The other nodes read it with the entry.
    pub(crate) fn put_beside(&mut self, of: Ident, key: &[u8], value: &[u8]) -> Result<()> {
        self.txn.put(Space::Catalog, key, value).map_err(engine)?;
        self.beside.push(of);
        Ok(())
    }

    /// Commits only the allocated idents, so that they are not reused; nothing if they are of a block.
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
        let version = self.stage_version()?;
        let publishing = self.store.stamps.publish();
        let stamp = match self.store.commit(self.txn, Durability::Buffered) {
            Ok(stamp) => stamp,
            Err(error) => {
                drop(publishing);
                self.store.doubt(&error, &mut self.state, self.frozen.as_mut());
                return Err(error);
            }
        };
        self.store.put_current(&self.replaced, &self.published);
        point();
        self.store.catalog.store(Arc::new(self.catalog));
        if let (Some(lock), Some(version)) = (self.lock.take(), version) {
            lock.committed_last(version);
        }
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
        self.store.logged(&self.logged, stamp, changed.map(|collection| &collection.namespace));
        drop(self.state);
        // Writers may go on, in other nodes as soon as they have followed.
        drop(self.frozen);
        // The sync runs without the publication lock: readers wait for that lock, and a sync may take long.
        let synced = match durability {
            Durability::Synced => self.store.sync_to(stamp),
            Durability::Buffered => Ok(()),
        };
        // A client that holds a transaction open is not waited for; its transaction is aborted.
        self.store.open.end_users_of(&self.replaced);
        if let (Some(members), Some(version)) = (&self.store.members, version) {
            members.note_changed_settings(&self.replaced);
            members.note_changed_settings(&self.published);
            // Other nodes do the same before they say that they have followed.
            members.follow_settings(0)?;
            members.wait_for_version(version)?;
        }
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

    /// Over several nodes: stages the next version of the catalog.
    fn stage_version(&mut self) -> Result<Option<u64>> {
        let Some(lock) = &self.lock else { return Ok(None) };
        self.check_frozen(&self.replaced)?;
        let changed = self.replaced.iter().chain(&self.published).map(|one| one.ident);
        let changed: BTreeSet<_> = changed.chain(self.beside.iter().copied()).collect();
        lock.stage_last(&mut *self.txn, changed).map(Some)
    }
}

impl Store {
    /// Over several nodes: the commit of a change has failed, but perhaps it has taken effect, or will. Nothing is
    /// written before that is known.
    fn doubt(&self, error: &Error, alone: &mut Idents, frozen: Option<&mut Frozen<'_>>) {
        let Some(members) = &self.members else { return };
        if error.code() == Code::WRITE_CONFLICT {
            return;
        }
        members.is_behind.store(true, SeqCst);
        if self.catch_up(members, alone).is_err()
            && let Some(frozen) = frozen
        {
            frozen.leave_closed();
        }
    }

    /// Lets the collections refer to their new versions. A single store per collection, so that a collection that only
    /// changes never appears to be missing.
    pub(super) fn put_current(&self, replaced: &[Arc<Collection>], published: &[Arc<Collection>]) {
        for old in replaced {
            point();
            let newest = published.iter().rev().find(|new| new.ident == old.ident);
            old.state.set_current(newest.cloned());
        }
        for new in published {
            if new.state.is_dropped() {
                new.state.set_current(Some(Arc::clone(new)));
            }
        }
    }
}
