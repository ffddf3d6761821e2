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
