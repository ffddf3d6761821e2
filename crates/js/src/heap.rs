//! The memory of one engine: bounded by its limit, and charged to the process's budget in steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use nagi_budget::{Budget, Charge, Pool};
use parking_lot::Mutex;

/// What is charged at once.
const STEP_BYTES: u64 = 1 << 20;

/// What an engine holds. Engines run on one thread each; the counters are atomic only so that the
/// type may be shared.
pub(crate) struct Heap {
    held: AtomicUsize,
    limit: usize,
    /// What is charged already.
    charged: AtomicUsize,
    charge: Mutex<Charge>,
}

impl Heap {
    /// An empty heap; 0 for no limit but the budget's.
    pub(crate) fn new(budget: &Arc<Budget>, limit: usize) -> Arc<Heap> {
        Arc::new(Heap {
            held: AtomicUsize::new(0),
            limit: if limit == 0 { isize::MAX as usize } else { limit },
            charged: AtomicUsize::new(0),
            charge: Mutex::new(Charge::empty(budget, Pool::Scripts)),
        })
    }

    /// Takes room, if limit and budget leave it.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let held = self.held.load(Relaxed);
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
