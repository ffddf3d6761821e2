//! The memory of one engine: limited, and charged to the process's budget in steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use nagi_budget::{Budget, Charge, Pool};
use parking_lot::Mutex;

/// The step of the charge.
const STEP_BYTES: u64 = 1 << 20;
/// The charge of a new engine: more than it allocates before it runs any script.
const START_BYTES: u64 = 2 << 20;

/// Counts the memory of an engine. Each engine runs on one thread; the counters are atomic only to make the type
/// shareable.
pub(crate) struct Heap {
    held: AtomicUsize,
    limit: usize,
    /// The bytes already charged.
    charged: AtomicUsize,
    charge: Mutex<Charge>,
    /// True while the engine is being created: no allocation is refused.
    starting: AtomicBool,
}

impl Heap {
    /// An empty heap with a limit; 0 means only the budget's limit.
    pub(crate) fn new(budget: &Arc<Budget>, limit: usize) -> Arc<Heap> {
        Arc::new(Heap {
            held: AtomicUsize::new(0),
            limit: if limit == 0 { isize::MAX as usize } else { limit },
            charged: AtomicUsize::new(0),
            charge: Mutex::new(Charge::empty(budget, Pool::Scripts)),
            starting: AtomicBool::new(false),
        })
    }

    /// Charges the memory for the creation of an engine. Returns false if the budget has no capacity. Before they are
    /// ready, neither QuickJS nor its bindings handle a refused allocation (they dereference null), so none is refused
    /// until [`Heap::started`].
    pub(crate) fn start(&self) -> bool {
        let mut charge = self.charge.lock();
        let there = charge.cover(START_BYTES, STEP_BYTES);
        self.charged.store(charge.bytes() as usize, Relaxed);
        self.starting.store(there, Relaxed);
        there
    }

    /// The engine is created: from now on the limit and the budget apply.
    pub(crate) fn started(&self) {
        self.starting.store(false, Relaxed);
        debug_assert!(self.held() as u64 <= START_BYTES, "an engine begins with {}", self.held());
    }

    /// Counts an allocation of `bytes`. Returns false if it exceeds the limit or the budget.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let held = self.held.load(Relaxed);
        if self.starting.load(Relaxed) {
            self.held.store(held.saturating_add(bytes), Relaxed);
            return true;
        }
        let Some(wanted) = held.checked_add(bytes).filter(|wanted| *wanted <= self.limit) else {
            return false;
        };
        if wanted > self.charged.load(Relaxed) {
            let mut charge = self.charge.lock();
            if !charge.cover(wanted as u64, STEP_BYTES) {
                return false;
            }
            self.charged.store(charge.bytes() as usize, Relaxed);
        }
        self.held.store(wanted, Relaxed);
        true
    }

    /// Counts memory that is already allocated.
    pub(crate) fn force(&self, bytes: usize) {
        self.held.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn give(&self, bytes: usize) {
        let held = self.held.load(Relaxed).saturating_sub(bytes);
        self.held.store(held, Relaxed);
    }

    /// The bytes currently allocated.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn nothing_is_refused_while_an_engine_is_made() {
        let budget = Budget::new(100 * MIB);
        let full = budget.limit(Pool::Scripts);
        let others = budget.try_charge(Pool::Scripts, full - START_BYTES).unwrap();
        let heap = Heap::new(&budget, 1000);
        assert!(heap.start());
        assert!(heap.take(100_000), "beyond the limit, which begins later");
        heap.started();
        assert!(!heap.take(1));
        let refused = Heap::new(&budget, 0);
        assert!(!refused.start(), "the pool is used up");
        assert!(!refused.take(2 * MIB as usize));
        drop((heap, others));
        assert!(refused.start());
    }
}
