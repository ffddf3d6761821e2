//! The memory of one engine: bounded by its limit, and charged to the process's budget in steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use nagi_budget::{Budget, Charge, Pool};
use parking_lot::Mutex;

/// What is charged at once.
const STEP_BYTES: u64 = 1 << 20;
/// More than an engine holds before it runs anything of a client.
const START_BYTES: u64 = 2 << 20;

/// What an engine holds. Engines run on one thread each; the counters are atomic only so that the
/// type may be shared.
pub(crate) struct Heap {
    held: AtomicUsize,
    limit: usize,
    /// What is charged already.
    charged: AtomicUsize,
    charge: Mutex<Charge>,
    /// The engine is being made: nothing is refused.
    starting: AtomicBool,
}

impl Heap {
    /// An empty heap; 0 for no limit but the budget's.
    pub(crate) fn new(budget: &Arc<Budget>, limit: usize) -> Arc<Heap> {
        Arc::new(Heap {
            held: AtomicUsize::new(0),
            limit: if limit == 0 { isize::MAX as usize } else { limit },
            charged: AtomicUsize::new(0),
            charge: Mutex::new(Charge::empty(budget, Pool::Scripts)),
            starting: AtomicBool::new(false),
        })
    }

    /// Takes room for all that an engine needs to be made, if the budget leaves it. Neither the library nor its
    /// bindings survive a refusal before they are ready (they write through null), so there is none until
    /// [`Heap::started`].
    pub(crate) fn start(&self) -> bool {
        let mut charge = self.charge.lock();
        let there = charge.cover(START_BYTES, STEP_BYTES);
        self.charged.store(charge.bytes() as usize, Relaxed);
        self.starting.store(there, Relaxed);
        there
    }

    /// The engine is there: from now on limit and budget hold.
    pub(crate) fn started(&self) {
        self.starting.store(false, Relaxed);
        debug_assert!(self.held() as u64 <= START_BYTES, "an engine begins with {}", self.held());
    }

    /// Takes room, if limit and budget leave it.
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

    /// Counts what is there already.
    pub(crate) fn force(&self, bytes: usize) {
        self.held.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn give(&self, bytes: usize) {
        let held = self.held.load(Relaxed).saturating_sub(bytes);
        self.held.store(held, Relaxed);
    }

    /// Bytes held now.
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
