//! Admission control: tickets limit how many requests work on the storage at once, separately for reads and writes.
//!
//! A request takes a ticket before its command runs and returns it afterwards. If no ticket is free, it waits in a
//! queue, where its interrupt check runs every [`LOOK_AROUND`] and currentOp shows it as queued.
//!
//! ```text
//!   request --> take --+-- own core has a free ticket ----> run --> give: to the core it runs on
//!                      +-- another core has one ----------> run         |
//!                      +-- none free --> queue --- woken by ------------+
//!                                         +-- interrupt check fails --> error
//! ```
//!
//! A request that arrives may take a returned ticket before a queued one wakes up, which saves a switch of threads.
//! When the first of the queue has waited for [`FAIR_AFTER`], tickets are handed over to it instead, so that no request
//! waits for long because others are quicker.
//!
//! From an operation that holds its ticket for long, a waiting request takes it; the operation continues without one
//! ([`held`]).
//!
//! The lock of the queue is an unfair one: with hundreds of threads for each processor, one that was handed over to a
//! sleeping thread would stop all others until that thread has its turn. Interrupt checks are made without it.
//!
//! The free tickets are divided among the cores. Taking and returning one is then a single atomic operation on a cache
//! line that other cores rarely touch. Only a core without free tickets takes those of others.
//!
//! No ticket is held while a request waits for a client (tailable cursor, hello). Requests without a ticket:
//! - commands that are neither reads nor writes, for they may be what a waiting request depends on (`killOp`,
//!   `endSessions`);
//! - statements of transactions, for a transaction may hold locks that ticket holders wait for;
//! - reads that touch no collection (`$currentOp`).
//!
//! When the number of tickets is lowered, by an administrator or by the [`adjustment`], tickets in use are not revoked.
//! The excess is a debt: returned tickets first reduce it and are not free again until it is 0.

mod adjustment;
mod held;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nagi_bson::DocWriter;
use nagi_error::Result;
use nagi_percore::{PerCore, core_count, note_shared};

use self::adjustment::Adjustment;
pub(crate) use self::held::Held;
use self::held::{HELD_MAX, READ, WITHOUT_MAX, WRITE};
use crate::clock;
use crate::metrics::{Counter, LatencyKind};
use crate::request::Request;

/// Interval of the interrupt checks of a queued request.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// A request that has waited for longer gets the next ticket.
const FAIR_AFTER: Duration = Duration::from_millis(20);
/// The same while there are fewer tickets than an administrator has set.
const FAIR_AFTER_FEW: Duration = Duration::from_millis(25);

/// Interval between two searches for tickets that were held for long.
const SEARCH_EACH: Duration = Duration::from_millis(10);

/// Visits what all operations hold.
type Holders<'h> = dyn Fn(&mut dyn FnMut(&Held)) + 'h;

/// The ticket pools of reads and of writes.
pub(crate) struct Tickets {
    pub(crate) read: Pool,
    pub(crate) write: Pool,
}

/// A pool of tickets of one kind.
pub(crate) struct Pool {
    /// [`READ`] or [`WRITE`].
    kind: u8,
    /// The number of tickets at present.
    total: AtomicI64,
    /// The number that an administrator has set.
    most: AtomicI64,
    adjustment: Option<Adjustment>,
    /// Free tickets by core. A request takes and returns a ticket on its own core, unless that core has none.
    available: PerCore<AtomicI64>,
    /// Tickets in use beyond the total, after the total was lowered. Returned tickets reduce it first.
    debt: AtomicI64,
    /// Operations that run although their ticket was taken ([`held`]).
    without: AtomicI64,
    /// Requests that wait for the lock of `fsync`, and those of them that hold a ticket.
    blocked: AtomicI64,
    blocked_working: AtomicI64,
    /// The last search for tickets that were held for long, in microseconds after `created`.
    searched: AtomicU64,
    created: Instant,
    waiting: AtomicI64,
    queue: Mutex<Queue>,
    queued_count: Counter,
    queued_micros: Counter,
}

