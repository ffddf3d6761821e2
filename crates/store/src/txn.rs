//! A write transaction: records, index keys and counters change together.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_kv::Txn;

use crate::{Collection, Namespace, Reader, RecordId, Store};

/// One attempt of [`Store::write`].
pub struct WriteTxn<'s> {
    pub(crate) store: &'s Store,
    pub(crate) txn: Box<dyn Txn>,
}

impl<'s> WriteTxn<'s> {
    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The collection in the newest catalog.
    pub fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.store.collection(namespace)
    }

    /// Reads through the transaction: one state, with its own writes. Make a new one after a write.
    pub fn reader(&self) -> Reader<'_> {
        Reader { read: &*self.txn }
    }

    /// Stores a document. `_id` is moved to the front or generated. Codes 2, 121, 11000, 171, ...
    pub fn insert(&mut self, collection: &Collection, doc: Doc<'_>) -> Result<RecordId> {
        let _ = (collection, doc);
        unimplemented!("next commit")
    }

    /// Replaces the record `id`, which is `old` as this transaction read it.
    pub fn update(
        &mut self,
        collection: &Collection,
        id: RecordId,
        old: Doc<'_>,
        new: Doc<'_>,
    ) -> Result<()> {
        let _ = (collection, id, old, new);
        unimplemented!("next commit")
    }

    /// Removes the record `id`, which is `old` as this transaction read it.
    pub fn delete(&mut self, collection: &Collection, id: RecordId, old: Doc<'_>) -> Result<()> {
        let _ = (collection, id, old);
        unimplemented!("next commit")
    }

    /// Makes this transaction conflict with whoever writes the record, as if it wrote it itself.
    pub fn lock(&mut self, collection: &Collection, id: RecordId) -> Result<()> {
        let _ = (collection, id);
        unimplemented!("next commit")
    }

    /// Runs `f`; if it fails, its writes are undone and the transaction goes on. For the statements
    /// of a batch that may fail one by one.
    pub fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let savepoint = self.txn.savepoint();
        f(self).inspect_err(|_| self.txn.rollback_to(savepoint))
    }
}
