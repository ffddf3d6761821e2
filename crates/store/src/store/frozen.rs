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

use std::sync::{Arc, atomic::Ordering::SeqCst};

use nagi_error::Result;

use crate::Store;
use crate::{
    catalog::{Catalog, Collection},
    store::ddl::Ddl,
};

/// Keeps a collection free of writers until it is dropped. All acknowledged earlier writes are visible in every
/// snapshot taken from this point.
pub(crate) struct Frozen(Arc<Collection>);

impl Frozen {
    /// Waits for the writers in progress and aborts transactions that clients hold open.
    pub(crate) fn begin(store: &Store, collection: &Arc<Collection>) -> Frozen {
        collection.state.frozen.fetch_add(1, SeqCst);
        let frozen = Frozen(Arc::clone(collection));
        // A client may hold a transaction open for long: it is aborted instead of waited for.
        store.open.end_users_of(std::slice::from_ref(collection));
        collection.state.wait_for_earlier();
        frozen
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.0.state.frozen.fetch_sub(1, SeqCst);
    }
}

impl<'s> Ddl<'s> {
    /// Begins a change of names of the collections that `which` selects. They have no writers until the second
    /// result is dropped.
    pub(crate) fn alone(
        store: &'s Store,
        which: &dyn Fn(&Catalog) -> Vec<Arc<Collection>>,
    ) -> Result<(Ddl<'s>, Vec<Frozen>)> {
        loop {
            let wanted = which(&store.catalog.load());
            let frozen = wanted.iter().map(|one| Frozen::begin(store, one)).collect();
            let ddl = Ddl::begin(store)?;
            let now = which(&ddl.catalog);
            // The versions may differ, but the set of collections must be the same: others are not frozen.
            let idents = |of: &[Arc<Collection>]| of.iter().map(|c| c.ident).collect::<Vec<_>>();
            if idents(&now) == idents(&wanted) {
                return Ok((ddl, frozen));
            }
        }
    }
}