type Queue = VecDeque<Arc<Waiter>>;

/// A queued request.
struct Waiter {
    since: Instant,
    /// A ticket was handed over to it, and it is no longer queued.
    granted: AtomicBool,
    woken: Condvar,
}

/// The place of a request in the queue. If it is dropped before the request has a ticket, the request leaves.
struct Place<'p> {
    pool: &'p Pool,
    waiter: Arc<Waiter>,
    /// The request has its ticket, and is not queued any more.
    granted: bool,
}

impl Place<'_> {
    /// Takes a ticket that was handed over, or a free one. `queue` is that of the pool.
    fn take(&mut self, queue: &mut Queue) -> bool {
        self.granted = self.waiter.granted.load(SeqCst);
        if !self.granted && self.pool.try_take() {
            self.granted = true;
            self.leave(queue);
        }
        self.granted
    }

    fn leave(&self, queue: &mut Queue) {
        let is_own = |other: &Arc<Waiter>| Arc::ptr_eq(other, &self.waiter);
        // Mostly the first: the others are not woken.
        match queue.front().is_some_and(is_own) {
            true => drop(queue.pop_front()),
            false => queue.retain(|other| !is_own(other)),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.granted {
            return;
        }
        let mut queue = self.pool.lock();
        if self.waiter.granted.load(SeqCst) {
            drop(queue);
            self.pool.give();
        } else {
            self.leave(&mut queue);
            // The wake-up may have been meant for another waiter.
            wake_first(queue);
        }
    }
}

/// The right to work on the storage; returned to the pool when dropped, unless another request has taken it.
pub(crate) struct Ticket<'t> {
    pool: &'t Pool,
    held: Option<&'t Held>,
}

impl<'t> Ticket<'t> {
    /// Lets waiting requests take the ticket once the operation is long.
    pub(crate) fn held_by(self, held: &'t Held) -> Ticket<'t> {
        held.begin(self.pool.kind);
        let pool = self.pool;
        std::mem::forget(self);
        Ticket { pool, held: Some(held) }
    }
}

impl Tickets {
    pub(crate) fn new(readers: i64, writers: i64) -> Tickets {
        let write = Pool { adjustment: Some(Adjustment::new()), ..Pool::new(writers, WRITE) };
        Tickets { read: Pool::new(readers, READ), write }
    }

    /// The pool that a request takes its ticket from; `None` if it needs no ticket.
    pub(crate) fn pool(&self, request: &Request<'_>) -> Option<&Pool> {
        // A transaction may hold locks that requests with tickets wait for.
        if request.generic.autocommit.is_some() {
            return None;
        }
        match request.command.latency {
            LatencyKind::Read if (request.command.without_ticket)(request.body) => None,
            LatencyKind::Read => Some(&self.read),
            LatencyKind::Write => Some(&self.write),
            _ => None,
        }
    }
}

/// Wakes the first of the queue, without its lock, for which the woken thread would wait again.
fn wake_first(queue: MutexGuard<'_, Queue>) {
    let first = queue.front().cloned();
    drop(queue);
    first.inspect(|first| first.woken.notify_one());
}

/// Divides tickets among the cores; the first cores get one more if they do not divide evenly.
fn split(total: i64) -> PerCore<AtomicI64> {
    let cores = core_count() as i64;
    PerCore::new(|core| AtomicI64::new(total / cores + i64::from((core as i64) < total % cores)))
}

impl Pool {
    fn new(total: i64, kind: u8) -> Pool {
        Pool {
            kind,
            total: AtomicI64::new(total),
            most: AtomicI64::new(total),
            adjustment: None,
            available: split(total),
            debt: AtomicI64::new(0),
            without: AtomicI64::new(0),
            blocked: AtomicI64::new(0),
            blocked_working: AtomicI64::new(0),
            searched: AtomicU64::new(0),
            created: clock::now(),
            waiting: AtomicI64::new(0),
            queue: Mutex::default(),
            queued_count: Counter::default(),
            queued_micros: Counter::default(),
        }
    }

