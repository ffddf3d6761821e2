//! The memory of the engine's background work: flushes and compactions that hold large values.
//!
//! Such work frees what requests wait for: memtables, and files that reads have to search. So it waits behind one
//! request only, never for long, and never fails. While it holds memory, large requests wait for it; their limits of
//! time count from its last step ([`Work::step`]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::{Budget, Charge, Pool, budget::LOOK_AROUND};

/// Longest wait. Files accumulate meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest wait in which no request releases a large amount: those that hold memory may themselves be waiting for more.
const STALL_MAX: Duration = Duration::from_secs(1);

/// What the engine tells its work.
#[derive(Debug, Default)]
pub struct WorkOrders {
    /// The engine is being closed, and the work ends by itself: it does not wait.
    pub stops: AtomicBool,
}

/// The memory of one flush or compaction. When it is dropped, the allocator returns its free pages.
#[derive(Debug)]
pub struct Work {
    budget: Arc<Budget>,
    charge: Charge,
    orders: Arc<WorkOrders>,
}

impl Work {
    /// Work that holds nothing yet.
    pub fn new(budget: &Arc<Budget>, orders: &Arc<WorkOrders>) -> Work {
        let charge = Charge::empty(budget, Pool::Compactions);
        Work { budget: Arc::clone(budget), charge, orders: Arc::clone(orders) }
    }

    /// Charges up to `bytes` in total. If `waits`, waits for capacity first, as long as requests release memory, 10 s
    /// at most; the memory is charged in any case. At most three quarters of what may be charged are: connections and
    /// caches of plans never release theirs.
    pub fn cover(&mut self, bytes: u64, waits: bool) {
        let bytes = bytes.min(self.budget.demand_max() / 4 * 3);
        let Some(more) = bytes.checked_sub(self.charge.bytes()).filter(|more| *more > 0) else {
            return;
        };
        if !(waits && self.wait(more)) {
            self.charge.force(more);
        }
    }

    /// The work advanced: requests that wait for its memory may continue to wait.
    pub fn step(&self) {
        self.budget.note_progress();
    }

    fn wait(&mut self, more: u64) -> bool {
        let budget = &*self.budget;
        if self.charge.try_grow_within_all(more) {
            return true;
        }
        budget.note_waited(Pool::Compactions);
        let mut line = budget.queue.lock();
        let number = line.join_work();
        budget.waiting.fetch_add(1, SeqCst);
        let begun = Instant::now();
        let (mut moved, mut freed) = (begun, budget.freed_count());
        let granted = loop {
            if line.is_first(number) && self.charge.try_grow_within_all(more) {
                break true;
            }
            let now = Instant::now();
            // Other background work finishes by itself.
            let others = budget.pool(Pool::Compactions).used > self.charge.bytes();
            if others || freed != budget.freed_count() {
                (moved, freed) = (now, budget.freed_count());
            }
            let late = now - moved >= STALL_MAX || now - begun >= WAIT_MAX;
            if late || self.orders.stops.load(SeqCst) {
                break false;
            }
            budget.freed.wait_for(&mut line, LOOK_AROUND);
        };
        line.leave(number);
        budget.waiting.fetch_sub(1, SeqCst);
        budget.freed.notify_all();
        granted
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.charge.purge_if_large();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Patience;

    const MIB: u64 = 1 << 20;

    fn new(budget: &Arc<Budget>) -> Work {
        Work::new(budget, &Arc::default())
    }

    #[test]
    fn it_does_not_wait_while_the_engine_is_closed() {
        let budget = Budget::new(256 * MIB);
        let _held = budget.try_charge(Pool::Evaluation, 70 * MIB).unwrap();
        let mut other = new(&budget);
        other.cover(60 * MIB, false);
        let orders = Arc::new(WorkOrders::default());
        let waits = std::thread::spawn({
            let (budget, orders) = (Arc::clone(&budget), Arc::clone(&orders));
            move || {
                let mut work = Work::new(&budget, &orders);
                work.cover(130 * MIB, true);
                work.charge.bytes()
            }
        });
        while !budget.has_waiting() {
            std::thread::yield_now();
        }
        orders.stops.store(true, SeqCst);
        let begun = Instant::now();
        assert_eq!(waits.join().unwrap(), 130 * MIB);
        assert!(
            begun.elapsed() < WAIT_MAX / 2,
            "the other one holds memory, which counts as progress"
        );
    }

    #[test]
    fn it_waits_ahead_of_requests() {
        let budget = Budget::new(256 * MIB);
        let held = budget.try_charge(Pool::Evaluation, 70 * MIB).unwrap();
        let compaction = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                let mut work = new(&budget);
                work.cover(130 * MIB, true);
                work
            }
        });
        while !budget.has_waiting() {
            std::thread::yield_now();
        }
        let large = budget
            .charge_within(Pool::Requests, 70 * MIB, Duration::ZERO, &mut || Patience::Limited);
        assert!(large.is_none(), "there is capacity, but the compaction was first");
        let small =
            budget.charge_within(Pool::Requests, MIB, Duration::ZERO, &mut || Patience::Limited);
        assert!(small.is_some(), "a small one passes");
        drop((held, small));
        let work = compaction.join().unwrap();
        assert_eq!(budget.pool(Pool::Compactions).used, 130 * MIB);
        drop(work);
        assert_eq!((budget.demand(), budget.has_waiting()), (0, false));
    }

    #[test]
    fn it_does_not_wait_for_a_request_that_may_wait_for_it() {
        let budget = Budget::new(256 * MIB);
        let _held = budget.try_charge(Pool::Requests, 70 * MIB).unwrap();
        let mut work = new(&budget);
        work.cover(130 * MIB, true);
        assert_eq!(budget.pool(Pool::Compactions).used, 130 * MIB);
        assert!(!budget.has_waiting());
        assert!(budget.demand() > budget.demand_max());
        assert!(budget.try_charge(Pool::Connections, 48 << 10).is_some(), "small ones do not wait");
        assert!(budget.try_charge(Pool::Execution, 20 * MIB).is_none());
    }

    #[test]
    fn a_flush_never_waits_and_counts_once() {
        let budget = Budget::new(256 * MIB);
        let _held = budget.try_charge(Pool::Execution, 100 * MIB).unwrap();
        let _other = budget.try_charge(Pool::Evaluation, 70 * MIB).unwrap();
        let mut work = new(&budget);
        work.cover(30 * MIB, false);
        work.cover(20 * MIB, true);
        assert_eq!(budget.pool(Pool::Compactions).used, 30 * MIB);
        work.cover(u64::MAX, false);
        assert_eq!(budget.pool(Pool::Compactions).used, budget.demand_max() / 4 * 3);
        drop(work);
        assert_eq!(budget.pool(Pool::Compactions).used, 0);
        new(&Budget::unlimited()).cover(u64::MAX, true);
    }
}
