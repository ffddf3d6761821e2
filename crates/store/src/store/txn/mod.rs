//! A write transaction: changes records, index keys and counters together.
//!
//!   begin --> touch (enter gate, newest version) --> put record, index keys --> commit: engine, counters, cache
//!                        ^                                  |
//!                        +---- next collection -------------+     conflict: a new transaction is begun
//!
//! Each written collection is entered through its gate once, in its newest version; the index list of that version
//! is used, independent of the version that the caller holds. Counter changes are summed in the transaction and
//! added once, at commit. Buffers belong to the thread and are reused: an insert allocates only what the engine
//! allocates.
//!
//! `touch.rs`: collections entered; `records.rs`, `numbers.rs`, `keys.rs`: documents and index keys; `announced.rs`:
//! keys that are read in advance; `commit.rs`; `suspended.rs`: between two statements; `scratch.rs`: the buffers.

mod announced;
mod bucket;
mod by_ids;
pub(crate) mod capped;
mod commit;
mod keys;
mod numbers;
mod records;
mod scratch;
mod suspended;
mod touch;

use std::sync::Arc;

use nagi_error::{Code, Result};
use nagi_kv::Txn;

use self::scratch::Scratch;
use crate::{
    Collection, Index, Namespace, Reader, Snapshot, Store, WriteOptions,
    engine_error::engine,
    store::{commit::change::Logged, contended::Contended, written::KeysWritten},
};

pub(crate) use keys::{duplicate_key, fill_sink};
pub(crate) use suspended::Suspended;
pub(crate) use touch::Touched;

/// One attempt of [`Store::write`].
pub struct WriteTxn<'s> {
    store: &'s Store,
    /// `None` after the commit.
    txn: Option<Box<dyn Txn>>,
    pub(crate) touched: Vec<Touched>,
    /// Indexes that became multikey on additional paths.
    multikey: Vec<(Arc<Index>, Vec<u64>)>,
    /// Hashes of the cache entries that become stale with the commit.
    changed: Vec<u64>,
    scratch: Box<Scratch>,
    /// Set after a conflict: the transaction cannot continue and must be retried.
    conflict: bool,
    bypass_validation: bool,
    keep_empty_timestamps: bool,
    /// Number of earlier attempts of this `write`.
    attempt: u32,
    /// The record that another transaction was writing.
    contended: Option<Contended>,
    pub(crate) keys: KeysWritten,
    logged: Logged,
}

/// The origin of an index key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutBy {
    Writer,
    /// An index build, record by record.
    Build,
    /// An index build that applies the changes that writers logged during the build.
    Drain,
}

impl<'s> WriteTxn<'s> {
    pub(crate) fn begin(
        store: &'s Store,
        options: &WriteOptions<'_>,
        attempt: u32,
        contended: Option<Contended>,
    ) -> Result<WriteTxn<'s>> {
        let mut txn = store.engine.begin(Contended::options(contended.as_ref())).map_err(engine)?;
        if let Some(contended) = &contended {
            contended.lock(&mut *txn, options, store.client.conflict_waits())?;
        }
        let scratch = scratch::take();
        Ok(WriteTxn {
            store,
            txn: Some(txn),
            touched: Vec::new(),
            multikey: Vec::new(),
            changed: Vec::new(),
            scratch,
            conflict: false,
            bypass_validation: options.bypass_validation,
            keep_empty_timestamps: options.keep_empty_timestamps,
            attempt,
            contended: None,
            keys: KeysWritten::default(),
            logged: Logged::default(),
        })
    }

    /// Resumes a transaction of several statements.
    pub(crate) fn resume(store: &'s Store, from: Suspended, options: &WriteOptions<'_>) -> Self {
        WriteTxn {
            store,
            txn: Some(from.txn),
            touched: from.touched,
            multikey: from.multikey,
            changed: from.changed,
            scratch: scratch::take(),
            conflict: from.conflict,
            bypass_validation: options.bypass_validation,
            keep_empty_timestamps: options.keep_empty_timestamps,
            attempt: 0,
            contended: None,
            keys: KeysWritten::default(),
            logged: from.logged,
        }
    }

    /// Suspends the transaction until its next statement.
    pub(crate) fn suspend(mut self) -> Suspended {
        Suspended {
            txn: self.txn.take().expect("taken by the commit only"),
            touched: std::mem::take(&mut self.touched),
            multikey: std::mem::take(&mut self.multikey),
            changed: std::mem::take(&mut self.changed),
            conflict: self.conflict,
            contended: self.contended.take(),
            logged: std::mem::take(&mut self.logged),
        }
    }

    /// Bytes staged so far.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.txn.as_ref().map_or(0, |txn| txn.staged_bytes())
    }

    pub fn store(&self) -> &'s Store {
        self.store
    }

    /// The collection in the newest catalog.
    pub fn collection(&self, namespace: &Namespace) -> Option<Arc<Collection>> {
        self.store.collection(namespace)
    }

    /// The transaction's snapshot without its own writes: a record that was changed since cannot be claimed.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let txn = self.txn.as_ref().expect("taken by the commit only");
        Ok(Snapshot::of_engine(txn.snapshot().map_err(engine)?))
    }

    /// Reads through the transaction: its snapshot with its own writes. A new reader is needed after a write.
    pub fn reader(&self) -> Reader<'_> {
        Reader::of(&**self.txn.as_ref().expect("taken by the commit only"))
    }

    pub(crate) fn txn(&mut self) -> &mut dyn Txn {
        &mut **self.txn.as_mut().expect("taken by the commit only")
    }

    /// Runs `f`; if it fails, its writes are rolled back and the transaction continues. Used for statements of a
    /// batch, which may fail individually. A conflict ends the whole transaction nevertheless.
    pub fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (savepoint, keys, logged) = (self.txn().savepoint(), self.keys, self.logged);
        let sums: Vec<(i64, i64, i64)> =
            self.touched.iter().map(|t| (t.count, t.bytes, t.first_record)).collect();
        let multikey_count = self.multikey.len();
        let result = f(self);
        if let Err(error) = &result {
            if error.code() == Code::WRITE_CONFLICT {
                self.conflict = true;
                return result;
            }
            self.txn().rollback_to(savepoint);
            (self.keys, self.logged) = (keys, logged);
            // Their catalog keys are rolled back too and must not be considered stored.
            self.multikey.truncate(multikey_count);
            for (at, touched) in self.touched.iter_mut().enumerate() {
                (touched.count, touched.bytes, touched.first_record) =
                    sums.get(at).copied().unwrap_or((0, 0, 0));
            }
        }
        result
    }
}

impl Drop for WriteTxn<'_> {
    fn drop(&mut self) {
        scratch::put_back(std::mem::take(&mut self.scratch));
    }
}