    /// Takes a ticket; waits if none is free. `check` is the interrupt check of the wait. `queued` is called with the
    /// time at which the wait begins, and with `None` when it is over. `holders` is for [`Pool::take_over_long`].
    ///
    /// # Errors
    /// Those of `check`.
    pub(crate) fn take(
        &self,
        check: &dyn Fn() -> Result<()>,
        queued: &dyn Fn(Option<Instant>),
        holders: &Holders<'_>,
    ) -> Result<Ticket<'_>> {
        if !self.try_take() {
            let since = clock::now();
            queued(Some(since));
            self.waiting.fetch_add(1, SeqCst);
            let waited = self.wait(check, holders);
            self.waiting.fetch_sub(1, SeqCst);
            queued(None);
            self.queued_count.increment();
            self.queued_micros.add(clock::micros_since(since));
            waited?;
        }
        Ok(Ticket { pool: self, held: None })
    }

    fn try_take(&self) -> bool {
        let less = |free: i64| (free > 0).then(|| free - 1);
        let take = |of: &AtomicI64| of.try_update(SeqCst, SeqCst, less).is_ok();
        take(self.available.own()) || {
            note_shared("tickets of other cores", 1, 1);
            self.available.iter().any(take)
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, check: &dyn Fn() -> Result<()>, holders: &Holders<'_>) -> Result<()> {
        let mut queue = self.lock();
        if self.try_take() {
            return Ok(());
        }
        let waiter = Arc::new(Waiter {
            since: clock::now(),
            granted: AtomicBool::new(false),
            woken: Condvar::new(),
        });
        queue.push_back(waiter.clone());
        let mut place = Place { pool: self, waiter, granted: false };
        let first = queue.front().map_or(place.waiter.since, |first| first.since);
        if self.adjustment.is_some() {
            drop(queue);
            self.adjust(first, clock::now());
            queue = self.lock();
        }
        // The first look for long operations comes as soon as there may be one.
        let mut time = HELD_MAX;
        loop {
            if place.take(&mut queue) {
                self.wake_more(queue);
                return Ok(());
            }
            let waiting = place.waiter.woken.wait_timeout(queue, time);
            queue = waiting.unwrap_or_else(PoisonError::into_inner).0;
            time = LOOK_AROUND;
            if place.take(&mut queue) {
                self.wake_more(queue);
                return Ok(());
            }
            let first = queue.front().map_or(place.waiter.since, |first| first.since);
            drop(queue);
            self.adjust(first, clock::now());
            self.take_over_long(holders);
            check()?;
            queue = self.lock();
        }
    }

    /// Wakes the first of the queue if there are more tickets: several may have been returned while the thread that was
    /// woken for the first of them did not run.
    fn wake_more(&self, queue: MutexGuard<'_, Queue>) {
        if !queue.is_empty() && self.free() > 0 {
            wake_first(queue);
        }
    }

    /// Takes tickets from operations that have held them for long, at most as many as requests wait, and gives them to
    /// the first of the queue. `holders` visits all operations.
    fn take_over_long(&self, holders: &Holders<'_>) {
        let (now, last) = (clock::micros_since(self.created), self.searched.load(SeqCst));
        if now.saturating_sub(last) < SEARCH_EACH.as_micros() as u64
            || self.searched.compare_exchange(last, now, SeqCst, SeqCst).is_err()
        {
            return;
        }
        let wanted = self.lock().len() as i64 - self.free();
        let most = wanted.min(WITHOUT_MAX - self.without.load(SeqCst));
        if most <= 0 {
            return;
        }
        let mut taken = 0;
        holders(&mut |held| {
            if taken < most && held.take_over(self.kind) {
                self.without.fetch_add(1, SeqCst);
                taken += 1;
            }
        });
        (0..taken).for_each(|_| self.give());
    }

    /// Returns a ticket.
    fn give(&self) {
        let paid =
            || self.debt.try_update(SeqCst, SeqCst, |debt| (debt > 0).then(|| debt - 1)).is_ok();
        if self.debt.load(SeqCst) > 0 && paid() {
            return;
        }
        if self.waiting.load(SeqCst) == 0 {
            self.available.own().fetch_add(1, SeqCst);
            // A request that began to wait meanwhile may not have seen the ticket.
            if self.waiting.load(SeqCst) > 0 {
                wake_first(self.lock());
            }
            return;
        }
        let mut queue = self.lock();
        let now = clock::now();
        let few = self.total.load(SeqCst) < self.most.load(SeqCst);
        let fair_after = if few { FAIR_AFTER_FEW } else { FAIR_AFTER };
        let due = queue.front().is_some_and(|first| now.duration_since(first.since) >= fair_after);
        if due && let Some(first) = queue.pop_front() {
            first.granted.store(true, SeqCst);
            drop(queue);
            first.woken.notify_one();
            return;
        }
        self.available.own().fetch_add(1, SeqCst);
        let since = queue.front().map(|first| first.since);
        wake_first(queue);
        if let Some(since) = since {
            self.adjust(since, now);
        }
    }

    /// Lets the adjustment look, if there is one. Not under the queue's lock, because it reads a file now and then.
    fn adjust(&self, since: Instant, now: Instant) {
        let Some(adjustment) = &self.adjustment else { return };
        let counts = (self.total.load(SeqCst), self.most.load(SeqCst));
        if let Some(total) = adjustment.look(counts, since, now) {
            let queue = self.lock();
            self.set_total(total.min(self.most.load(SeqCst)), &queue);
        }
    }

    /// Fixes the number of tickets, or lets it be adjusted.
    pub(crate) fn fix(&self, fixed: bool) {
        if let Some(adjustment) = &self.adjustment {
            adjustment.enable(!fixed);
        }
        let queue = self.lock();
        self.set_total(self.most.load(SeqCst), &queue);
    }

    /// Changes the total. Tickets in use beyond it are not revoked.
    pub(crate) fn resize(&self, total: i64) {
        let queue = self.lock();
        self.most.store(total, SeqCst);
        self.set_total(total, &queue);
    }

    /// `queue` is that of the pool, locked.
    fn set_total(&self, total: i64, queue: &Queue) {
        let before = self.total.swap(total, SeqCst);
        if total >= before {
            let mut more = total - before;
            let paid = self.debt.try_update(SeqCst, SeqCst, |debt| Some(debt - debt.min(more)));
            more -= paid.map_or(0, |debt| debt.min(more));
            for (own, more) in self.available.iter().zip(split(more).iter()) {
                own.fetch_add(more.load(SeqCst), SeqCst);
            }
            for waiter in queue.iter().take(usize::try_from(more).unwrap_or(0)) {
                waiter.woken.notify_one();
            }
        } else {
            let mut less = before - total;
            for own in self.available.iter() {
                let take = |free: i64| Some(free - free.clamp(0, less));
                less -= own.try_update(SeqCst, SeqCst, take).map_or(0, |free| free.clamp(0, less));
            }
            self.debt.fetch_add(less, SeqCst);
        }
    }

    /// The number of requests that work, with or without their ticket.
    pub(crate) fn working(&self) -> i64 {
        (self.out() + self.without.load(SeqCst) - self.blocked_working.load(SeqCst)).max(0)
    }

    /// Counts a request that waits for the lock of `fsync` until the guard is dropped. `has_ticket`: it holds a ticket
    /// of this pool.
    pub(crate) fn block(&self, has_ticket: bool) -> BlockedGuard<'_> {
        self.blocked.fetch_add(1, SeqCst);
        self.blocked_working.fetch_add(i64::from(has_ticket), SeqCst);
        BlockedGuard { pool: self, has_ticket }
    }

