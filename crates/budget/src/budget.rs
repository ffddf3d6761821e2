//! The account: how much memory each pool has charged, and how much is left for the caches. The crate's header
//! explains it.
//!
//! Called by the server for messages and connections, by `query` for sorts and groups, by the store for staged
//! writes, and by the process's watcher, which compares the sum with resident memory.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{
    Charge, Gauges, Pool,
    line::{Holders, Line, Need, Patience},
    meter::REQUEST_POOLS,
};

/// Interval at which a waiting charge calls its caller's `go_on`.
pub(crate) const LOOK_AROUND: Duration = Duration::from_millis(50);

/// The division of a budget, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Memory for flushes, compactions and other work of the engine.
    pub engine: u64,
    /// The size of the caches when nothing is charged.
    pub caches: u64,
    /// The minimum of the caches.
    pub caches_min: u64,
}

/// Gauges of a pool, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    pub used: u64,
    pub peak: u64,
    pub limit: u64,
    /// Number of charges that had to wait, and of charges that were refused.
    pub waited: u64,
    pub refused: u64,
}

#[derive(Default)]
struct State {
    used: AtomicU64,
    peak: AtomicU64,
    waited: AtomicU64,
    refused: AtomicU64,
}

/// Sets the total size of the caches.
type SetCaches = Box<dyn Fn(u64) + Send + Sync>;

/// The allocator is made to return free pages only after a request that held at least this much, and at least this
/// part of the budget.
const PURGE_BYTES_MIN: u64 = 8 << 20;
const PURGE_PART: u64 = 32;
/// Charges up to this size do not count the engine's background work.
const SMALL_BYTES: u64 = 1 << 20;

/// The account of a process. See the crate's header.
pub struct Budget {
    bytes: Option<u64>,
    pools: [State; Pool::ALL.len()],
    demand: AtomicU64,
    /// The amount by which the watcher reduces the caches beyond the charges.
    squeezed: AtomicU64,
    set_caches: OnceLock<SetCaches>,
    purge: OnceLock<fn()>,
    /// The size that the caches were last set to.
    caches: Mutex<u64>,
    gauges: Mutex<Gauges>,
    pub(crate) waiting: AtomicUsize,
    pub(crate) queue: Mutex<Line>,
    pub(crate) holders: Holders,
    pub(crate) freed: Condvar,
    /// Number of large releases.
    pub(crate) freed_large: AtomicU64,
}

impl Budget {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Arc<Budget> {
        Arc::new(Budget::build(Some(bytes)))
    }

    /// A budget that counts and refuses nothing.
    pub fn unlimited() -> Arc<Budget> {
        Arc::new(Budget::build(None))
    }

    fn build(bytes: Option<u64>) -> Budget {
        Budget {
            bytes,
            pools: Default::default(),
            demand: AtomicU64::new(0),
            squeezed: AtomicU64::new(0),
            set_caches: OnceLock::new(),
            purge: OnceLock::new(),
            caches: Mutex::new(bytes.map_or(0, |bytes| Division::of(bytes).caches)),
            gauges: Mutex::default(),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
            holders: Holders::default(),
            freed: Condvar::new(),
            freed_large: AtomicU64::new(0),
        }
    }

    /// The size of the budget; none if it is unlimited.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// The limit of all pools together.
    pub fn demand_max(&self) -> u64 {
        self.bytes.map_or(u64::MAX, |bytes| {
            let division = Division::of(bytes);
            division.caches - division.caches_min
        })
    }

    /// The limit of all pools together for a charge of this size: a small one is not refused because the engine's
    /// background work holds more than is left, such as that of a connection or of a cursor.
    pub(crate) fn demand_max_for(&self, bytes: u64) -> u64 {
        let work = match bytes <= SMALL_BYTES {
            true => self.pool(Pool::Compactions).used,
            false => 0,
        };
        self.demand_max().saturating_add(work)
    }

    /// The limit of a pool.
    pub fn limit(&self, pool: Pool) -> u64 {
        self.bytes.map_or(u64::MAX, |bytes| bytes / 100 * pool.row().percent)
    }

    /// The bytes charged in all pools together.
    pub fn demand(&self) -> u64 {
        self.demand.load(SeqCst)
    }

