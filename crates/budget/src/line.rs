//! The queue of requests that wait for memory (first in, first out), without deadlock and without starvation.
//!
//! A request that holds no memory yet joins the queue, and only the first of the queue may allocate: so a large
//! request is not overtaken forever by many small ones. Small requests may overtake it for [`PASS_TIME`]. Requests
//! that hold memory already wait at the front of the queue, the oldest holder first. When all of them wait, they wait
//! for each other: then the first that fits goes on, and if none does, the youngest fails, and the others continue with
//! what it releases.
//!
//! Two others use the queue. A message that is still to be read ([`Budget::wait_for_turn`]) holds nothing and has no
//! deadline of its request yet. Messages are served in the order of arrival in their pool; small ones pass. One that
//! would take a large part of all memory joins the queue of requests, too, once it is the first of its pool, before
//! those that came later than it: requests before it may need more than what large messages leave, and those behind it
//! must not take what it waits for. The engine's background work ([`crate::Work`]) waits behind one request.
//!
//! A wait fails after [`STALL_MAX`] in which no memory was released, and after [`WAIT_MAX`] in any case.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    Budget, Pool,
    budget::LOOK_AROUND,
    meter::{self, REQUEST_POOLS, own_bytes},
};

/// Longest wait of a request that can be interrupted while it waits.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Longest wait in which no large amount is released; also the longest of a request that cannot be interrupted.
const STALL_MAX: Duration = Duration::from_secs(10);
/// A release of this size shows that other requests make progress.
const PROGRESS_BYTES: u64 = 1 << 20;
/// Requests up to this size may overtake, until the first of the queue has waited for `PASS_TIME`.
const PASS_BYTES: u64 = 2 << 20;
const PASS_TIME: Duration = Duration::from_secs(1);
/// Longest wait of a message, in times of the longest wait without progress.
const MESSAGE_WAITS: u32 = 4;
/// A message that takes more than this part of all memory does not overtake the queue of requests.
const LARGE_PART: u64 = 8;
/// Limit of the queue; further requests fail at once. Waiting requests may hold storage tickets that others need.
const WAITING_MAX: usize = 64;

/// How long a message may wait, as its connection says again and again while it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not any longer.
    Ended,
    /// Within the limits.
    Limited,
    /// As long as it says so: the limits begin anew.
    Unlimited,
}

/// A place in the queue.
#[derive(Debug)]
struct Place {
    number: u64,
    since: Instant,
    /// What the request holds of [`REQUEST_POOLS`], and does not release while it waits.
    own_bytes: u64,
    /// It holds memory, or is background work: none that comes earlier stands before it.
    is_ahead: bool,
    /// The number of the request in [`Holders`], if it holds memory, and what it waits for.
    held: Option<(u64, Need)>,
}

/// What a request that holds memory waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) pool: Pool,
    pub(crate) bytes: u64,
    /// What it has of the pool.
    pub(crate) own: u64,
}

impl Place {
    fn new(number: u64) -> Place {
        Place { number, since: Instant::now(), own_bytes: 0, is_ahead: false, held: None }
    }
}

/// The requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Line {
    next: u64,
    waiting: VecDeque<Place>,
    /// The waiting messages that may not pass others, with the pool of each.
    messages: VecDeque<(u64, Pool)>,
}

impl Line {
    fn join_messages(&mut self, pool: Pool) -> u64 {
        self.next += 1;
        self.messages.push_back((self.next, pool));
        self.next
    }

    /// Returns true if a message that arrives need not wait for others.
    fn is_free(&self, pool: Pool, is_large: bool) -> bool {
        self.messages.iter().all(|(_, other)| *other != pool)
            && (!is_large || self.waiting.is_empty())
    }

    /// Returns true if it is the turn of a waiting message. A large one joins the requests when it is the first of its
    /// pool and the pool has capacity for it (`large_fits`; none for a small one): requests do not wait for a pool that
    /// they do not use.
    fn is_turn(&mut self, number: u64, pool: Pool, large_fits: Option<bool>) -> bool {
        let first = self.messages.iter().find(|(_, other)| *other == pool);
        if first.is_none_or(|(first, _)| *first != number) {
            return false;
        }
        let Some(fits) = large_fits else { return true };
        let joined = self.waiting.iter().any(|place| place.number == number);
        if fits && !joined {
            // Where it stood when it came: those who came later are behind it.
            let is_later = |place: &Place| !place.is_ahead && place.number > number;
            let at = self.waiting.iter().position(is_later).unwrap_or(self.waiting.len());
            self.waiting.insert(at, Place::new(number));
        }
        fits && self.is_first(number)
    }

