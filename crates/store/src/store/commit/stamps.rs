//! Commits and their stamps: the one place of the store where transactions of the engine are committed.
//!
//! A stamp is the commit's cluster time (`nagi_kv::Clock`). Ordinary commits, transactions, DDL and the store's
//! own upkeep get theirs from the same clock, in the order in which they become visible.
//!
//! Two things are added to what the engine promises:
//!
//! *Catalog and data agree.* A change of the catalog becomes visible twice: in the engine with its commit, and
//! in memory when the new version is published. Whoever takes a state of both (a transaction, a read at a
//! cluster time) must not come in between:
//!
//! ```text
//!   DDL:              | exclusive: commit, publish |
//!   state at a time:                               | shared: catalog, snapshot |
//! ```
//!
//! So a state has every commit up to its stamp and none behind it, DDL included. Ordinary commits take no
//! part in this.
//!
//! *Stamps grow across restarts.* An engine need not keep the stamps it gave. The catalog keeps a limit that is
//! ahead of them, raised every few seconds and before any commit that would pass it; the next start continues
//! from there, whatever the wall clock says.

use nagi_error::Result;
use nagi_kv::sync::{
    Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering::SeqCst},
};
use nagi_kv::{CommitStamp, Durability, Engine, Space, Txn, TxnOptions};

use crate::{
    Collection, Store, catalog,
    engine_error::engine,
    ident::{CatalogKey, Ident},
    store::Shared,
};

/// How far the limit is ahead when it is raised: ten seconds. A restart after a crash may go so far ahead of
/// the wall clock.
const AHEAD: u64 = 10 << 32;
/// It is raised when less than this is left: a commit that waits for the disk in between does not pass it.
const MARGIN: u64 = 5 << 32;

/// See the module's header.
#[derive(Default)]
pub(crate) struct Stamps {
    /// As the catalog has it.
    limit: AtomicU64,
    /// Locked while the limit is raised.
    raising: Mutex<()>,
    publishing: RwLock<()>,
}

impl Stamps {
    /// Excludes readers of catalog and data until a change of the catalog is committed and published.
    pub(crate) fn publish(&self) -> RwLockWriteGuard<'_, ()> {
        self.publishing.write()
    }

    /// Excludes changes of the catalog while a snapshot of catalog and data is taken.
    pub(crate) fn take_state(&self) -> RwLockReadGuard<'_, ()> {
        self.publishing.read()
    }
}

impl Store {
    /// Commits a transaction of the engine. Every commit of the store goes through here.
    pub(crate) fn commit(&self, txn: Box<dyn Txn>, durability: Durability) -> Result<CommitStamp> {
        if txn.staged_bytes() == 0 {
            return txn.commit(durability).map_err(engine);
        }
        self.raise_limit(self.engine.clock().greatest())?;
        let stamp = txn.commit(durability).map_err(engine)?;
        // More time than the margin passed while the commit waited, or a client brought a later stamp. The commit
        // has happened: an error here must not tell the caller otherwise.
        if let Err(error) = self.raise_limit(stamp.0.saturating_sub(MARGIN)) {
            log::warn!(target: "STORAGE", id = 9_000_070, error = error.message();
                "The limit of commit stamps cannot be written; it is tried again with the next commit");
        }
        self.client.note_commit(stamp);
        Ok(stamp)
    }
}

impl Shared {
    /// Sees to it that the limit is at least `MARGIN` ahead of `stamp`.
    fn raise_limit(&self, stamp: u64) -> Result<()> {
        if stamp.saturating_add(MARGIN) <= self.stamps.limit.load(SeqCst) {
            return Ok(());
        }
        let _one = self.stamps.raising.lock();
        if stamp.saturating_add(MARGIN) > self.stamps.limit.load(SeqCst) {
            self.put_limit(stamp.saturating_add(AHEAD))?;
        }
        Ok(())
    }

    fn put_limit(&self, limit: u64) -> Result<()> {
        let mut txn = self.engine.begin(TxnOptions::default()).map_err(engine)?;
        let key = Ident(0).catalog_key(CatalogKey::StampLimit);
        txn.put(Space::Catalog, &key, &limit.to_le_bytes()).map_err(engine)?;
        txn.commit(Durability::Buffered).map_err(engine)?;
        self.stamps.limit.store(limit, SeqCst);
        Ok(())
    }
}

/// Advances the engine past all stamps that it gave before a restart.
pub(crate) fn resume(on: &dyn Engine) -> Result<()> {
    let key = Ident(0).catalog_key(CatalogKey::StampLimit);
    let mut buf = Vec::new();
    let kept = on.latest().get(Space::Catalog, &key, &mut buf).map_err(engine)?;
    let limit = kept.and_then(|limit| limit.first_chunk()).map_or(0, |l| u64::from_le_bytes(*l));
    on.advance(CommitStamp(limit)).map_err(engine)
}

impl Store {
    /// The newest stamp that a reader may have seen: `operationTime` of a read.
    pub fn last_stamp(&self) -> CommitStamp {
        self.engine.last_stamp()
    }

    /// The greatest stamp that was given or that somebody brought: `$clusterTime`.
    pub fn greatest_stamp(&self) -> CommitStamp {
        CommitStamp(self.engine.clock().greatest())
    }

    /// Wall time of the newest commit, in milliseconds since 1970.
    pub fn committed_ms(&self) -> i64 {
        self.engine.clock().committed_ms()
    }

    /// Later commits are behind `stamp`, which somebody has seen elsewhere.
    pub fn observe_stamp(&self, stamp: CommitStamp) -> Result<()> {
        if stamp > self.greatest_stamp() {
            self.raise_limit(stamp.0)?;
            self.engine.clock().observe(stamp.0);
        }
        Ok(())
    }

    /// As [`Store::observe_stamp`]; and every commit up to `stamp` is visible on return.
    pub fn advance_to(&self, stamp: CommitStamp) -> Result<()> {
        self.observe_stamp(stamp)?;
        self.engine.advance(stamp).map_err(engine)
    }

    /// A stamp that no commit has: a timestamp for a document.
    pub fn next_timestamp(&self) -> u64 {
        self.engine.clock().next()
    }

    /// The last call before the end of the process: makes everything durable. Writes fail afterwards.
    pub fn close(&self) -> Result<()> {
        // The next start continues right after the stamps of this one. Without this there is only a gap.
        let exact = self.put_limit(self.engine.clock().greatest());
        self.engine.close().map_err(engine)?;
        exact
    }
}

/// When a write is visible to others.
#[derive(Clone)]
pub enum Stamp {
    /// The stamp of its commit; of a write that changed nothing, that of the newest commit.
    Committed(CommitStamp),
    /// With the commit of its transaction.
    Transaction(std::sync::Arc<crate::store::transaction::Bound>),
}

impl Stamp {
    /// The stamp of the commit; none while the transaction is open, or if it was not committed.
    pub fn get(&self) -> Option<CommitStamp> {
        match self {
            Stamp::Committed(stamp) => Some(*stamp),
            Stamp::Transaction(bound) => bound.committed(),
        }
    }
}

/// What [`Store::write`] gives back.
pub struct Written<T> {
    pub value: T,
    pub stamp: Stamp,
}

impl Store {
    /// Takes a collection's counters as they are stored: after a commit of which no one knows whether it
    /// happened.
    pub(crate) fn reload_counters(&self, collection: &Collection) {
        if let Ok(stored) = catalog::load_counters(self.engine.latest(), collection.ident) {
            collection.state.set_counters(stored.0, stored.1);
        }
    }
}
