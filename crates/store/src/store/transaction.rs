//! Transactions of several statements: those of clients, and a retryable write together with its record in the
//! session.
//!
//! A transaction is a handle of the store. Statements run on it as on any other handle, so plans, cursors and write
//! commands need not know about transactions:
//!
//! ```text
//!   Transaction::begin --> store() --> find, insert, update ...   on the bound handle
//!                                        reads:  one snapshot, plus the transaction's own writes
//!                                        writes: staged; a failed statement is undone alone
//!                      --> commit()    one commit, one stamp
//!                      --> end(why)    aborted; a reason is kept for the next statement
//! ```
//!
//! - `Long`: a client's transaction, which waits for its client between statements. It reads the snapshot and the
//!   catalog of its beginning. Nothing waits for it: DDL on a collection that it has used ends it
//!   (`SnapshotUnavailable`). Collections that it creates are private until it commits.
//! - `Short`: lives within one request, for a write that must commit together with its session record.
//!
//! Invariants
//! - One statement runs at a time: `work` is locked while it runs, and readers lock it for each read.
//! - Once `ended` is set no statement begins. Whoever set it, or else the statement that is running, releases the
//!   keys.

use std::{collections::HashMap, sync::Arc};

use nagi_bson::{Doc, Value};
use nagi_budget::{Charge, Pool};
use nagi_error::{Code, Result, bail};
use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
};
use nagi_kv::{CommitStamp, Cursor, Durability, Read, Space, TxnOptions};

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

/// Bytes that one transaction may stage, besides the engine's own limit.
const TRANSACTION_BYTES_MAX: usize = 128 << 20;
/// Staged writes are charged so much at a time.
const CHARGE_STEP: u64 = 256 << 10;
/// Bytes that all long transactions together may stage.
const ALL_TRANSACTIONS_BYTES_MAX: usize = 1 << 30;
/// Long transactions open at once.
const TRANSACTION_COUNT_MAX: usize = 10_000;

/// How long a transaction lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// Within one request.
    Short,
    /// Until its client ends it.
    Long,
}

/// Why a transaction ended before its commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum End {
    /// Somebody wished it: the client, a time limit, the end of its session.
    Aborted = 1,
    /// A collection or an index that it used changed or went away.
    CatalogChanged = 2,
    /// It staged too much.
    TooLarge = 3,
    /// It is committed.
    Committed = 4,
}

/// A transaction of several statements. Dropping it undoes it.
pub struct Transaction {
    store: Arc<Store>,
    bound: Arc<Bound>,
}

/// What the handles of a transaction share.
pub struct Bound {
    lifetime: Lifetime,
    id: u64,
    /// Of a long one: the stamp of the state it reads.
    state: CommitStamp,
    names: Mutex<Names>,
    work: Mutex<Option<Suspended>>,
    /// An [`End`], or zero.
    ended: AtomicUsize,
    /// The stamp of its commit; zero before.
    committed: AtomicU64,
    /// Bytes counted in `OpenTransactions::bytes`.
    counted_bytes: AtomicUsize,
    /// The same in the account of memory.
    charge: Mutex<Charge>,
    shared: Arc<Shared>,
}

/// What exists for the transaction.
struct Names {
    /// As of its beginning, and what it has created.
    catalog: Arc<Catalog>,
    created: Private,
    /// Collections that it has looked up.
    used: Vec<Ident>,
}

/// The long transactions.
#[derive(Default)]
pub(crate) struct OpenTransactions {
    all: Mutex<HashMap<u64, Arc<Bound>>>,
    next_id: AtomicU64,
    bytes: AtomicUsize,
}

impl OpenTransactions {
    /// Ends the transactions that have used one of these collections.
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
    /// Begins a transaction. A long one reads the state of this moment. Code 388 if there are too many.
    pub fn begin(store: &Store, lifetime: Lifetime) -> Result<Transaction> {
        Transaction::begin_with(store, lifetime, None)
    }

