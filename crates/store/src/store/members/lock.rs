//! The catalog lock: one change of the catalog at a time, over all nodes. It is held from the look at the newest
//! catalog to the commit, for a few requests. Whoever waits for it has the lock of DDL of its process.

use std::time::Duration;

use nagi_error::{Code, Result, bail};
use nagi_kv::{
    Txn,
    sync::{Instant, thread},
};

use super::{Members, SeqCst};
use crate::{
    Store,
    engine_error::engine,
    ident::Ident,
    node::{Board, Changes, NodeId, put_lock, remove_lock},
    store::ddl::Idents,
};

/// How often a node that waits for it looks at it.
const POLL: Duration = Duration::from_millis(5);
/// So long a change waits for those of other nodes.
const WAIT: Duration = Duration::from_secs(60);

/// The lock. Dropping it gives it back, unless a commit has.
pub(crate) struct CatalogLock<'s> {
    store: &'s Store,
    members: &'s Members,
    /// As of the lock.
    changes: Changes,
    is_held: bool,
}

impl Store {
    /// Locks the catalog for a change, and catches up with those of other nodes. `alone` is what the lock of DDL
    /// protects.
    ///
    /// # Errors
    /// 24 if others have it for too long. Those of the engine.
    pub(crate) fn lock_catalog<'s>(
        &'s self,
        members: &'s Members,
        alone: &mut Idents,
    ) -> Result<CatalogLock<'s>> {
        let until = Instant::now() + WAIT;
        while let Some(holder) = self.try_lock_catalog(members)? {
            if Instant::now() >= until {
                bail!(Code::LOCK_TIMEOUT, "other nodes have changed the catalog for a minute");
            }
            let (seats, now) = members.seats()?;
            let dead = seats.iter().find(|seat| seat.node == holder && seat.until < now);
            dead.map_or(Ok(()), |dead| members.clear(dead))?;
            // The thread that answers others cannot, as this one has the lock of DDL.
            self.catch_up(members, alone)?;
            members.note_fresh();
            members.report()?;
            thread::sleep(POLL);
        }
        let mut lock =
            CatalogLock { store: self, members, changes: Changes::default(), is_held: true };
        lock.changes = self.catch_up(members, alone)?.changes;
        Ok(lock)
    }

    /// Returns who has it, if that is another node.
    fn try_lock_catalog(&self, members: &Members) -> Result<Option<NodeId>> {
        self.alone(&mut |txn| {
            let holder = Board::read(&*txn).map_err(engine)?.lock;
            // The own one is of an attempt whose outcome was unknown.
            if holder.is_none() {
                put_lock(txn, members.node()).map_err(engine)?;
            }
            Ok(holder.filter(|holder| *holder != members.node()))
        })
    }

    /// Gives it back, if this node has it. Called under the lock of DDL.
    pub(super) fn unlock_catalog(&self, members: &Members) -> Result<()> {
        self.alone(&mut |txn| {
            if Board::read(&*txn).map_err(engine)?.lock == Some(members.node()) {
                remove_lock(txn).map_err(engine)?;
            }
            Ok(())
        })
    }
}

impl CatalogLock<'_> {
    /// Stages the next version of the catalog, which changes these collections. Returns its number.
    pub(crate) fn stage(
        &self,
        txn: &mut dyn Txn,
        idents: impl IntoIterator<Item = Ident>,
    ) -> Result<u64> {
        let changes = self.changes.next(idents);
        changes.put(txn).map_err(engine)?;
        Ok(changes.version)
    }

    /// The same, and the end of the lock; for a transaction that was begun under it.
    pub(crate) fn stage_last(
        &self,
        txn: &mut dyn Txn,
        idents: impl IntoIterator<Item = Ident>,
    ) -> Result<u64> {
        remove_lock(txn).map_err(engine)?;
        self.stage(txn, idents)
    }

    /// The transaction of [`CatalogLock::stage`] has committed, and its catalog is published.
    pub(crate) fn committed(&self, version: u64) {
        self.members.version.store(version, SeqCst);
    }

    /// The same after [`CatalogLock::stage_last`].
    pub(crate) fn committed_last(mut self, version: u64) {
        self.committed(version);
        self.is_held = false;
    }
}

impl Drop for CatalogLock<'_> {
    fn drop(&mut self) {
        if self.is_held
            && let Err(error) = self.store.unlock_catalog(self.members)
        {
            // The thread that answers other nodes tries it again.
            log::warn!(target: "STORAGE", id = 8_200_432, error:% = error;
                "The lock of the catalog could not be released; retrying");
        }
    }
}
