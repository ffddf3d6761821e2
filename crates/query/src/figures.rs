//! Counters of queries, for `serverStatus`: plan caches and sorts of one store.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use nagi_percore::Counter;
use nagi_store::Store;

/// The counters, which a store carries.
#[derive(Default)]
pub(crate) struct QueryMetrics {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) replanned: AtomicU64,
    /// Present entries of plan caches and their bytes.
    pub(crate) entries: Arc<Kept>,
    sorts: SortCounters,
    deletes: DeleteCounters,
}

/// Size of the present entries of plan caches.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

#[derive(Default)]
struct SortCounters {
    keys: Counter,
    bytes: Counter,
    spills: Counter,
}

#[derive(Default)]
struct DeleteCounters {
    batches: Counter,
    docs: Counter,
    bytes: Counter,
    micros: Counter,
    refetches: Counter,
}

/// Counters of all plan caches of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanCacheFigures {
    /// Look-ups that found an active entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Cached choices that took too much work, so that a new trial was run.
    pub replanned: u64,
    /// Present entries.
    pub entries: u64,
    /// Their bytes, estimated.
    pub bytes: u64,
}

/// The counters of `store`'s plan caches. Cheap.
pub fn plan_cache_figures(store: &Store) -> PlanCacheFigures {
    let Some(metrics) = store.annotations().get::<QueryMetrics>() else {
        return PlanCacheFigures::default();
    };
    PlanCacheFigures {
        hits: metrics.hits.load(Relaxed),
        misses: metrics.misses.load(Relaxed),
        replanned: metrics.replanned.load(Relaxed),
        entries: metrics.entries.count.load(Relaxed),
        bytes: metrics.entries.bytes.load(Relaxed),
    }
}

/// Counters of all sorts without an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SortFigures {
    /// Documents that were sorted.
    pub keys: u64,
    /// Their bytes, with the sort keys.
    pub bytes: u64,
    /// Sorted runs that were written to disk.
    pub spills: u64,
}

/// The counters of sorts. Cheap.
pub fn sort_figures(store: &Store) -> SortFigures {
    let Some(metrics) = store.annotations().get::<QueryMetrics>() else {
        return SortFigures::default();
    };
    let SortCounters { keys, bytes, spills } = &metrics.sorts;
    SortFigures { keys: keys.get(), bytes: bytes.get(), spills: spills.get() }
}

/// Adds a sort.
pub(crate) fn note_sort(store: &Store, sort: SortFigures) {
    let sorts = &store.annotations().get_or_make::<QueryMetrics>().sorts;
    sorts.keys.add(sort.keys);
    sorts.bytes.add(sort.bytes);
    if sort.spills > 0 {
        sorts.spills.add(sort.spills);
    }
}

/// Counters of deletes of many documents, which are committed in batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteFigures {
    /// Batches that were committed.
    pub batches: u64,
    /// The documents in them.
    pub docs: u64,
    /// The bytes of these documents.
    pub bytes: u64,
    /// The time from the beginning of batches to the end of their commits.
    pub micros: u64,
    /// Documents that were read again, because another client had changed them.
    pub refetches: u64,
}

/// The counters of deletes in batches. Cheap.
pub fn delete_figures(store: &Store) -> DeleteFigures {
    let Some(metrics) = store.annotations().get::<QueryMetrics>() else {
        return DeleteFigures::default();
    };
    let DeleteCounters { batches, docs, bytes, micros, refetches } = &metrics.deletes;
    DeleteFigures {
        batches: batches.get(),
        docs: docs.get(),
        bytes: bytes.get(),
        micros: micros.get(),
        refetches: refetches.get(),
    }
}

/// Adds a batch of a delete.
pub(crate) fn note_delete(store: &Store, batch: DeleteFigures) {
    let deletes = &store.annotations().get_or_make::<QueryMetrics>().deletes;
    deletes.batches.add(batch.batches);
    deletes.docs.add(batch.docs);
    deletes.bytes.add(batch.bytes);
    deletes.micros.add(batch.micros);
    deletes.refetches.add(batch.refetches);
}
