//! Transactions of several statements: client transactions, and a retryable write together with its session record.
//!
//! A transaction is a handle of the store. Statements run on it as on any other handle, so plans, cursors and write
//! commands do not depend on transactions:
//!
//! ```text
//!   Transaction::begin --> store() --> find, insert, update ...   on the bound handle
//!                                        reads:  one snapshot, plus the transaction's own writes
//!                                        writes: staged; a failed statement is rolled back alone
//!                      --> commit()    all writes together, at one stamp
//!                      --> end(why)    aborted; a reason is kept for the next statement
//! ```
//!
//! - `Long`: a client transaction, which stays open between statements. It reads the snapshot and the catalog of
//!   its beginning. No operation waits for it: DDL on a collection that it has used aborts it
//!   (`SnapshotUnavailable`). Collections that it creates are private until it commits.
//! - `Short`: lives within one request, for a write that must commit together with its session record.
//!
//! Invariants
//! - One statement runs at a time: `work` is locked while it runs, and readers lock it for each read.
//! - Once `ended` is set no statement begins. The thread that set it releases the locked keys, or, if a statement
//!   is running, that statement's thread does when it finishes.

use std::{collections::HashMap, sync::Arc};

use nagi_bson::{Doc, Value};
use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Error, Result, bail};
use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
};
use nagi_kv::{CommitStamp, Cursor, Durability, KEYS_AT_ONCE, Read, Space, Txn, TxnOptions};

use crate::{
    Catalog, Collection, CollectionOptions, Namespace, Reader, Store, WriteOptions, WriteTxn,
    engine_error::engine,
    ident::Ident,
    store::{
        Shared,
        commit::{Change, Stamp, Written},
        contended::{Contended, until_done},
        ddl,
        private::{self, Private},
        txn::Suspended,
    },
};

/// Bytes that one transaction may stage, in addition to the engine's own limit.
const TRANSACTION_BYTES_MAX: usize = 128 << 20;
/// Granularity in bytes of the memory charge for staged writes.
const CHARGE_STEP: u64 = 256 << 10;
/// Bytes that all long transactions together may stage.
const ALL_TRANSACTIONS_BYTES_MAX: usize = 1 << 30;
/// Long transactions open at once.
const TRANSACTION_COUNT_MAX: usize = 10_000;

/// The lifetime of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// Within one request.
    Short,
    /// Until its client ends it.
    Long,
}

/// The reason why a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum End {
    /// It was aborted by the client, by a time limit, or because its session ended.
    Aborted = 1,
    /// A collection or index that it used was changed or dropped.
    CatalogChanged = 2,
    /// It staged more bytes than allowed.
    TooLarge = 3,
    /// It is committed.
    Committed = 4,
    /// It was a snapshot for reads, and it was kept for long enough.
    Expired = 5,
}

/// A transaction of several statements. Dropping it rolls it back.
pub struct Transaction {
    store: Arc<Store>,
    bound: Arc<Bound>,
}

/// State shared by the handles of a transaction.
pub struct Bound {
    lifetime: Lifetime,
    id: u64,
    /// For a long transaction: the stamp of its snapshot.
    state: CommitStamp,
    names: Mutex<Names>,
    work: Mutex<Option<Suspended>>,
    /// An [`End`], or zero while it is open.
    ended: AtomicUsize,
    /// The stamp of its commit; zero before the commit.
    committed: AtomicU64,
    /// Bytes counted in `OpenTransactions::bytes`.
    counted_bytes: AtomicUsize,
    /// The same bytes, charged to the memory budget.
    charge: Mutex<Charge>,
    shared: Arc<Shared>,
}

/// The catalog as the transaction sees it.
struct Names {
    /// The catalog at its beginning.
    catalog: Arc<Catalog>,
    created: Private,
    /// Collections that it has looked up.
    used: Vec<Ident>,
}

/// All open long transactions.
#[derive(Default)]
pub(crate) struct OpenTransactions {
    all: Mutex<HashMap<u64, Arc<Bound>>>,
    next_id: AtomicU64,
    bytes: AtomicUsize,
}

