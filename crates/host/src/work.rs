//! The account of the engine's flushes and compactions: charges to the budget.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use nagi_budget::{Budget, Work, WorkOrders};
use nagi_kv_rocks::{WorkCharge, WorkMemory};

/// Charges the memory of the engine's flushes and compactions.
#[derive(Debug)]
struct ChargedWork {
    budget: Arc<Budget>,
    orders: Arc<WorkOrders>,
}

/// The account of the engine's flushes and compactions.
pub(crate) fn work_memory(budget: &Arc<Budget>) -> Arc<dyn WorkMemory> {
    Arc::new(ChargedWork { budget: Arc::clone(budget), orders: Arc::default() })
}

impl WorkMemory for ChargedWork {
    fn begin(&self) -> Box<dyn WorkCharge> {
        Box::new(Job(Work::new(&self.budget, &self.orders)))
    }

    fn stop(&self) {
        self.orders.stops.store(true, SeqCst);
    }

    fn press(&self, presses: bool) {
        self.orders.presses.store(presses, SeqCst);
    }
}

struct Job(Work);

impl WorkCharge for Job {
    fn cover(&mut self, bytes: u64, waits: bool) {
        self.0.cover(bytes, waits);
    }

    fn step(&mut self) {
        self.0.step();
    }
}
