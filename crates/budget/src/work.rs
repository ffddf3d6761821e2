//! The memory of the engine's background work: flushes and compactions that hold large values.
//!
//! Such work frees what requests wait for: memtables, and files that reads have to search. So it waits behind one
//! request and those that hold memory, never for long, and never fails. Requests that hold memory release it without
//! the work, unless the engine has so many files that it is about to stop commits ([`WorkOrders::presses`]). While the
//! work holds memory, large requests wait for it; their limits of time count from its last step ([`Work::step`]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::{Budget, Charge, Pool, budget::LOOK_AROUND};

/// Longest wait. Files accumulate meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// For so long requests that hold no memory wait behind work that waits. What is held may be a message that a peer
/// sends slowly.
const FIRST_MAX: Duration = Duration::from_secs(2);

/// What the engine tells its work.
#[derive(Debug, Default)]
pub struct WorkOrders {
    /// The engine is being closed, and the work ends by itself: it does not wait.
    pub stops: AtomicBool,
    /// Commits will soon wait for the work, also those of requests that hold memory: it waits for other work only.
    pub presses: AtomicBool,
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

    /// Charges up to `bytes` in total. If `waits`, waits for capacity first, 60 s at most, and as long as the orders
    /// allow; the memory is charged in any case. At most three quarters of what may be charged are: connections and
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
        let granted = loop {
            let waited = begun.elapsed();
            if waited >= FIRST_MAX {
                line.leave(number);
            }
            if (waited >= FIRST_MAX || line.is_first(number))
                && self.charge.try_grow_within_all(more)
            {
                break true;
            }
            let others = budget.pool(Pool::Compactions).used > self.charge.bytes();
            let presses = self.orders.presses.load(SeqCst) && !others;
            if presses || self.orders.stops.load(SeqCst) || waited >= WAIT_MAX {
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

    /// What work holds that is told an order while it waits for more than there is.
    fn ordered(order: fn(&WorkOrders) -> &AtomicBool) -> (Arc<Budget>, u64) {
        let budget = Budget::new(256 * MIB);
        let _held = budget.try_charge(Pool::Evaluation, 70 * MIB).unwrap();
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
        let begun = Instant::now();
        order(&orders).store(true, SeqCst);
        let bytes = waits.join().unwrap();
        assert!(begun.elapsed() < WAIT_MAX / 2);
        (budget, bytes)
    }

    #[test]
    fn it_does_not_wait_while_the_engine_is_closed() {
        assert_eq!(ordered(|orders| &orders.stops).1, 130 * MIB);
    }

    #[test]
    fn it_does_not_wait_when_requests_may_wait_for_it() {
        let (budget, bytes) = ordered(|orders| &orders.presses);
        assert_eq!(bytes, 130 * MIB);
        assert!(!budget.has_waiting());
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
    fn small_charges_do_not_wait_for_work_that_began_without_capacity() {
        let budget = Budget::new(256 * MIB);
        let _held = budget.try_charge(Pool::Requests, 70 * MIB).unwrap();
        let mut work = new(&budget);
        work.cover(130 * MIB, false);
        assert!(budget.demand() > budget.demand_max());
        assert!(budget.try_charge(Pool::Connections, 48 << 10).is_some());
        assert!(budget.try_charge(Pool::Execution, 20 * MIB).is_none());
    }

    #[test]
    fn requests_do_not_wait_behind_it_for_long() {
        let budget = Budget::new(256 * MIB);
        let held = budget.try_charge(Pool::Evaluation, 70 * MIB).unwrap();
        let compaction = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || new(&budget).cover(130 * MIB, true)
        });
        while !budget.has_waiting() {
            std::thread::yield_now();
        }
        let begun = Instant::now();
        let mut later = Charge::empty(&budget, Pool::Requests);
        assert!(later.grow_in_line(60 * MIB, None));
        assert!(begun.elapsed() < 2 * FIRST_MAX, "{:?}", begun.elapsed());
        drop((held, later));
        compaction.join().unwrap();
    }

    #[test]
    fn requests_that_hold_memory_go_on_before_work_that_waits() {
        let budget = Budget::new(256 * MIB);
        let mut held = Charge::empty(&budget, Pool::Evaluation);
        assert!(held.try_grow_strictly(70 * MIB));
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
        assert!(held.grow_in_line(60 * MIB, None), "the compaction waits for it");
        assert_eq!(budget.pool(Pool::Compactions).used, 0);
        drop(held);
        drop(compaction.join().unwrap());
        assert_eq!(budget.pool(Pool::Compactions).peak, 130 * MIB);
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