impl OpenTransactions {
    /// Aborts the transactions that have used one of these collections.
    pub(crate) fn end_users_of(&self, collections: &[Arc<Collection>]) {
        if collections.is_empty() {
            return;
        }
        let all: Vec<_> = self.all.lock().values().cloned().collect();
        for bound in all {
            let uses = |c: &Arc<Collection>| bound.names.lock().used.contains(&c.ident);
            if collections.iter().any(uses) {
                bound.end(End::CatalogChanged);
            }
        }
    }
}

impl Transaction {
    /// Begins a transaction. A long one reads the snapshot of this moment. Code 388 if too many are open.
    pub fn begin(store: &Store, lifetime: Lifetime) -> Result<Transaction> {
        Transaction::begin_with(store, lifetime, None)
    }

    /// A transaction for reads at a stamp: every commit up to it is visible, and no later one. [`Store::advance_to`]
    /// has to be called for the stamp before. Some requests to a distributed engine; an embedded one has the snapshot
    /// of this moment only.
    ///
    /// # Errors
    /// 239 if there is no snapshot at that stamp, or not any more. A collection that has changed since is 246 when it
    /// is read.
    pub fn begin_at(store: &Store, stamp: CommitStamp) -> Result<Transaction> {
        let Some(members) = &store.shared.members else {
            let now = Transaction::begin(store, Lifetime::Long)?;
            return if now.read_stamp() == stamp { Ok(now) } else { Err(too_old(stamp)) };
        };
        check_count(store)?;
        let txn = match store.shared.engine.begin_at(stamp) {
            Err(nagi_kv::Error::SnapshotTooOld) => return Err(too_old(stamp)),
            other => other.map_err(engine)?,
        };
        let pinned = store.catalog_at(members, &*txn)?;
        Ok(Transaction::bind(store, Lifetime::Long, txn, (pinned, stamp)))
    }

    fn begin_with(
        store: &Store,
        lifetime: Lifetime,
        contended: Option<(Contended, &WriteOptions<'_>)>,
    ) -> Result<Transaction> {
        let shared = &store.shared;
        let long = lifetime == Lifetime::Long;
        if long {
            check_count(store)?;
        }
        // A client transaction fails at once on a conflict; a short one may wait a moment, like other writes.
        let options = match long {
            true => TxnOptions { lock_wait_ms: 0, of_client: true },
            false => Contended::options(contended.as_ref().map(|(contended, _)| contended)),
        };
        let mut txn = shared.engine.begin(options).map_err(engine)?;
        if let Some((contended, write)) = &contended {
            contended.lock(&mut *txn, write, store.client.conflict_waits())?;
        }
        // A long one reads catalog and data of the same moment, with exactly the commits up to `state`.
        let (pinned, state) = match long {
            false => (shared.catalog.load_full(), CommitStamp::default()),
            true => {
                let _no_ddl = shared.stamps.take_state();
                (shared.catalog.load_full(), txn.read_stamp().map_err(engine)?)
            }
        };
        Ok(Transaction::bind(store, lifetime, txn, (pinned, state)))
    }

    /// `state`: the stamp of its snapshot, if it is a long one.
    fn bind(
        store: &Store,
        lifetime: Lifetime,
        txn: Box<dyn Txn>,
        (pinned, state): (Arc<Catalog>, CommitStamp),
    ) -> Transaction {
        let shared = &store.shared;
        let bound = Arc::new(Bound {
            lifetime,
            id: shared.open.next_id.fetch_add(1, SeqCst),
            state,
            names: Mutex::new(Names {
                catalog: pinned,
                created: Private::default(),
                used: Vec::new(),
            }),
            work: Mutex::new(Some(Suspended::new(txn))),
            ended: AtomicUsize::new(0),
            committed: AtomicU64::new(0),
            counted_bytes: AtomicUsize::new(0),
            charge: Mutex::new(Charge::empty(&shared.budget, Pool::Transactions)),
            shared: Arc::clone(shared),
        });
        if lifetime == Lifetime::Long {
            shared.open.all.lock().insert(bound.id, Arc::clone(&bound));
        }
        let store = Store {
            shared: Arc::clone(shared),
            bound: Some(Arc::clone(&bound)),
            client: Arc::clone(&store.client),
        };
        Transaction { store: Arc::new(store), bound }
    }

    /// The handle on which its statements run.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The stamp of a long transaction's snapshot: every commit up to it is visible, DDL included, and no later
    /// one.
    pub fn read_stamp(&self) -> CommitStamp {
        self.bound.state
    }

    /// The reason why it has ended; `None` while it is open.
    pub fn ended(&self) -> Option<End> {
        self.bound.ended()
    }

    /// Returns true if it has changes to commit.
    pub fn has_written(&self) -> bool {
        self.bound.work.lock().as_ref().is_some_and(|work| work.read().staged_bytes() > 0)
            || !self.bound.names.lock().created.is_empty()
    }

    /// Returns the error for the use of an ended transaction.
    pub fn check_open(&self) -> Result<()> {
        self.bound.check_open()
    }

    /// Aborts it: at once, or as soon as the running statement has finished.
    pub fn end(&self, why: End) {
        self.bound.end(why);
    }

    /// Commits it: all of its writes become visible, or (112 and other errors) none.
    pub fn commit(&self, durability: Durability) -> Result<CommitStamp> {
        let stamp = self.bound.commit(&self.store, durability)?;
        self.store.tell_settings()?;
        Ok(stamp)
    }
}

/// Refuses a long transaction if too many are open.
fn check_count(store: &Store) -> Result<()> {
    if store.shared.open.all.lock().len() >= TRANSACTION_COUNT_MAX {
        bail!(
            Code::TRANSACTION_TOO_LARGE_FOR_CACHE,
            "too many open transactions; the limit is {TRANSACTION_COUNT_MAX}"
        );
    }
    Ok(())
}

#[cold]
fn too_old(stamp: CommitStamp) -> Error {
    let text = format!("Read timestamp {stamp} is older than the oldest available timestamp.");
    Error::new(Code::SNAPSHOT_TOO_OLD, text)
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.bound.end(End::Aborted);
    }
}