    /// The number of requests that wait for the lock of `fsync`.
    pub(crate) fn blocked(&self) -> i64 {
        self.blocked.load(SeqCst)
    }

    /// The number of tickets in use.
    pub(crate) fn out(&self) -> i64 {
        (self.total.load(SeqCst) + self.debt.load(SeqCst) - self.free()).max(0)
    }

    fn free(&self) -> i64 {
        self.available.iter().map(|free| free.load(SeqCst)).sum()
    }

    /// The number of waiting requests.
    pub(crate) fn waiting(&self) -> i64 {
        self.waiting.load(SeqCst)
    }

    /// Writes `out`, `available` and `totalTickets`, as serverStatus shows them. `out` does not count the operations
    /// whose ticket was taken over.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        let few = self.total.load(SeqCst) < self.most.load(SeqCst);
        let over = |adjustment: &Adjustment| adjustment.is_over(clock::now());
        if few && self.waiting() == 0 && self.adjustment.as_ref().is_some_and(over) {
            let queue = self.lock();
            self.set_total(self.most.load(SeqCst), &queue);
        }
        let (total, available) = (self.total.load(SeqCst), self.free());
        out.put("out", self.out() as i32);
        out.put("available", available.max(0) as i32);
        out.put("totalTickets", total as i32);
    }

    /// As [`Pool::write`], with the statistics of the queue.
    pub(crate) fn write_queue(&self, out: &mut DocWriter<'_>) {
        self.write(out);
        out.doc("normalPriority", |doc| {
            doc.put("queueLength", self.waiting());
            doc.put("addedToQueue", self.queued_count.get() + self.waiting());
            doc.put("removedFromQueue", self.queued_count.get());
            doc.put("totalTimeQueuedMicros", self.queued_micros.get());
        });
    }
}

