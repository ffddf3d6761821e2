//! Per-core counters: each counter is a slot in a block of atomics, and each core has a block.
//!
//! All counters of the process have adjacent slots in the same blocks: a request that changes twenty counters
//! touches two or three cache lines of its own core. One padded atomic per core and counter would need a cache line
//! each.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::PerCore;

/// Limit of counters in a process: a server has some hundred, and a test process a few servers at a time.
const SLOT_COUNT: usize = 1 << 14;

struct Slots {
    blocks: PerCore<Box<[AtomicU64]>>,
    /// Free slots: those that were released, and all from a number on.
    free: Mutex<(Vec<u32>, u32)>,
}

/// 128 KiB per core.
fn slots() -> &'static Slots {
    static SLOTS: OnceLock<Slots> = OnceLock::new();
    SLOTS.get_or_init(|| Slots {
        blocks: PerCore::new(|_| (0..SLOT_COUNT).map(|_| AtomicU64::new(0)).collect()),
        free: Mutex::new((Vec::new(), 0)),
    })
}

/// A number that every core adds to. It wraps: subtracting is adding the two's complement.
#[derive(Debug)]
pub struct Counter(u32);

impl Default for Counter {
    /// # Panics
    /// If the process has 16,384 counters. They are created with a server, never by requests.
    fn default() -> Counter {
        let mut free = slots().free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free.0.pop().unwrap_or_else(|| {
            free.1 += 1;
            free.1 - 1
        });
        assert!((slot as usize) < SLOT_COUNT, "too many counters");
        Counter(slot)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.each(&|slot| slot.store(0, Relaxed));
        slots().free.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.0);
    }
}

impl Counter {
    /// Adds to the current core's part.
    #[inline]
    pub fn add(&self, n: u64) {
        slots().blocks.own()[self.0 as usize].fetch_add(n, Relaxed);
    }

    /// Subtracts from the current core's part.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// The sum of all cores' parts: exact once no thread is adding, approximate before.
    pub fn get(&self) -> u64 {
        let parts = slots().blocks.iter().map(|block| block[self.0 as usize].load(Relaxed));
        parts.fold(0, u64::wrapping_add)
    }

    fn each(&self, f: &dyn Fn(&AtomicU64)) {
        slots().blocks.iter().for_each(|block| f(&block[self.0 as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_lose_nothing_and_slots_begin_at_zero() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| counter.add(3)));
            }
        });
        counter.sub(20_000);
        assert_eq!(counter.get(), 100_000);
        drop(counter);
        let counters: Vec<Counter> = (0..100).map(|_| Counter::default()).collect();
        assert!(counters.iter().all(|counter| counter.get() == 0));
        counters[7].sub(1);
        assert_eq!(counters[7].get() as i64, -1);
    }
}