impl Store {
    /// An unbound handle of the same client, for DDL.
    fn unbound(&self) -> Store {
        Store { shared: Arc::clone(&self.shared), bound: None, client: Arc::clone(&self.client) }
    }

    /// The long transaction that this handle is bound to; collections it creates are private.
    pub(crate) fn private(&self) -> Option<&Arc<Bound>> {
        self.bound.as_ref().filter(|bound| bound.lifetime == Lifetime::Long)
    }
}

impl Bound {
    fn ended(&self) -> Option<End> {
        match self.ended.load(SeqCst) {
            0 => None,
            2 => Some(End::CatalogChanged),
            3 => Some(End::TooLarge),
            4 => Some(End::Committed),
            5 => Some(End::Expired),
            _ => Some(End::Aborted),
        }
    }

    /// The stamp of its commit.
    pub(crate) fn committed(&self) -> Option<CommitStamp> {
        Some(CommitStamp(self.committed.load(SeqCst))).filter(|stamp| stamp.0 > 0)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(End::CatalogChanged) => bail!(
                Code::SNAPSHOT_UNAVAILABLE,
                "Unable to read from a snapshot due to pending collection catalog changes; please \
                 retry the operation."
            ),
            Some(End::TooLarge) => bail!(
                Code::TRANSACTION_TOO_LARGE_FOR_CACHE,
                "transaction is too large and will not fit in the storage engine cache"
            ),
            Some(End::Expired) => Err(too_old(self.state)),
            Some(End::Aborted | End::Committed) => {
                bail!(Code::NO_SUCH_TRANSACTION, "Transaction has ended")
            }
        }
    }

    /// Ends it; the first reason is kept. Releases the locked keys unless a statement is running.
    fn end(&self, why: End) {
        let _ = self.ended.compare_exchange(0, why as usize, SeqCst, SeqCst);
        if let Some(mut work) = self.work.try_lock() {
            self.give_back(&mut work);
        }
    }

    fn give_back(&self, work: &mut Option<Suspended>) {
        *work = None;
        self.leave();
    }

    /// Removes it from the open transactions.
    fn leave(&self) {
        if self.lifetime == Lifetime::Long {
            self.shared.open.all.lock().remove(&self.id);
        }
        self.charge.lock().shrink_to(0);
        self.shared.open.bytes.fetch_sub(self.counted_bytes.swap(0, SeqCst), SeqCst);
    }

    /// Called after `work` is unlocked: a thread that ended the transaction meanwhile could not release its keys.
    fn settle(&self) {
        if self.ended().is_some()
            && let Some(mut work) = self.work.try_lock()
        {
            self.give_back(&mut work);
        }
    }

    /// Runs `f` as the write of one statement; if it fails, its writes are rolled back.
    pub(crate) fn write<T>(
        &self,
        store: &Store,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&mut WriteTxn<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut work = self.work.lock();
        let result = self.check_open().and_then(|()| {
            let suspended = work.take().ok_or_else(|| engine(nagi_kv::Error::Conflict))?;
            let mut txn = WriteTxn::resume(store, suspended, &options);
            let result = txn.attempt(f);
            let bytes = txn.staged_bytes();
            *work = Some(txn.suspend());
            let value = result?;
            self.count_bytes(bytes)?;
            Ok(value)
        });
        drop(work);
        self.settle();
        result
    }

    /// Accounts for the staged bytes; exceeding a limit aborts the transaction.
    fn count_bytes(&self, bytes: usize) -> Result<()> {
        if self.lifetime == Lifetime::Short {
            return Ok(());
        }
        let before = self.counted_bytes.swap(bytes, SeqCst);
        let open = &self.shared.open;
        let grown = bytes.saturating_sub(before);
        let total = open.bytes.fetch_add(grown, SeqCst) + grown;
        open.bytes.fetch_sub(before.saturating_sub(bytes), SeqCst);
        let own_max = TRANSACTION_BYTES_MAX.min(self.shared.engine.limits().txn_bytes_max / 2);
        // At commit, staged writes exist twice: in the transaction and in the engine's batch.
        let fits = self.charge.lock().cover(2 * bytes as u64, CHARGE_STEP);
        if bytes > own_max
            || (grown > 0 && !fits)
            || (grown > 0 && total > ALL_TRANSACTIONS_BYTES_MAX)
        {
            let _ = self.ended.compare_exchange(0, End::TooLarge as usize, SeqCst, SeqCst);
        }
        self.check_open()
    }

    fn commit(&self, store: &Store, durability: Durability) -> Result<CommitStamp> {
        let mut work = self.work.lock();
        let result = self.check_open().and_then(|()| {
            let suspended = work.take().ok_or_else(|| engine(nagi_kv::Error::Conflict))?;
            let txn = WriteTxn::resume(store, suspended, &WriteOptions::default());
            let created = std::mem::take(&mut self.names.lock().created);
            match created.is_empty() {
                true => txn.commit(durability),
                false => private::commit_private(&store.unbound(), txn, created),
            }
        });
        if let Ok(stamp) = &result {
            self.committed.store(stamp.0, SeqCst);
        }
        let end = if result.is_ok() { End::Committed } else { End::Aborted };
        let _ = self.ended.compare_exchange(0, end as usize, SeqCst, SeqCst);
        self.give_back(&mut work);
        result
    }

    pub(crate) fn catalog(&self, shared: &Shared) -> Arc<Catalog> {
        match self.lifetime {
            Lifetime::Short => shared.catalog.load_full(),
            Lifetime::Long => Arc::clone(&self.names.lock().catalog),
        }
    }

    /// The collection as of the transaction's beginning, or one that it created. If the collection has changed
    /// since, the transaction is aborted: its snapshot and the new version are inconsistent with each other.
    pub(crate) fn collection(
        &self,
        shared: &Shared,
        namespace: &Namespace,
    ) -> Option<Arc<Collection>> {
        if self.lifetime == Lifetime::Short {
            return shared.catalog.load().collection(namespace).cloned();
        }
        let mut names = self.names.lock();
        let pinned = names.catalog.collection(namespace).cloned();
        if let Some(own) = &pinned
            && names.created.has(own.ident)
        {
            return pinned;
        }
        if let Some(collection) = &pinned
            && !names.used.contains(&collection.ident)
        {
            names.used.push(collection.ident);
        }
        drop(names);
        let newest = shared.catalog.load().collection(namespace).cloned();
        let same = match (&pinned, &newest) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_same(b),
            _ => false,
        };
        if !same {
            let why = End::CatalogChanged as usize;
            let _ = self.ended.compare_exchange(0, why, SeqCst, SeqCst);
        }
        pinned
    }

    /// Creates a collection that other clients see after the commit.
    pub(crate) fn create(
        &self,
        store: &Store,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        if let Some(existing) = store.collection(namespace) {
            return ddl::same_options(existing, &options);
        }
        if options.view.is_some() || options.capped || options.timeseries.is_some() {
            bail!(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                "Cannot create a view or a capped collection in a multi-document transaction."
            );
        }
        let collection = private::create_private(&store.unbound(), namespace, options)?;
        self.put_created(store, Arc::clone(&collection))?;
        Ok(collection)
    }

    /// Adds a collection created by the transaction, or replaces its older version.
    pub(crate) fn put_created(&self, store: &Store, collection: Arc<Collection>) -> Result<()> {
        let mut work = self.work.lock();
        let mut names = self.names.lock();
        if let Some(work) = work.as_mut() {
            let before = names.created.get(collection.ident).map(Arc::as_ref);
            let (after, target, by_coll_mod) = (Some(&*collection), None, false);
            let change = Change::Catalog { before, after, target, by_coll_mod };
            let mut logged = std::mem::take(&mut work.logged);
            let done = store.log_change(work.txn(), &change, &mut logged);
            work.logged = logged;
            done?;
        }
        names.catalog = Arc::new(names.catalog.with(&collection));
        names.created.put(collection);
        Ok(())
    }

    /// Returns true if the transaction created this collection and has not written to it.
    pub(crate) fn is_created_and_untouched(&self, collection: &Collection) -> bool {
        let created = self.names.lock().created.has(collection.ident);
        let work = self.work.lock();
        created && work.as_ref().is_some_and(|work| !work.has_touched(collection))
    }

    /// A lookup by `_id` in the transaction's snapshot.
    pub(crate) fn find_by_id<'b>(
        &self,
        collection: &Collection,
        id: Value<'_>,
        buf: &'b mut Vec<u8>,
    ) -> Result<Option<Doc<'b>>> {
        let mut value = crate::RecordBuf::default();
        let found = Reader::of(self).record_by_id(collection, id, &mut value)?;
        let Some((_, doc)) = found else { return Ok(None) };
        buf.clear();
        buf.extend_from_slice(doc.as_bytes());
        Ok(Some(Doc::trusted(&buf[..])))
    }
}