    /// The gauges of a pool.
    pub fn pool(&self, pool: Pool) -> PoolState {
        let state = self.state(pool);
        PoolState {
            used: state.used.load(SeqCst),
            peak: state.peak.load(SeqCst),
            limit: self.limit(pool),
            waited: state.waited.load(SeqCst),
            refused: state.refused.load(SeqCst),
        }
    }

    fn state(&self, pool: Pool) -> &State {
        &self.pools[pool as usize]
    }

    /// Sets the function that resizes the caches. It is called at once, and whenever the charges have changed
    /// enough.
    pub fn attach_caches(&self, set: impl Fn(u64) + Send + Sync + 'static) {
        if self.set_caches.set(Box::new(set)).is_ok() {
            self.settle(true);
        }
    }

    /// Sets the function with which the allocator returns its free pages to the operating system.
    pub fn attach_purge(&self, purge: fn()) {
        // Attached once, when the process is assembled.
        let _ = self.purge.set(purge);
    }

    /// Purges the allocator's free pages after a request that held `bytes` and freed them, if that is much.
    pub(crate) fn purge_after(&self, bytes: u64) {
        let (Some(purge), Some(budget)) = (self.purge.get(), self.bytes) else { return };
        if bytes >= PURGE_BYTES_MIN.max(budget / PURGE_PART) {
            purge();
        }
    }

    /// The current size of the caches.
    pub fn cache_bytes(&self) -> u64 {
        *self.caches.lock()
    }

    /// The amount by which the watcher has reduced the caches.
    pub fn squeezed(&self) -> u64 {
        self.squeezed.load(SeqCst)
    }

    /// The largest useful squeeze: with it the caches have their minimum.
    pub fn squeeze_max(&self) -> u64 {
        match self.bytes {
            Some(_) => self.demand_max(),
            None => 0,
        }
    }

    /// Reduces the caches by `bytes` beyond the charges, but not below their minimum.
    pub fn squeeze(&self, bytes: u64) {
        self.squeezed.store(bytes, SeqCst);
        self.settle(true);
    }

    /// Stores the watcher's latest gauges.
    pub fn note(&self, seen: &Gauges) {
        let mut gauges = self.gauges.lock();
        let (allocated, resident) = (gauges.allocated, gauges.allocator_resident);
        *gauges = *seen;
        gauges.allocated = seen.allocated.or(allocated);
        gauges.allocator_resident = seen.allocator_resident.or(resident);
    }

    /// The watcher's latest gauges.
    pub fn gauges(&self) -> Gauges {
        *self.gauges.lock()
    }

    /// Charges `bytes` at once, or returns none.
    pub fn try_charge(self: &Arc<Budget>, pool: Pool, bytes: u64) -> Option<Charge> {
        let mut charge = Charge::empty(self, pool);
        charge.try_grow(bytes).then_some(charge)
    }

    /// Waits for capacity in the order of arrival: see [`crate::line`]. Returns none if there was none for `wait`
    /// without progress of others, or if `go_on` ended the wait.
    pub fn charge_within(
        self: &Arc<Budget>,
        pool: Pool,
        bytes: u64,
        wait: Duration,
        go_on: &mut dyn FnMut() -> Patience,
    ) -> Option<Charge> {
        let mut charge = Charge::empty(self, pool);
        // One that is larger than its pool is admitted alone in it. Beyond the limit of all pools, it is admitted if no
        // request and no background work of the engine holds memory.
        let mut ask = || match self.is_at_rest() {
            true => charge.try_grow(bytes),
            false => charge.try_grow_within_all(bytes),
        };
        let charged = self.wait_for_turn(pool, bytes, wait, go_on, &mut ask);
        charged.then_some(charge)
    }

    /// Returns true if nothing holds memory that will be released soon.
    fn is_at_rest(&self) -> bool {
        let is_free = |pool: &Pool| self.pool(*pool).used == 0;
        REQUEST_POOLS.iter().all(is_free) && is_free(&Pool::Compactions)
    }

    /// Calls `ask` until it succeeds, at most for `wait`, and counts waits and refusals.
    pub(crate) fn wait_within<T>(
        &self,
        pool: Pool,
        wait: Duration,
        go_on: &mut dyn FnMut() -> bool,
        ask: &mut dyn FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(charged) = ask() {
            return Some(charged);
        }
        let until = Instant::now() + wait;
        let state = self.state(pool);
        state.waited.fetch_add(1, SeqCst);
        self.waiting.fetch_add(1, SeqCst);
        let charged = self.wait_until(until, go_on, ask);
        self.waiting.fetch_sub(1, SeqCst);
        if charged.is_none() {
            state.refused.fetch_add(1, SeqCst);
        }
        charged
    }

