//! Freezing collections: ensures that no write is in progress while a collection is dropped or renamed.
//!
//! A write and a drop of its collection must be ordered: a document stored after the drop would be acknowledged and
//! lost, and the change log would report a change in a collection that does not exist. So a drop or rename first
//! freezes the collection: new writers wait (as for a record that another transaction has locked; they can be
//! interrupted), and the operation waits for the writers in progress. Then the names change, in one commit.
//!
//!   freeze --> writers in progress finish --> DDL lock --> commit, publish --> waiting writers find the new catalog
//!
//! Freezing is counted: several operations may freeze one collection without waiting for each other. The freeze
//! precedes the DDL lock, because a transaction that waits for that lock may itself be a writer in progress.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use nagi_error::{Error, Result};

use crate::Store;
use crate::{
    catalog::{Catalog, Collection},
    store::{ddl::Ddl, members::Closing},
};

/// Keeps collections free of writers until it is dropped, on all nodes. All acknowledged earlier writes are visible in
/// every snapshot taken from this point.
pub(crate) struct Frozen<'s> {
    collections: Vec<Arc<Collection>>,
    closing: Option<Closing<'s>>,
}

impl<'s> Frozen<'s> {
    /// Waits for the writers in progress and aborts transactions that clients hold open.
    ///
    /// # Errors
    /// 24 if another node does not answer. Those of the engine.
    pub(crate) fn begin(store: &'s Store, collections: &[Arc<Collection>]) -> Result<Frozen<'s>> {
        let mut frozen = Frozen { collections: Vec::new(), closing: None };
        for collection in collections {
            collection.state.frozen.fetch_add(1, SeqCst);
            frozen.collections.push(Arc::clone(collection));
            // A client may hold a transaction open for long: it is aborted instead of waited for.
            store.open.end_users_of(std::slice::from_ref(collection));
            collection.state.wait_for_earlier();
        }
        if let Some(members) = &store.members
            && !collections.is_empty()
        {
            let idents = collections.iter().map(|collection| collection.ident).collect();
            frozen.closing.insert(Closing::begin(store, members, idents)?).wait()?;
        }
        Ok(frozen)
    }
}

impl Frozen<'_> {
    /// The other nodes keep their writers out until this one knows what has become of its change.
    pub(crate) fn leave_closed(&mut self) {
        if let Some(closing) = self.closing.take() {
            closing.leave();
        }
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        for collection in &self.collections {
            collection.state.frozen.fetch_sub(1, SeqCst);
        }
    }
}

impl<'s> Ddl<'s> {
    /// Begins a change of names of the collections that `which` selects. They have no writers until it ends.
    pub(crate) fn alone(
        store: &'s Store,
        which: &dyn Fn(&Catalog) -> Vec<Arc<Collection>>,
    ) -> Result<Ddl<'s>> {
        loop {
            let wanted = which(&store.catalog.load());
            let frozen = Frozen::begin(store, &wanted)?;
            let mut ddl = Ddl::begin(store)?;
            let now = which(&ddl.catalog);
            // The versions may differ, but the set of collections must be the same: others are not frozen.
            let idents = |of: &[Arc<Collection>]| of.iter().map(|c| c.ident).collect::<Vec<_>>();
            if idents(&now) == idents(&wanted) {
                ddl.frozen = Some(frozen);
                return Ok(ddl);
            }
        }
    }

    /// Begins a change of the collections that `which` selects. In one process the writers go on with the version that
    /// they have, and the change waits for them at its end. Writers of other nodes are kept out of them meanwhile.
    pub(crate) fn changing(
        store: &'s Store,
        which: &dyn Fn(&Catalog) -> Vec<Arc<Collection>>,
    ) -> Result<Ddl<'s>> {
        match store.members {
            Some(_) => Ddl::alone(store, which),
            None => Ddl::begin(store),
        }
    }

    /// Before the commit over several nodes: each collection that changes is frozen, or is a new one.
    pub(super) fn check_frozen(&self, replaced: &[Arc<Collection>]) -> Result<()> {
        let known = self.store.catalog.load();
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.collections);
        let frozen: BTreeSet<_> = frozen.map(|collection| collection.ident).collect();
        let is_safe = |old: &&Arc<Collection>| {
            frozen.contains(&old.ident) || known.names.by_ident(old.ident).is_none()
        };
        match replaced.iter().find(|old| !is_safe(old)) {
            None => Ok(()),
            Some(old) => {
                let text = format!("{} is changed while other nodes write to it", old.namespace);
                Err(Error::bug(&text))
            }
        }
    }
}