    fn begin_with(
        store: &Store,
        lifetime: Lifetime,
        contended: Option<(Contended, &WriteOptions<'_>)>,
    ) -> Result<Transaction> {
        let shared = &store.shared;
        let long = lifetime == Lifetime::Long;
        if long && shared.open.all.lock().len() >= TRANSACTION_COUNT_MAX {
            bail!(
                Code::TRANSACTION_TOO_LARGE_FOR_CACHE,
                "too many open transactions; the limit is {TRANSACTION_COUNT_MAX}"
            );
        }
        // A client's write conflicts at once; one of our own may wait a moment, as other writes do.
        let options = match long {
            true => TxnOptions { lock_wait_ms: 0 },
            false => Contended::options(contended.as_ref().map(|(contended, _)| contended)),
        };
        let mut txn = shared.engine.begin(options).map_err(engine)?;
        if let Some((contended, write)) = &contended {
            contended.lock(&mut *txn, write)?;
        }
        // A long one reads catalog and data of one moment, with exactly the commits up to `state`.
        let (pinned, state) = match long {
            false => (shared.catalog.load_full(), CommitStamp::default()),
            true => {
                let _no_ddl = shared.stamps.take_state();
                (shared.catalog.load_full(), txn.read_stamp().map_err(engine)?)
            }
        };
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
        if long {
            shared.open.all.lock().insert(bound.id, Arc::clone(&bound));
        }
        let store = Store {
            shared: Arc::clone(shared),
            bound: Some(Arc::clone(&bound)),
            client: Arc::clone(&store.client),
        };
        Ok(Transaction { store: Arc::new(store), bound })
    }

    /// The handle on which its statements run.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The stamp of the state that a long one reads: every commit up to it is visible, DDL included, and
    /// none behind it.
    pub fn read_stamp(&self) -> CommitStamp {
        self.bound.state
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<End> {
        self.bound.ended()
    }

    /// Whether it has something to commit.
    pub fn has_written(&self) -> bool {
        self.bound.work.lock().as_ref().is_some_and(|work| work.read().staged_bytes() > 0)
            || !self.bound.names.lock().created.is_empty()
    }

    /// The error that whoever uses it after its end gets.
    pub fn check_open(&self) -> Result<()> {
        self.bound.check_open()
    }

    /// Undoes it: at once, or as soon as the statement that runs just now is over.
    pub fn end(&self, why: End) {
        self.bound.end(why);
    }

    /// Commits it: all of it is visible, or (112 and other errors) nothing.
    pub fn commit(&self, durability: Durability) -> Result<CommitStamp> {
        self.bound.commit(&self.store, durability)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.bound.end(End::Aborted);
    }
}

impl Store {
    /// The same client's handle that is not bound: for DDL.
    fn unbound(&self) -> Store {
        Store { shared: Arc::clone(&self.shared), bound: None, client: Arc::clone(&self.client) }
    }

    /// The long transaction this handle is bound to: what it creates is its own.
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
            Some(End::Aborted | End::Committed) => {
                bail!(Code::NO_SUCH_TRANSACTION, "Transaction has ended")
            }
        }
    }

    /// Ends it with the first reason given. Gives the keys back unless a statement holds them.
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

    /// No longer one of the open transactions.
    fn leave(&self) {
        if self.lifetime == Lifetime::Long {
            self.shared.open.all.lock().remove(&self.id);
        }
        self.charge.lock().shrink_to(0);
        self.shared.open.bytes.fetch_sub(self.counted_bytes.swap(0, SeqCst), SeqCst);
    }

    /// After `work` was unlocked: whoever ended it meanwhile could not give the keys back.
    fn settle(&self) {
        if self.ended().is_some()
            && let Some(mut work) = self.work.try_lock()
        {
            self.give_back(&mut work);
        }
    }

    /// Runs `f` as one statement's write; if it fails its writes are undone.
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

    /// Keeps account of what is staged; too much ends the transaction.
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
        // Writes are there twice when they are committed: staged, and as the engine's batch.
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

    /// The collection as of the beginning, or one of its own. If it has changed since, the
    /// transaction ends: its state does not have what the new version promises, nor the other way.
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

    /// Creates a collection that others see once this commits.
    pub(crate) fn create(
        &self,
        store: &Store,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Arc<Collection>> {
        if let Some(existing) = store.collection(namespace) {
            return ddl::same_options(existing, &options);
        }
        if options.view.is_some() || options.capped {
            bail!(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                "Cannot create a view or a capped collection in a multi-document transaction."
            );
        }
        let collection = private::create_private(&store.unbound(), namespace, options)?;
        self.put_created(store, Arc::clone(&collection))?;
        Ok(collection)
    }

    /// Adds a collection of its own, or replaces its older version.
    pub(crate) fn put_created(&self, store: &Store, collection: Arc<Collection>) -> Result<()> {
        let mut work = self.work.lock();
        let mut names = self.names.lock();
        if let Some(work) = work.as_mut() {
            let before = names.created.get(collection.ident).map(Arc::as_ref);
            let change = Change::Catalog { before, after: Some(&collection) };
            store.log_change(work.txn(), &change)?;
        }
        names.catalog = Arc::new(names.catalog.with(&collection));
        names.created.put(collection);
        Ok(())
    }

    /// Whether it created this collection and has not written to it.
    pub(crate) fn is_created_and_untouched(&self, collection: &Collection) -> bool {
        let created = self.names.lock().created.has(collection.ident);
        let work = self.work.lock();
        created && work.as_ref().is_some_and(|work| !work.has_touched(collection))
    }

    /// A lookup by `_id` in the transaction's state.
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

/// Reads between the statements' writes; a transaction that has ended has nothing to read.
impl Read for Bound {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> nagi_kv::Result<Option<&'a [u8]>> {
        let work = self.work.lock();
        let txn = work.as_ref().ok_or(nagi_kv::Error::SnapshotTooOld)?;
        // What the engine lends is lent for the time of the lock only.
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

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> nagi_kv::Result<Box<dyn Cursor>> {
        let work = self.work.lock();
        work.as_ref().ok_or(nagi_kv::Error::SnapshotTooOld)?.read().cursor(space, start, end)
    }
}

impl Store {
    /// Runs `f`, which may be several reads and writes on the handle of the transaction it gets, in
    /// one transaction. After a conflict it all begins again: `f` must start afresh each time.
    pub fn write_together<T>(
        &self,
        options: WriteOptions<'_>,
        f: &mut dyn FnMut(&Transaction) -> Result<T>,
    ) -> Result<Written<T>> {
        until_done(&options, |_, contended| {
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