    /// Adds background work behind the first request that waits, so that requests and work take turns.
    pub(crate) fn join_work(&mut self) -> u64 {
        self.next += 1;
        let at = self.waiting.len().min(1);
        self.waiting.insert(at, Place { is_ahead: true, ..Place::new(self.next) });
        self.next
    }

    /// Adds a request; one that holds memory before all that do not, and before those that have held it for less long.
    fn join(&mut self, held: Option<(u64, Need)>) -> u64 {
        self.next += 1;
        let is_ahead = held.is_some();
        let place = Place { own_bytes: own_bytes(), is_ahead, held, ..Place::new(self.next) };
        let is_behind = |other: &Place| match (other.held, held) {
            (Some((other, _)), Some((number, _))) => other > number,
            (None, held) => held.is_some(),
            (Some(_), None) => false,
        };
        let at = self.waiting.iter().position(is_behind).unwrap_or(self.waiting.len());
        self.waiting.insert(at, place);
        self.next
    }

    /// The requests that hold memory, with what they wait for.
    fn holders(&self) -> impl Iterator<Item = (u64, Need)> {
        self.waiting.iter().filter_map(|place| place.held)
    }

    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.retain(|place| place.number != number);
        self.messages.retain(|(other, _)| *other != number);
    }

    pub(crate) fn is_first(&self, number: u64) -> bool {
        self.waiting.front().is_some_and(|first| first.number == number)
    }

    /// What waiting requests hold of [`REQUEST_POOLS`].
    fn own_bytes(&self) -> u64 {
        self.waiting.iter().map(|place| place.own_bytes).sum()
    }

    /// Returns true if a request of this size may overtake the first of the queue.
    fn lets_pass(&self, bytes: u64) -> bool {
        match self.waiting.front() {
            Some(first) => bytes <= PASS_BYTES && first.since.elapsed() < PASS_TIME,
            None => true,
        }
    }
}

/// The requests that hold memory, by number: the lowest is the oldest.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<(u64, BTreeSet<u64>)>);

impl Holders {
    /// Adds a request and returns its number.
    pub(crate) fn join(&self) -> u64 {
        let mut holders = self.0.lock();
        holders.0 += 1;
        let number = holders.0;
        holders.1.insert(number);
        number
    }

    pub(crate) fn leave(&self, number: u64) {
        self.0.lock().1.remove(&number);
    }
}

/// A request for memory that may have to wait.
pub(crate) struct Asking<'a> {
    pub(crate) pool: Pool,
    pub(crate) bytes: u64,
    /// Bytes that it holds of the pool already.
    pub(crate) own: u64,
    /// Its number in [`Holders`], if it holds any.
    pub(crate) held_since: Option<u64>,
    /// Called while it waits; returns false if the request was interrupted. None: it cannot be interrupted.
    pub(crate) go_on: Option<&'a mut dyn FnMut() -> bool>,
}

impl Budget {
    /// Calls `ask`, which tries to allocate, until it succeeds. Returns false if the request may not wait, or not
    /// any longer.
    pub(crate) fn wait_in_line(&self, mut who: Asking<'_>, ask: &mut dyn FnMut() -> bool) -> bool {
        if !self.has_waiting() && ask() {
            return true;
        }
        let mut line = self.queue.lock();
        if (who.held_since.is_some() || line.lets_pass(who.bytes)) && ask() {
            return true;
        }
        let never_fits = who.own.saturating_add(who.bytes) > self.demand_max();
        if never_fits || line.waiting.len() >= WAITING_MAX {
            self.note_refused(who.pool);
            return false;
        }
        self.note_waited(who.pool);
        self.waiting.fetch_add(1, SeqCst);
        let need = Need { pool: who.pool, bytes: who.bytes, own: who.own };
        let number = line.join(who.held_since.map(|since| (since, need)));
        let until = Instant::now() + if who.go_on.is_some() { WAIT_MAX } else { STALL_MAX };
        let (mut moved, mut freed) = (Instant::now(), self.freed_count());
        let served = loop {
            let all_wait = who.held_since.filter(|_| self.all_wait(&line));
            // None before it can go on.
            let is_next = all_wait.is_some_and(|since| {
                line.holders().all(|(other, need)| other >= since || !self.would_take(need))
            });
            if (is_next || line.is_first(number) || line.lets_pass(who.bytes)) && ask() {
                break true;
            }
            let now = Instant::now();
            if freed != self.freed_count() {
                (moved, freed) = (now, self.freed_count());
            }
            // Nor any other, and it has held its memory for the shortest time.
            let ends = all_wait.is_some_and(|since| {
                line.holders().all(|(other, need)| other <= since && !self.would_take(need))
            });
            let told = who.go_on.as_mut().is_some_and(|go_on| !go_on());
            meter::note_wait(ends && !told);
            if ends || told || now >= until || now - moved >= STALL_MAX {
                break false;
            }
            self.freed.wait_for(&mut line, LOOK_AROUND);
        };
        line.leave(number);
        self.waiting.fetch_sub(1, SeqCst);
        if !served {
            self.note_refused(who.pool);
        }
        // The next request is at the front of the queue.
        self.freed.notify_all();
        served
    }