/// Reads between the statements' writes; reads fail after the transaction has ended.
impl Read for Bound {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> nagi_kv::Result<Option<&'a [u8]>> {
        let work = self.work.lock();
        let txn = work.as_ref().ok_or(nagi_kv::Error::SnapshotTooOld)?;
        // Values lent by the engine are valid only while the lock is held.
        let mut lent = Vec::new();
        let Some(value) = txn.read().get(space, key, &mut lent)? else { return Ok(None) };
        buf.clear();
        buf.extend_from_slice(value);
        Ok(Some(buf))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> nagi_kv::Result<()> {
        let work = self.work.lock();
        work.as_ref().ok_or(nagi_kv::Error::SnapshotTooOld)?.read().get_many(space, keys, visit)
    }

    fn keys_at_once(&self) -> usize {
        let work = self.work.lock();
        work.as_ref().map_or(KEYS_AT_ONCE, |txn| txn.read().keys_at_once())
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> nagi_kv::Result<Box<dyn Cursor>> {
        let work = self.work.lock();
        work.as_ref().ok_or(nagi_kv::Error::SnapshotTooOld)?.read().cursor(space, start, end)
    }
}

impl Store {
    /// Runs `f`, which may do several reads and writes on the transaction's handle, in one transaction. After a
    /// conflict the whole call is retried: `f` must not depend on its earlier attempts.
    pub fn write_together<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&Transaction) -> Result<T>,
    ) -> Result<Written<T>> {
        until_done(&options, self.client.conflict_waits(), |_, contended| {
            let _turn = self.turn(contended.as_ref(), &options, self.client.conflict_waits());
            let lined_up = contended.clone().map(|contended| (contended, &options));
            let txn = Transaction::begin_with(self, Lifetime::Short, lined_up)?;
            let done = f(&txn);
            *contended = txn.bound.work.lock().as_ref().and_then(Suspended::contended);
            let value = done?;
            let stamp = Stamp::Committed(txn.commit(options.durability)?);
            Ok(Written { value, stamp })
        })
    }
}
