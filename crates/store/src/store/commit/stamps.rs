//! Commits and their stamps: the only place in the store where transactions of the engine are committed.
//!
//! A stamp is the commit's cluster time (`nagi_kv::Clock`). Ordinary commits, client transactions, DDL and the
//! store's maintenance all get their stamps from the same clock, in the order in which they become visible.
//!
//! The module adds two guarantees to those of the engine:
//!
//! *Catalog and data agree.* A catalog change becomes visible twice: in the engine with its commit, and in memory
//! when the new version is published. A reader that needs a consistent snapshot of both (a transaction, or a read
//! at a cluster time) must not run between the two steps:
//!
//! ```text
//!   DDL:                    | exclusive: commit, publish |
//!   consistent snapshot:                                 | shared: catalog, snapshot |
//! ```
//!
//! So a snapshot contains every commit up to its stamp and none after it, DDL included. Ordinary commits do not
//! take this lock.
//!
//! *Stamps grow across restarts.* An engine need not store its last stamp. The catalog therefore stores a limit
//! ahead of all stamps, which is raised every few seconds and before any commit that would pass it. The next start
//! continues from the limit, independently of the wall clock:
//!
//! ```text
//!   stamps:   ... 100 ... 104      crash, restart      115 ...
//!   limit:    110 (on disk)  ------------------------> continues after 110
//! ```
//!
//! An engine whose stamps come from an oracle (`Capabilities::one_order` is missing) needs no limit. There, a commit
//! has a greater stamp than every commit that its transaction could see, which is what causal consistency needs.

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

/// The distance by which the limit is raised: ten seconds. After a crash the stamps may be ahead of the wall clock
/// by this much.
const AHEAD: u64 = 10 << 32;
/// The limit is raised when less than this is left, so that a commit that waits for the disk meanwhile does not
/// pass it.
const MARGIN: u64 = 5 << 32;

/// See the module's header.
#[derive(Default)]
pub(crate) struct Stamps {
    /// The limit stored in the catalog.
    limit: AtomicU64,
    /// Held while the limit is raised.
    raising: Mutex<()>,
    publishing: RwLock<()>,
}

impl Stamps {
    /// Excludes readers of catalog and data until a catalog change is committed and published.
    pub(crate) fn publish(&self) -> RwLockWriteGuard<'_, ()> {
        self.publishing.write()
    }

    /// Excludes catalog changes while a snapshot of catalog and data is taken.
    pub(crate) fn take_state(&self) -> RwLockReadGuard<'_, ()> {
        self.publishing.read()
    }
}

impl Store {
    /// Commits a transaction of the engine. Every commit of the store goes through this function.
    pub(crate) fn commit(&self, txn: Box<dyn Txn>, durability: Durability) -> Result<CommitStamp> {
        let _committing = self.client.waits().commits.begin(txn.staged_bytes());
        if txn.staged_bytes() == 0 {
            return txn.commit(durability).map_err(engine);
        }
        let _held = self.held.begin();
        if !self.promises.one_order {
            // Its stamps grow across restarts, and no process sets them.
            let stamp = txn.commit(durability).map_err(engine)?;
            self.client.note_commit(stamp);
            return Ok(stamp);
        }
        self.raise_limit(self.engine.clock().greatest())?;
        let stamp = txn.commit(durability).map_err(engine)?;
        // Needed if the commit waited longer than the margin, or if a client brought a later stamp. The commit has
        // already happened: an error here must not be reported as a failed commit.
        if let Err(error) = self.raise_limit(stamp.0.saturating_sub(MARGIN)) {
            log::warn!(target: "STORAGE", id = 9_000_070, error = error.message();
                "The limit of commit stamps cannot be written; the next commit retries it");
        }
        self.client.note_commit(stamp);
        Ok(stamp)
    }
}