    /// Returns true if all that hold memory wait: nothing that does not wait can release any.
    fn all_wait(&self, line: &Line) -> bool {
        REQUEST_POOLS.iter().map(|pool| self.pool(*pool).used).sum::<u64>() <= line.own_bytes()
            && self.pool(Pool::Compactions).used == 0
    }

    /// Calls `ask`, which tries to charge `bytes` for a message, until it succeeds. Returns false after `wait` in which
    /// no large amount was released, after several times that in any case, and if `go_on` ends the wait.
    pub(crate) fn wait_for_turn(
        &self,
        pool: Pool,
        bytes: u64,
        wait: Duration,
        go_on: &mut dyn FnMut() -> Patience,
        ask: &mut dyn FnMut() -> bool,
    ) -> bool {
        let passes = bytes <= PASS_BYTES;
        if (passes || !self.has_waiting()) && ask() {
            return true;
        }
        let is_large = bytes > self.demand_max() / LARGE_PART;
        let mut line = self.queue.lock();
        if line.is_free(pool, is_large) && ask() {
            return true;
        }
        self.note_waited(pool);
        self.waiting.fetch_add(1, SeqCst);
        let number = (!passes).then(|| line.join_messages(pool));
        let (mut begun, mut moved, mut freed) =
            (Instant::now(), Instant::now(), self.freed_count());
        let served = loop {
            let used = self.pool(pool).used;
            let fits =
                is_large.then(|| used == 0 || used.saturating_add(bytes) <= self.limit(pool));
            if number.is_none_or(|number| line.is_turn(number, pool, fits)) && ask() {
                break true;
            }
            let now = Instant::now();
            if freed != self.freed_count() {
                (moved, freed) = (now, self.freed_count());
            }
            match go_on() {
                Patience::Ended => break false,
                Patience::Limited => {}
                Patience::Unlimited => (begun, moved) = (now, now),
            }
            if now - moved >= wait || now - begun >= wait * MESSAGE_WAITS {
                break false;
            }
            self.freed.wait_for(&mut line, LOOK_AROUND.min(wait));
        };
        if let Some(number) = number {
            line.leave(number);
        }
        self.waiting.fetch_sub(1, SeqCst);
        if !served {
            self.note_refused(pool);
        }
        // It may be the turn of another one now.
        self.freed.notify_all();
        served
    }

    /// Counts large releases: waiting requests continue to wait as long as there are any.
    pub(crate) fn note_freed(&self, bytes: u64) {
        if bytes >= PROGRESS_BYTES {
            self.note_progress();
        }
    }

    pub(crate) fn note_progress(&self) {
        self.freed_large.fetch_add(1, SeqCst);
    }

