//! The plan cache: which candidate won the trial for a query shape.
//!
//! ```text
//!   candidates of this query -- only one ------------------------------> run
//!         | several                                                       ^
//!         v                                                               |
//!   entry of the shape?  active: run that candidate, at most 10 x its ---+ finished
//!         | none, inactive            works                               |
//!         v                             | too much work: replan           |
//!   trial of all candidates <-----------+                                 |
//!         +--- stores an entry: inactive at first, active when confirmed --+
//! ```
//!
//! The cache stores the choice, not the plan. Bounds are computed from the values of the query at hand and the
//! current knowledge about arrays. So a cached choice can be slow, but not wrong.
//!
//! An entry is inactive at first, because the first query of a shape may be atypical. It becomes active when a
//! later trial needs no more works. If that trial needs more, the entry's works are doubled and it stays inactive.
//! Works are examined index entries and records.
//!
//! ```text
//!   query 1   trial, winner needs 202 works    entry {A, 202, inactive}
//!   query 2   trial, winner needs 180 works    entry {A, 180, active}
//!   query 3   A runs alone, limit 1800         needs 90: finished, no trial
//!   query 4   A runs alone, limit 1800         not finished: entry inactive, trial of all
//! ```
//!
//! # Invariants
//! - A cache belongs to one version of a collection: every change of indexes or options drops it.
//! - Readers of different shapes rarely contend: there are sixteen shards, each with a lock that is held for one
//!   look-up. A lookup by `_id` does not use the cache.
//! - Bytes are charged to the pool `plans` of the memory budget. Without capacity the least recently used entry is
//!   evicted; if that does not help, the new one is not stored.
//!   ago goes, then the new one is not kept.

mod entry;
mod filters;
mod shape;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use nagi_budget::{Budget, Charge, Pool};
use parking_lot::RwLock;

pub(crate) use entry::{Entry, Origin};
pub(crate) use filters::IndexFilters;
pub use filters::{
    ShapeRequest, clear_index_filters, clear_plans, index_filter_document, index_filter_ids,
    install_index_filters, is_index_filter_of_none, list_index_filters, set_index_filter,
};
pub(crate) use shape::{Hash, Shape, hex, is_computed, short};

use crate::figures::{Kept, QueryMetrics};
use crate::limits::{CACHED_PLANS_MAX, REPLAN_FACTOR, WORKS_GROWTH};

const SHARDS: usize = 16;

type Shard = RwLock<HashMap<u64, Arc<Entry>, foldhash::fast::RandomState>>;

/// The cached choices of one version of a collection.
#[derive(Default)]
pub(crate) struct PlanCache {
    shards: [Shard; SHARDS],
    /// Counts look-ups: the logical time of an entry's last use.
    clock: AtomicU64,
}

/// An entry's share of the budget and of the counters, which is released when dropped.
pub(crate) struct MemoryCharge {
    charge: Charge,
    kept: Arc<Kept>,
    bytes: u64,
}

impl MemoryCharge {
    fn take(budget: &Arc<Budget>, kept: &Arc<Kept>, bytes: u64) -> Option<MemoryCharge> {
        let mut charge = Charge::empty(budget, Pool::Plans);
        if !charge.try_grow(bytes) {
            return None;
        }
        kept.count.fetch_add(1, Relaxed);
        kept.bytes.fetch_add(bytes, Relaxed);
        Some(MemoryCharge { charge, kept: Arc::clone(kept), bytes })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.charge.bytes()
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.kept.count.fetch_sub(1, Relaxed);
        self.kept.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

impl PlanCache {
    fn shard(&self, key: u64) -> &Shard {
        &self.shards[(key >> 60) as usize % SHARDS]
    }

    /// The entry of a key, active or not. Takes one lock of one shard, without allocation.
    pub(crate) fn get(&self, key: u64) -> Option<Arc<Entry>> {
        let shard = self.shard(key).read();
        let entry = shard.get(&key)?;
        entry.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        Some(Arc::clone(entry))
    }

    /// Stores the result of a trial: its winner `choice` took `works`.
    pub(crate) fn keep(
        &self,
        shape: Shape,
        choice: u64,
        works: u64,
        store: &nagi_store::Store,
        origin: &mut dyn FnMut() -> Origin,
    ) {
        let metrics = store.annotations().get_or_make::<QueryMetrics>();
        let mut shard = self.shard(shape.key).write();
        let (is_active, works) = match shard.get(&shape.key) {
            None => (false, works),
            Some(old) if works <= old.works => (true, works),
            Some(old) => {
                let raised = old.works.saturating_mul(WORKS_GROWTH).max(old.works + 1);
                let raised = Arc::new(old.with(false, raised));
                shard.insert(shape.key, raised);
                return;
            }
        };
        shard.remove(&shape.key);
        let origin = origin();
        let bytes = origin.bytes();
        let charge = loop {
            let is_full = shard.len() >= CACHED_PLANS_MAX / SHARDS;
            let charge = match is_full {
                true => None,
                false => MemoryCharge::take(store.budget(), &metrics.entries, bytes),
            };
            if charge.is_some() {
                break charge;
            }
            let oldest = shard.iter().min_by_key(|(_, entry)| entry.used.load(Relaxed));
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break None };
            shard.remove(&oldest);
        };
        if let Some(charge) = charge {
            let used = AtomicU64::new(self.clock.fetch_add(1, Relaxed));
            let charge = Arc::new(charge);
            let entry =
                Entry { shape, choice, is_active, works, used, charge, origin: origin.into() };
            shard.insert(shape.key, Arc::new(entry));
        }
    }

    /// Makes an entry inactive, so that the next trial decides.
    pub(crate) fn deactivate(&self, key: u64) {
        let mut shard = self.shard(key).write();
        if let Some(entry) = shard.get_mut(&key) {
            *entry = Arc::new(entry.with(false, entry.works));
        }
    }

    /// Removes all entries, or those of one shape.
    pub(crate) fn clear(&self, shape: Option<u64>) {
        for shard in &self.shards {
            match shape {
                None => shard.write().clear(),
                Some(shape) => shard.write().retain(|_, entry| entry.shape.shape != shape),
            }
        }
    }

    /// All entries that may be shown, in no particular order.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        let shown = |entry: &&Arc<Entry>| !entry.origin.is_hidden;
        self.shards
            .iter()
            .flat_map(|shard| shard.read().values().filter(shown).cloned().collect::<Vec<_>>())
            .collect()
    }
}

/// The works that a cached choice may take before all candidates are tried again.
pub(crate) fn works_max(entry: &Entry, least: u64) -> u64 {
    entry.works.saturating_mul(REPLAN_FACTOR).max(least)
}
