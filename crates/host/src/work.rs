//! The account of the engine's flushes and compactions: charges to the budget.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use nagi_budget::{Budget, Work};
use nagi_kv_rocks::{WorkCharge, WorkMemory};

/// Charges the memory of the engine's flushes and compactions.
#[derive(Debug)]
struct ChargedWork {
    budget: Arc<Budget>,
    stops: Arc<AtomicBool>,
}

/// The account of the engine's flushes and compactions.
pub(crate) fn work_memory(budget: &Arc<Budget>) -> Arc<dyn WorkMemory> {
    Arc::new(ChargedWork { budget: Arc::clone(budget), stops: Arc::default() })
}

impl WorkMemory for ChargedWork {
    fn begin(&self) -> Box<dyn WorkCharge> {
        Box::new(Job(Work::new(&self.budget, &self.stops)))
    }

    fn stop(&self) {
        self.stops.store(true, SeqCst);
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