    pub(crate) fn freed_count(&self) -> u64 {
        self.freed_large.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc::channel},
        thread::yield_now,
    };

    use super::*;
    use crate::Charge;

    const MIB: u64 = 1 << 20;

    fn waiting(budget: &Budget) -> usize {
        budget.queue.lock().waiting.len()
    }

    /// Waits in the queue for `bytes`, on a thread of its own, which returns the charge if it was granted.
    fn ask(budget: &Arc<Budget>, bytes: u64) -> std::thread::JoinHandle<Option<Charge>> {
        let budget = Arc::clone(budget);
        std::thread::spawn(move || {
            let mut charge = Charge::empty(&budget, Pool::Evaluation);
            charge.grow_in_line(bytes, Some(&mut || true)).then_some(charge)
        })
    }

    fn until(reached: impl Fn() -> bool) {
        while !reached() {
            yield_now();
        }
    }

    #[test]
    fn one_that_needs_much_is_not_passed_by_those_behind_it() {
        let budget = Budget::new(100 * MIB);
        let mut held: Vec<Charge> =
            (0..3).map(|_| budget.try_charge(Pool::Evaluation, 10 * MIB).unwrap()).collect();
        let large = ask(&budget, 25 * MIB);
        until(|| waiting(&budget) == 1);
        let behind = ask(&budget, 6 * MIB);
        until(|| waiting(&budget) == 2);
        // The capacity suffices for the second, not for the first.
        held.pop();
        let little = ask(&budget, MIB).join().unwrap();
        assert!(little.is_some(), "little passes");
        drop(little);
        assert_eq!(waiting(&budget), 2);
        held.clear();
        let large = large.join().unwrap().unwrap();
        assert_eq!(large.bytes(), 25 * MIB);
        until(|| waiting(&budget) == 1);
        drop(large);
        assert!(behind.join().unwrap().is_some());
        assert_eq!((budget.demand(), waiting(&budget)), (0, 0));
    }

    /// A request that holds `bytes`, and waits for the next ones that are sent. Says which it got.
    fn holder(
        budget: &Arc<Budget>,
        bytes: u64,
    ) -> (std::sync::mpsc::Sender<u64>, std::thread::JoinHandle<Vec<bool>>) {
        let (tell, told) = channel::<u64>();
        let (ready, begun) = channel::<()>();
        let budget = Arc::clone(budget);
        let thread = std::thread::spawn(move || {
            let mut charge = Charge::empty(&budget, Pool::Evaluation);
            assert!(charge.grow_in_line(bytes, None));
            ready.send(()).unwrap();
            let mut got = Vec::new();
            for bytes in told {
                got.push(charge.grow_in_line(bytes, Some(&mut || true)));
                if got.last() == Some(&false) {
                    break;
                }
            }
            got
        });
        begun.recv().unwrap();
        (tell, thread)
    }

    #[test]
    fn of_those_who_hold_something_and_wait_for_each_other_the_youngest_ends() {
        let budget = Budget::new(100 * MIB);
        let holders = [(); 3].map(|()| holder(&budget, 10 * MIB));
        let begun = Instant::now();
        // The limit is 30: each waits for what the others hold.
        for (place, (tell, _)) in holders.iter().enumerate() {
            tell.send(10 * MIB).unwrap();
            until(|| waiting(&budget) == place + 1 || holders[2].1.is_finished());
        }
        let [(first, eldest), (second, middle), (_, youngest)] = holders;
        assert_eq!(youngest.join().unwrap(), [false]);
        // The first has what the third released, and does not wait any more. The second waits for it.
        drop(first);
        assert_eq!(eldest.join().unwrap(), [true]);
        drop(second);
        assert_eq!(middle.join().unwrap(), [true]);
        assert!(begun.elapsed() < STALL_MAX / 2, "it is seen at once");
        assert_eq!((budget.demand(), waiting(&budget)), (0, 0));
    }

    #[test]
    fn when_all_wait_one_that_fits_goes_on_and_the_others_wait_for_it() {
        let budget = Budget::new(100 * MIB);
        let (first, elder) = holder(&budget, 15 * MIB);
        let (second, younger) = holder(&budget, 10 * MIB);
        let begun = Instant::now();
        first.send(20 * MIB).unwrap();
        until(|| waiting(&budget) == 1);
        second.send(4 * MIB).unwrap();
        drop((first, second));
        assert_eq!(younger.join().unwrap(), [true]);
        assert_eq!(elder.join().unwrap(), [true]);
        assert!(begun.elapsed() < STALL_MAX / 2);
    }

    #[test]
    fn one_that_holds_something_waits_for_those_that_run() {
        let budget = Budget::new(100 * MIB);
        let (first, elder) = holder(&budget, 15 * MIB);
        let (second, younger) = holder(&budget, 15 * MIB);
        second.send(10 * MIB).unwrap();
        until(|| waiting(&budget) == 1);
        drop((first, second));
        assert_eq!(elder.join().unwrap(), []);
        assert_eq!(younger.join().unwrap(), [true]);
        // Alone, nothing can give it more.
        let (tell, alone) = holder(&budget, 15 * MIB);
        let _full = budget.try_charge(Pool::IndexBuilds, 20 * MIB).unwrap();
        tell.send(50 * MIB).unwrap();
        drop(tell);
        assert_eq!(alone.join().unwrap(), [false]);
    }

    #[test]
    fn messages_are_served_in_order_and_small_ones_pass() {
        let budget = Budget::new(100 * MIB);
        let full = budget.try_charge(Pool::Requests, 20 * MIB).unwrap();
        let wait = Duration::from_secs(60);
        let message = |bytes: u64| {
            let budget = Arc::clone(&budget);
            std::thread::spawn(move || {
                budget.charge_within(Pool::Requests, bytes, wait, &mut || Patience::Limited)
            })
        };
        let messages = |count: usize| until(|| budget.queue.lock().messages.len() == count);
        let first = message(25 * MIB);
        messages(1);
        // There is capacity for this one, but it is not its turn.
        let second = message(3 * MIB);
        messages(2);
        let small = message(MIB).join().unwrap();
        assert!(small.is_some(), "a small one passes");
        drop((small, full));
        let first = first.join().unwrap().unwrap();
        assert_eq!(first.bytes(), 25 * MIB);
        // Of another pool, so it does not wait for messages.
        let cursor = budget.charge_within(Pool::Cursors, 3 * MIB, wait, &mut || Patience::Limited);
        assert!(cursor.is_some());
        assert!(second.join().unwrap().is_some());
        drop((first, cursor));
        assert_eq!((budget.demand(), budget.has_waiting()), (0, false));
    }

    #[test]
    fn a_large_message_does_not_overtake_the_queue() {
        let budget = Budget::new(100 * MIB);
        let mut held = vec![budget.try_charge(Pool::Evaluation, 25 * MIB).unwrap()];
        let request = ask(&budget, 20 * MIB);
        until(|| waiting(&budget) == 1);
        let wait = Duration::from_secs(60);
        let medium = budget.charge_within(Pool::Requests, 4 * MIB, wait, &mut || Patience::Limited);
        assert!(medium.is_some(), "there is enough for it");
        let late = budget
            .charge_within(Pool::Requests, 20 * MIB, Duration::ZERO, &mut || Patience::Limited);
        assert!(late.is_none(), "it would take what the request waits for");
        drop((medium, held.pop()));
        assert!(request.join().unwrap().is_some());
    }

    #[test]
    fn requests_that_come_later_do_not_overtake_a_large_message() {
        let budget = Budget::new(100 * MIB);
        let held = budget.try_charge(Pool::Evaluation, 25 * MIB).unwrap();
        let first = ask(&budget, 20 * MIB);
        until(|| waiting(&budget) == 1);
        let message = std::thread::spawn({
            let (budget, wait) = (Arc::clone(&budget), Duration::from_secs(10));
            move || budget.charge_within(Pool::Requests, 20 * MIB, wait, &mut || Patience::Limited)
        });
        until(|| waiting(&budget) == 2);
        let later = [3, 4].map(|count| {
            let request = ask(&budget, 20 * MIB);
            until(|| waiting(&budget) == count);
            request
        });
        drop(held);
        let first = first.join().unwrap().unwrap();
        // Some requests wait all the time.
        let message = message.join().unwrap().expect("it was before them");
        assert_eq!((message.bytes(), waiting(&budget)), (20 * MIB, 2));
        drop((first, message));
        for request in later {
            assert!(request.join().unwrap().is_some());
        }
        assert_eq!((budget.demand(), budget.has_waiting()), (0, false));
    }

    #[test]
    fn each_large_message_stands_before_requests_that_came_later() {
        let budget = Budget::new(100 * MIB);
        let first = budget.try_charge(Pool::Requests, 20 * MIB).unwrap();
        let held = budget.try_charge(Pool::Evaluation, 25 * MIB).unwrap();
        let messages = [1, 2].map(|count| {
            let (budget, own) = (Arc::clone(&budget), Arc::clone(&budget));
            let wait = Duration::from_secs(10);
            let message = std::thread::spawn(move || {
                own.charge_within(Pool::Requests, 20 * MIB, wait, &mut || Patience::Limited)
            });
            until(|| budget.queue.lock().messages.len() == count);
            message
        });
        let later = ask(&budget, 20 * MIB);
        until(|| waiting(&budget) == 1);
        drop(first);
        for message in messages {
            assert!(message.join().unwrap().is_some());
        }
        drop(held);
        assert!(later.join().unwrap().is_some());
    }

    #[test]
    fn requests_do_not_wait_for_a_message_whose_pool_is_full() {
        let budget = Budget::new(100 * MIB);
        let full = budget.try_charge(Pool::Requests, 20 * MIB).unwrap();
        let message = std::thread::spawn({
            let (budget, wait) = (Arc::clone(&budget), Duration::from_secs(60));
            move || budget.charge_within(Pool::Requests, 20 * MIB, wait, &mut || Patience::Limited)
        });
        until(|| budget.has_waiting());
        assert!(ask(&budget, 10 * MIB).join().unwrap().is_some());
        drop(full);
        assert!(message.join().unwrap().is_some());
    }

    #[test]
    fn one_that_holds_memory_waits_for_messages_of_others() {
        let budget = Budget::new(100 * MIB);
        let message = budget.try_charge(Pool::Requests, budget.demand_max() - 10 * MIB).unwrap();
        let request = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                let mut charge = Charge::empty(&budget, Pool::Evaluation);
                assert!(charge.grow_in_line(5 * MIB, None));
                charge.grow_in_line(20 * MIB, None)
            }
        });
        until(|| waiting(&budget) == 1 || request.is_finished());
        drop(message);
        assert!(request.join().unwrap());
    }

    #[test]
    fn a_message_waits_beyond_its_limits_while_it_is_told_so() {
        let budget = Budget::new(100 * MIB);
        let _full = budget.try_charge(Pool::Requests, budget.limit(Pool::Requests)).unwrap();
        let mut told = [Patience::Unlimited, Patience::Unlimited, Patience::Limited].into_iter();
        let mut go_on = || told.next().unwrap_or(Patience::Limited);
        let wait = Duration::from_nanos(1);
        assert!(budget.charge_within(Pool::Requests, 5 * MIB, wait, &mut go_on).is_none());
        assert_eq!(told.next(), None, "it was told each time");
        let mut ends = || Patience::Ended;
        let wait = Duration::from_secs(3600);
        assert!(budget.charge_within(Pool::Requests, 5 * MIB, wait, &mut ends).is_none());
    }

    #[test]
    fn one_that_holds_memory_does_not_wait_for_its_own_message() {
        let budget = Budget::new(100 * MIB);
        let request = |budget: &Arc<Budget>, message: u64, first: u64| {
            let message = budget.try_charge(Pool::Requests, message);
            let mut charge = Charge::empty(budget, Pool::Evaluation);
            let first = first == 0 || charge.grow_in_line(first, None);
            (message.filter(|_| first).unwrap(), charge)
        };
        let (_message, mut charge) = request(&budget, 5 * MIB, 15 * MIB);
        // It waits behind this one, and its message is not released before.
        let behind = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                let (_message, mut charge) = request(&budget, 10 * MIB, 0);
                charge.grow_in_line(16 * MIB, Some(&mut || true))
            }
        });
        until(|| waiting(&budget) == 1);
        let begun = Instant::now();
        assert!(!charge.grow_in_line(35 * MIB, Some(&mut || true)));
        assert!(begun.elapsed() < STALL_MAX / 2, "none of those that wait releases anything");
        drop(charge);
        assert!(behind.join().unwrap());
    }

    #[test]
    fn who_is_told_to_end_leaves_the_line() {
        let budget = Budget::new(100 * MIB);
        let _full = budget.try_charge(Pool::Evaluation, budget.limit(Pool::Evaluation)).unwrap();
        let mut charge = Charge::empty(&budget, Pool::Evaluation);
        assert!(!charge.grow_in_line(MIB, Some(&mut || false)));
        let state = budget.pool(Pool::Evaluation);
        assert_eq!((waiting(&budget), state.waited, state.refused), (0, 1, 1));
        let mut asked = || panic!("what can never fit does not wait");
        assert!(!charge.grow_in_line(budget.demand_max() + 1, Some(&mut asked)));
        assert!(!budget.has_waiting());
    }
}