impl Shared {
    /// Ensures that the limit is at least `MARGIN` ahead of `stamp`.
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

/// Advances the engine past all stamps that it may have issued before a restart.
pub(crate) fn resume(on: &dyn Engine) -> Result<()> {
    let key = Ident(0).catalog_key(CatalogKey::StampLimit);
    let mut buf = Vec::new();
    let kept = on.latest().get(Space::Catalog, &key, &mut buf).map_err(engine)?;
    let limit = kept.and_then(|limit| limit.first_chunk()).map_or(0, |l| u64::from_le_bytes(*l));
    on.advance(CommitStamp(limit)).map_err(engine)
}

impl Store {
    /// The newest stamp that a reader can see: `operationTime` of a read.
    pub fn last_stamp(&self) -> CommitStamp {
        self.engine.last_stamp()
    }

    /// The greatest stamp that was issued here or received from a client: `$clusterTime`.
    pub fn greatest_stamp(&self) -> CommitStamp {
        CommitStamp(self.engine.clock().greatest())
    }

    /// Wall time of the newest commit, in milliseconds since 1970.
    pub fn committed_ms(&self) -> i64 {
        self.engine.clock().committed_ms()
    }

    /// Ensures that later commits are after `stamp`, which a client has seen on another server.
    pub fn observe_stamp(&self, stamp: CommitStamp) -> Result<()> {
        if stamp > self.greatest_stamp() {
            if self.promises.one_order {
                self.raise_limit(stamp.0)?;
            }
            self.engine.clock().observe(stamp.0);
        }
        Ok(())
    }

    /// Like [`Store::observe_stamp`]; additionally every commit up to `stamp` is visible on return.
    pub fn advance_to(&self, stamp: CommitStamp) -> Result<()> {
        self.observe_stamp(stamp)?;
        self.engine.advance(stamp).map_err(engine)
    }

    /// A stamp that no commit has, for a timestamp in a document.
    pub fn next_timestamp(&self) -> u64 {
        self.engine.clock().next()
    }

    /// The last call before the process exits: makes everything durable. Later writes fail.
    pub fn close(&self) -> Result<()> {
        if !self.promises.one_order {
            return self.engine.close().map_err(engine);
        }
        // Stores the exact stamp, so that the next start continues right after it. Without this there is only a
        // gap.
        let exact = self.put_limit(self.engine.clock().greatest());
        self.engine.close().map_err(engine)?;
        exact
    }
}

/// The time at which a write becomes visible to other clients.
#[derive(Clone)]
pub enum Stamp {
    /// The stamp of the commit; for a write that changed nothing, the stamp of the newest commit.
    Committed(CommitStamp),
    /// Visible with the commit of its transaction.
    Transaction(std::sync::Arc<crate::store::transaction::Bound>),
}

impl Stamp {
    /// The stamp of the commit; `None` while the transaction is open, or if it was aborted.
    pub fn get(&self) -> Option<CommitStamp> {
        match self {
            Stamp::Committed(stamp) => Some(*stamp),
            Stamp::Transaction(bound) => bound.committed(),
        }
    }
}

/// The result of [`Store::write`].
pub struct Written<T> {
    pub value: T,
    pub stamp: Stamp,
}

impl Store {
    /// Returns once the newest commit of this client's request is durable, and with it all earlier ones. A request
    /// that has committed nothing may report what others committed, for example an earlier attempt of a retryable
    /// write: then everything becomes durable. Within a transaction there is nothing to wait for.
    pub fn sync(&self) -> Result<()> {
        match (&self.bound, self.client.committed()) {
            (Some(_), _) => Ok(()),
            (None, Some(stamp)) => self.sync_to(stamp),
            (None, None) => self.flush(),
        }
    }

    /// Returns once every commit up to `stamp` is durable.
    pub(crate) fn sync_to(&self, stamp: CommitStamp) -> Result<()> {
        let _committing = self.client.waits().commits.begin(0);
        self.engine.sync(stamp).map_err(engine)
    }

    /// True within a transaction of several statements.
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Reloads a collection's counters from the engine, after a commit whose outcome is unknown.
    pub(crate) fn reload_counters(&self, collection: &Collection) {
        if let Some(members) = &self.members {
            // If it fails, so do other reads.
            let _ = self.reread_counts(members, collection.ident);
        } else if let Ok(stored) = catalog::load_counters(self.engine.latest(), collection.ident) {
            collection.state.set_counters(stored.0, stored.1);
        }
    }
}