    fn wait_until<T>(
        &self,
        until: Instant,
        go_on: &mut dyn FnMut() -> bool,
        ask: &mut dyn FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(charged) = ask() {
                return Some(charged);
            }
            let now = Instant::now();
            if now >= until || !go_on() {
                return None;
            }
            self.freed.wait_for(&mut queue, LOOK_AROUND.min(until - now));
        }
    }

    /// Returns true if a charge is waiting for capacity.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Counts a charge that waits.
    pub(crate) fn note_waited(&self, pool: Pool) {
        self.state(pool).waited.fetch_add(1, SeqCst);
    }

    /// Counts a charge that was refused.
    pub(crate) fn note_refused(&self, pool: Pool) {
        self.state(pool).refused.fetch_add(1, SeqCst);
    }

    /// Returns true if a request could get what it waits for.
    pub(crate) fn would_take(&self, need: Need) -> bool {
        let (used, demand) = (self.pool(need.pool).used, self.demand());
        let in_pool = used.saturating_add(need.bytes) <= self.limit(need.pool) || used <= need.own;
        in_pool && demand.saturating_add(need.bytes) <= self.demand_max_for(need.bytes)
    }

    /// Charges `bytes` to a pool. Returns false if the pool or the budget lacks the capacity. `own`: what the
    /// holder has of the pool already.
    pub(crate) fn take(&self, pool: Pool, bytes: u64, own: u64) -> bool {
        let state = self.state(pool);
        let limit = self.limit(pool);
        // A charge that is larger than the limit is granted if its holder is the only one in the pool.
        let fits = |used: u64, limit: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= limit || used <= own).then_some(sum)
        };
        if state.used.try_update(SeqCst, SeqCst, |used| fits(used, limit)).is_err() {
            return false;
        }
        let most = self.demand_max_for(bytes);
        let within = |demand: u64| {
            let sum = demand.checked_add(bytes)?;
            (sum <= most || (own + bytes > limit && demand <= most)).then_some(sum)
        };
        if self.demand.try_update(SeqCst, SeqCst, within).is_err() {
            state.used.fetch_sub(bytes, SeqCst);
            return false;
        }
        state.peak.fetch_max(state.used.load(SeqCst), SeqCst);
        self.settle(false);
        true
    }

    /// Charges `bytes` to a pool regardless of its limit.
    pub(crate) fn force(&self, pool: Pool, bytes: u64) {
        let state = self.state(pool);
        let used = state.used.fetch_add(bytes, SeqCst) + bytes;
        state.peak.fetch_max(used, SeqCst);
        self.demand.fetch_add(bytes, SeqCst);
        self.settle(false);
    }

    pub(crate) fn give(&self, pool: Pool, bytes: u64) {
        self.state(pool).used.fetch_sub(bytes, SeqCst);
        self.demand.fetch_sub(bytes, SeqCst);
        self.note_freed(bytes);
        if self.waiting.load(SeqCst) > 0 {
            let _queue = self.queue.lock();
            self.freed.notify_all();
        }
    }

    /// Sets the caches to their current size again. That evicts the excess after an entry that is large in relation
    /// to its cache shard was inserted without an eviction.
    pub fn trim(&self) {
        if let Some(set) = self.set_caches.get() {
            set(*self.caches.lock());
        }
    }

    /// The size that the caches should have.
    fn caches_wanted(&self, bytes: u64) -> u64 {
        let division = Division::of(bytes);
        let taken = self.demand.load(SeqCst).saturating_add(self.squeezed.load(SeqCst));
        division.caches.saturating_sub(taken).max(division.caches_min)
    }

    /// Sets the size of the caches if they have to shrink by more than a 64th of the budget; if `all`, whenever
    /// their size differs from the one they should have. So they grow only when the watcher calls this with `all`.
    pub fn settle(&self, all: bool) {
        let (Some(set), Some(bytes)) = (self.set_caches.get(), self.bytes) else { return };
        let step = bytes / 64;
        let mut caches = match all {
            true => self.caches.lock(),
            false => {
                // The thread that holds the lock sees this charge, or the watcher does a moment later.
                let Some(caches) = self.caches.try_lock() else { return };
                caches
            }
        };
        let wanted = self.caches_wanted(bytes);
        if (all && wanted != *caches) || wanted + step < *caches {
            *caches = wanted;
            set(wanted);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} bytes, {} charged", self.bytes, self.demand())
    }
}