/// A request that waits for the lock of `fsync`.
pub(crate) struct BlockedGuard<'p> {
    pool: &'p Pool,
    has_ticket: bool,
}

impl Drop for BlockedGuard<'_> {
    fn drop(&mut self) {
        self.pool.blocked_working.fetch_sub(i64::from(self.has_ticket), SeqCst);
        self.pool.blocked.fetch_sub(1, SeqCst);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        match self.held.is_none_or(Held::end) {
            true => self.pool.give(),
            false => _ = self.pool.without.fetch_sub(1, SeqCst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use nagi_error::{Code, err};

    #[test]
    fn no_more_than_the_total_at_once() {
        let pool = Arc::new(Pool::new(3, READ));
        let inside = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let ticket = pool.take(&|| Ok(()), &|_| (), &|_| ()).unwrap();
                        assert!(inside.fetch_add(1, SeqCst) < 3);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        drop(ticket);
                    }
                });
            }
        });
        assert_eq!(pool.free(), 3);
        assert_eq!(pool.waiting(), 0);
    }

    #[test]
    fn no_ticket_is_lost_while_their_number_changes() {
        let pool = Pool::new(6, READ);
        let running = AtomicI64::new(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        drop(pool.take(&|| Ok(()), &|_| (), &|_| ()).unwrap());
                        std::thread::yield_now();
                    }
                    running.fetch_sub(1, SeqCst);
                });
            }
            while running.load(SeqCst) > 0 {
                for total in [1, 4, 2, 6] {
                    pool.set_total(total, &pool.lock());
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!((pool.free(), pool.out(), pool.waiting()), (6, 0, 0));
        pool.resize(5);
        assert_eq!((pool.free(), pool.out()), (5, 0));
    }

    #[test]
    fn tickets_of_long_operations_are_taken_over() {
        let tickets = Tickets::new(2, 2);
        let (pool, ok) = (&tickets.write, || Ok(()));
        let held = [Held::new(), Held::new(), Held::new()];
        let take = |held| pool.take(&ok, &|_| (), &|_| ()).unwrap().held_by(held);
        let long: Vec<_> = held[..2].iter().map(take).collect();
        let reader = tickets.read.take(&ok, &|_| (), &|_| ()).unwrap().held_by(&held[2]);
        pool.take_over_long(&|visit| held.iter().for_each(visit));
        assert_eq!((pool.out(), pool.working()), (2, 2), "nobody waits");
        // Nothing else returns a ticket.
        drop(pool.take(&ok, &|_| (), &|visit| held.iter().for_each(visit)).unwrap());
        let without = pool.without.load(SeqCst);
        assert!((1..=2).contains(&without) && pool.working() == 2);
        drop((long, reader));
        assert_eq!((pool.free(), pool.working()), (2, 0), "no ticket is returned twice");
        assert_eq!((tickets.read.free(), tickets.read.working()), (2, 0));
        pool.without.store(WITHOUT_MAX, SeqCst);
        let long: Vec<_> = held[..2].iter().map(take).collect();
        let calls = AtomicI64::new(0);
        let stop = || match calls.fetch_add(1, SeqCst) {
            0..3 => Ok(()),
            _ => Err(err!(Code::INTERRUPTED, "enough")),
        };
        assert!(pool.take(&stop, &|_| (), &|visit| held.iter().for_each(visit)).is_err());
        assert_eq!(pool.out(), 2);
        drop(long);
    }

    #[test]
    fn a_waiter_may_be_called_off_and_more_tickets_let_it_in() {
        let pool = Pool::new(1, READ);
        let first = pool.take(&|| Ok(()), &|_| (), &|_| ()).unwrap();
        let stop = || Err(err!(Code::INTERRUPTED, "enough"));
        assert!(pool.take(&stop, &|_| (), &|_| ()).is_err());
        let queued = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let note = |since: Option<Instant>| queued.store(since.is_some(), SeqCst);
                drop(pool.take(&|| Ok(()), &note, &|_| ()).unwrap());
            });
            while pool.waiting() == 0 {
                std::thread::yield_now();
            }
            pool.resize(2);
            waiter.join().unwrap();
        });
        drop(first);
        pool.resize(1);
        assert_eq!(pool.free(), 1);
        assert!(!queued.load(SeqCst));
    }

    #[test]
    fn who_has_waited_for_long_gets_the_next_ticket() {
        let pool = Pool::new(1, READ);
        let first = pool.take(&|| Ok(()), &|_| (), &|_| ()).unwrap();
        let waiter = |before: Duration| {
            let since = clock::now().checked_sub(before).unwrap();
            let waiter = Waiter { since, granted: AtomicBool::new(false), woken: Condvar::new() };
            pool.waiting.fetch_add(1, SeqCst);
            Arc::new(waiter)
        };
        let (long, short) = (waiter(FAIR_AFTER * 2), waiter(Duration::ZERO));
        pool.lock().extend([long.clone(), short.clone()]);
        drop(first);
        // No other request can take it.
        assert!(long.granted.load(SeqCst) && pool.free() == 0);
        drop(Ticket { pool: &pool, held: None });
        assert!(!short.granted.load(SeqCst) && pool.free() == 1);
    }

    #[test]
    fn fewer_tickets_are_fewer_on_all_cores_together() {
        let pool = Pool::new(10, READ);
        let stop = || Err(err!(Code::INTERRUPTED, "enough"));
        let out: Vec<_> = (0..4).map(|_| pool.take(&stop, &|_| (), &|_| ()).unwrap()).collect();
        pool.resize(1);
        assert_eq!((pool.out(), pool.free()), (4, 0));
        assert!(pool.take(&stop, &|_| (), &|_| ()).is_err());
        drop(out);
        assert_eq!((pool.out(), pool.free()), (0, 1));
        let only = pool.take(&stop, &|_| (), &|_| ()).unwrap();
        assert!(pool.take(&stop, &|_| (), &|_| ()).is_err());
        pool.resize(3);
        let more: Vec<_> = (0..2).map(|_| pool.take(&stop, &|_| (), &|_| ()).unwrap()).collect();
        assert!(pool.take(&stop, &|_| (), &|_| ()).is_err());
        drop((only, more));
        assert_eq!((pool.out(), pool.free()), (0, 3));
    }
}
