//! Freezing collections: no write is in progress while a collection is dropped or renamed.
//!
//! A write and a drop of its collection must have an order: a document that is stored behind the drop would be
//! acknowledged and gone, and the change log would tell of a change in a collection that is not there. So who
//! drops or renames first freezes: writers that come wait (as for a record that another one has, and may be
//! interrupted), and those under way are waited for. Then the names change, in one commit.
//!
//!   freeze --> writers under way end --> lock of DDL --> commit, publish --> writers find what is there now
//!
//! Freezing is counted: several operations may freeze one collection without waiting for each other. It
//! comes before the lock of DDL, since a transaction that waits for that lock may be a writer under way.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use nagi_error::Result;

use crate::Store;
use crate::{
    catalog::{Catalog, Collection},
    store::ddl::Ddl,
};

/// A collection without writers, until this is dropped. What they had acknowledged before is in every state
/// read from now on.
pub(crate) struct Frozen(Arc<Collection>);

impl Frozen {
    /// Waits for the writers under way; ends transactions that clients hold open.
    pub(crate) fn begin(store: &Store, collection: &Arc<Collection>) -> Frozen {
        collection.state.frozen.fetch_add(1, SeqCst);
        let frozen = Frozen(Arc::clone(collection));
        // A client may hold a transaction open for long: it is ended instead of waited for.
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
    /// Begins a change of names of the collections that `which` chooses, which have no writers until the
    /// second result is dropped.
    pub(crate) fn alone(
        store: &'s Store,
        which: &dyn Fn(&Catalog) -> Vec<Arc<Collection>>,
    ) -> Result<(Ddl<'s>, Vec<Frozen>)> {
        loop {
            let wanted = which(&store.catalog.load());
            let frozen = wanted.iter().map(|one| Frozen::begin(store, one)).collect();
            let ddl = Ddl::begin(store)?;
            let now = which(&ddl.catalog);
            // Versions may differ; others have not been frozen.
            let idents = |of: &[Arc<Collection>]| of.iter().map(|c| c.ident).collect::<Vec<_>>();
            if idents(&now) == idents(&wanted) {
                return Ok((ddl, frozen));
            }
        }
    }
}