impl Division {
    /// The division of a budget of `bytes`.
    pub fn of(bytes: u64) -> Division {
        let engine = (bytes / 16).clamp(16 << 20, 256 << 20).min(bytes / 4);
        let caches = bytes - engine;
        Division { engine, caches, caches_min: bytes / 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn charges_come_out_of_the_caches_and_go_back() {
        let budget = Budget::new(1024 * MIB);
        let caches = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&caches);
        budget.attach_caches(move |bytes| seen.store(bytes, SeqCst));
        let whole = Division::of(1024 * MIB).caches;
        assert_eq!((caches.load(SeqCst), budget.cache_bytes()), (0, whole));
        let charge = budget.try_charge(Pool::Execution, 200 * MIB).unwrap();
        assert_eq!(caches.load(SeqCst), whole - 200 * MIB);
        drop(charge);
        budget.settle(true);
        assert_eq!(caches.load(SeqCst), whole);
        budget.squeeze(10_000 * MIB);
        assert_eq!(caches.load(SeqCst), 256 * MIB);
        // No matter how long memory was tight, the squeeze is not larger than the caches, so they grow back soon.
        let mut watch = crate::Watch::new(1024 * MIB);
        for _ in 0..1000 {
            if let Some(taken) = watch.squeeze(watch.bound() + 10 * MIB, budget.squeeze_max()) {
                budget.squeeze(taken);
            }
        }
        assert_eq!((caches.load(SeqCst), budget.squeezed()), (256 * MIB, whole - 256 * MIB));
    }

    #[test]
    fn a_pool_ends_at_its_limit_and_the_whole_at_the_sum() {
        let budget = Budget::new(100 * MIB);
        let first = budget.try_charge(Pool::Execution, 39 * MIB).unwrap();
        assert!(budget.try_charge(Pool::Execution, 2 * MIB).is_none());
        let other = budget.try_charge(Pool::Requests, 20 * MIB).unwrap();
        assert!(budget.demand_max() < 60 * MIB && budget.demand() <= budget.demand_max());
        assert!(budget.try_charge(Pool::Cursors, 20 * MIB).is_none());
        drop(first);
        assert!(budget.try_charge(Pool::Cursors, 20 * MIB).is_some());
        drop(other);
        assert_eq!((budget.demand(), budget.pool(Pool::Execution).peak), (0, 39 * MIB));
    }

    #[test]
    fn one_larger_than_its_pool_goes_alone() {
        let budget = Budget::new(100 * MIB);
        let large = budget.try_charge(Pool::Requests, 80 * MIB).unwrap();
        assert!(budget.try_charge(Pool::Requests, 1).is_none());
        drop(large);
        assert!(budget.try_charge(Pool::Requests, 1).is_some());
    }

    #[test]
    fn a_waiting_charge_gets_what_is_given_back() {
        let budget = Budget::new(100 * MIB);
        let first = budget.try_charge(Pool::Requests, 30 * MIB).unwrap();
        let wait = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                budget
                    .charge_within(Pool::Requests, 10 * MIB, wait, &mut || Patience::Limited)
                    .is_some()
            });
            while budget.waiting.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            drop(first);
            assert!(waiter.join().unwrap());
        });
        let _full = budget.try_charge(Pool::Requests, 30 * MIB).unwrap();
        assert!(budget.charge_within(Pool::Requests, 1, wait, &mut || Patience::Ended).is_none());
        let none =
            budget.charge_within(Pool::Requests, 1, Duration::ZERO, &mut || Patience::Limited);
        assert!(none.is_none());
        let state = budget.pool(Pool::Requests);
        assert_eq!((state.waited, state.refused), (3, 2));
    }

    #[test]
    fn without_a_limit_everything_is_counted_and_nothing_refused() {
        let budget = Budget::unlimited();
        let charge = budget.try_charge(Pool::Cursors, 1 << 50).unwrap();
        assert_eq!(budget.demand(), 1 << 50);
        drop(charge);
        assert_eq!(budget.demand(), 0);
    }
}
