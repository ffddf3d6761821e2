//! The collections that a transaction writes, and locks on their records.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use nagi_error::{Code, Result, bail};

use super::WriteTxn;
use crate::{Collection, RecordKey, catalog::Pass, engine_error::engine, ident::Ident};

/// A collection written by this transaction.
pub(crate) struct Touched {
    pub(crate) collection: Arc<Collection>,
    pub(crate) count: i64,
    pub(crate) bytes: i64,
    /// In a capped collection: the records below this id are deleted.
    pub(crate) first_record: i64,
    /// A document was inserted, updated or deleted, and not only locked.
    pub(super) is_changed: bool,
    pass: Pass,
}

/// A collection whose gate was entered, before it is known that the transaction may write it.
struct Entered<'c> {
    collection: &'c Collection,
    pass: Option<Pass>,
}

impl Entered<'_> {
    /// Keeps the transaction inside the gate until [`Touched`] is dropped.
    fn stay(mut self) -> Pass {
        self.pass.take().expect("it was entered")
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.collection.state.leave(&pass);
        }
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        self.collection.state.leave(&self.pass);
    }
}

impl WriteTxn<'_> {
    /// Enters the collection; returns its position in `touched`.
    pub(crate) fn touch(&mut self, collection: &Collection) -> Result<usize> {
        let same = |touched: &Touched| touched.collection.ident == collection.ident;
        if let Some(at) = self.touched.iter().position(same) {
            return Ok(at);
        }
        let pass = Entered { collection, pass: Some(collection.state.enter()) };
        // The check follows the entry into the gate: the freezer waits for the writers that are inside already. It
        // precedes the read of the newest version: the names change before the collection is unfrozen.
        let is_behind = self.store.members.as_ref().is_some_and(|m| m.is_behind.load(SeqCst));
        if is_behind || collection.state.frozen.load(SeqCst) > 0 {
            return Err(engine(nagi_kv::Error::Conflict));
        }
        let current = collection.state.current();
        // A renamed collection is not the requested one.
        let named = current.filter(|current| current.namespace == collection.namespace);
        let Some(current) = named else {
            if self.attempt == 0 {
                // The retry looks the collection up in the transaction and finds the current one, or none.
                return Err(engine(nagi_kv::Error::Conflict));
            }
            let (ns, uuid) = (&collection.namespace, collection.uuid);
            bail!(Code::QUERY_PLAN_KILLED, "collection dropped or renamed: {ns}. UUID {uuid}");
        };
        if current.is_view() {
            bail!(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {} is a view, not a collection",
                current.namespace
            );
        }
        if current.shows_log() {
            bail!(
                Code::INVALID_NAMESPACE,
                "cannot write to '{}': it shows the changes of the other collections",
                current.namespace
            );
        }
        if current.options.capped && self.store.private().is_some() {
            bail!(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                "Collection '{}' is a capped collection. Writes in transactions are not allowed on \
                 capped collections.",
                current.namespace
            );
        }
        self.touched.push(Touched {
            collection: current,
            count: 0,
            bytes: 0,
            first_record: 0,
            is_changed: false,
            pass: pass.stay(),
        });
        Ok(self.touched.len() - 1)
    }

    /// The collection that this transaction writes and for which `is_it` holds, if other nodes know it, too.
    pub(super) fn shared_collection(&self, is_it: &dyn Fn(&Collection) -> bool) -> Option<Ident> {
        self.store.members.as_ref()?;
        let found = self.touched.iter().find(|touched| is_it(&touched.collection))?;
        let ident = found.collection.ident;
        // Otherwise it is one that this transaction creates.
        self.store.shared.catalog.load().names.by_ident(ident).map(|_| ident)
    }

    /// Enters the collection before anything of it is written.
    ///
    /// # Errors
    /// 112 if it was dropped, renamed or frozen since it was looked up; if that is known from an earlier attempt, 175.
    pub fn enter(&mut self, collection: &Collection) -> Result<()> {
        self.touch(collection).map(drop)
    }

    /// Locks a record for a following `update` or `delete`. Returns false if another transaction has it, or has
    /// changed it since this transaction's snapshot; the transaction can go on with other records.
    pub fn claim(&mut self, collection: &Collection, id: RecordKey<'_>) -> Result<bool> {
        let at = self.touch(collection)?;
        let current = &self.touched[at].collection;
        let (space, key) = (current.space, id.stored(current.ident));
        match self.txn().lock(space, &key) {
            Err(nagi_kv::Error::Conflict) => Ok(false),
            other => other.map(|()| true).map_err(engine),
        }
    }

    /// Makes this transaction conflict with other writers of the record, as if it wrote the record itself. A lock
    /// before the first read waits for a while instead of failing at once.
    pub fn lock(&mut self, collection: &Collection, id: RecordKey<'_>) -> Result<()> {
        let at = self.touch(collection)?;
        let current = &self.touched[at].collection;
        let (space, key) = (current.space, id.stored(current.ident));
        self.lock_key(space, &key)
    }
}
