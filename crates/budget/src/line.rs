//! Who waits for room, in the order of their coming, and who holds some, in the order of theirs.
//!
//! A request that holds nothing yet stands in line; only who is at the front asks, so that one that needs much
//! is not passed for ever by many that need little. Little may pass for a moment ([`PASS_TIME`]).
//! A request that holds something waits only if it has held longest: it stands at the front, and whoever came
//! after it and finds no room ends. So nobody waits for another who waits for it, and one of them all gets on.
//!
//! Who waits goes on waiting while room is given back, at most [`WAIT_MAX`].

use std::{
    collections::{BTreeSet, VecDeque},
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{Budget, Pool, budget::LOOK_AROUND};

/// Longest wait of a request that may be told to end meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Longest wait in which nobody gives anything back that matters; also of a request that cannot be told to end.
const STALL_MAX: Duration = Duration::from_secs(10);
/// So much given back at once is a sign that others get on.
const PROGRESS_BYTES: u64 = 1 << 20;
/// So much passes those who wait, until the first of them has waited this long.
const PASS_BYTES: u64 = 2 << 20;
const PASS_TIME: Duration = Duration::from_secs(1);
/// Each of those who wait may have a ticket for the storage that small requests need: others end at once.
const WAITING_MAX: usize = 64;

/// Those who wait, by number, with the time they came.
#[derive(Debug, Default)]
pub(crate) struct Line {
    next: u64,
    waiting: VecDeque<(u64, Instant)>,
}

impl Line {
    fn join(&mut self, at_front: bool) -> u64 {
        self.next += 1;
        let place = (self.next, Instant::now());
        match at_front {
            true => self.waiting.push_front(place),
            false => self.waiting.push_back(place),
        }
        self.next
    }

    fn leave(&mut self, number: u64) {
        self.waiting.retain(|(other, _)| *other != number);
    }

    fn is_first(&self, number: u64) -> bool {
        self.waiting.front().is_some_and(|(first, _)| *first == number)
    }

    /// Whether so many bytes may be asked for by one who is not at the front.
    fn lets_pass(&self, bytes: u64) -> bool {
        match self.waiting.front() {
            Some((_, since)) => bytes <= PASS_BYTES && since.elapsed() < PASS_TIME,
            None => true,
        }
    }
}

/// Those who hold something, by number.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<(u64, BTreeSet<u64>)>);

impl Holders {
    /// One more; its number.
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

    fn is_eldest(&self, number: u64) -> bool {
        self.0.lock().1.first() == Some(&number)
    }
}

/// One that asks for room in line.
pub(crate) struct Asking<'a> {
    pub(crate) pool: Pool,
    pub(crate) bytes: u64,
    /// What it holds of the pool, and its number among the holders.
    pub(crate) own: u64,
    pub(crate) held_since: Option<u64>,
    /// Whether it may be told to end while it waits.
    pub(crate) go_on: Option<&'a mut dyn FnMut() -> bool>,
}

impl Budget {
    /// Asks until there is room; false if it may not wait, or not any longer.
    pub(crate) fn wait_in_line(&self, mut who: Asking<'_>, ask: &mut dyn FnMut() -> bool) -> bool {
        if !self.has_waiting() && ask() {
            return true;
        }
        let mut line = self.queue.lock();
        let eldest = who.held_since.map(|number| self.holders.is_eldest(number));
        if (eldest.is_some() || line.lets_pass(who.bytes)) && ask() {
            return true;
        }
        let never_fits = who.own.saturating_add(who.bytes) > self.demand_max();
        if never_fits || eldest == Some(false) || line.waiting.len() >= WAITING_MAX {
            self.note_refused(who.pool);
            return false;
        }
        self.note_waited(who.pool);
        self.waiting.fetch_add(1, SeqCst);
        let number = line.join(eldest.is_some());
        let until = Instant::now() + if who.go_on.is_some() { WAIT_MAX } else { STALL_MAX };
        let (mut moved, mut freed) = (Instant::now(), self.freed_count());
        let served = loop {
            if (line.is_first(number) || line.lets_pass(who.bytes)) && ask() {
                break true;
            }
            let now = Instant::now();
            if freed != self.freed_count() {
                (moved, freed) = (now, self.freed_count());
            }
            // Nobody else of the pool can give anything back.
            let alone = eldest.is_some() && self.pool(who.pool).used <= who.own;
            let told = who.go_on.as_mut().is_some_and(|go_on| !go_on());
            if alone || told || now >= until || now - moved >= STALL_MAX {
                break false;
            }
            self.freed.wait_for(&mut line, LOOK_AROUND);
        };
        line.leave(number);
        self.waiting.fetch_sub(1, SeqCst);
        if !served {
            self.note_refused(who.pool);
        }
        // The next one is at the front now.
        self.freed.notify_all();
        served
    }

    /// Counts what is given back, for those who wait as long as others get on.
    pub(crate) fn note_freed(&self, bytes: u64) {
        if bytes >= PROGRESS_BYTES {
            self.freed_large.fetch_add(1, SeqCst);
        }
    }

    fn freed_count(&self) -> u64 {
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

    /// Asks for so much in line, on a thread of its own; whether it got it, and what it got.
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
        // Room for the second, not for the first.
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

    #[test]
    fn of_those_who_hold_something_the_eldest_waits_and_the_others_end() {
        let budget = Budget::new(100 * MIB);
        let (told, tell) = channel::<()>();
        let elder = std::thread::spawn({
            let budget = Arc::clone(&budget);
            move || {
                let mut charge = Charge::empty(&budget, Pool::Evaluation);
                assert!(charge.grow_in_line(15 * MIB, None));
                tell.recv().unwrap();
                assert!(charge.grow_in_line(10 * MIB, None), "it waits");
                assert!(
                    !charge.grow_in_line(1000 * MIB, None),
                    "it is alone, nobody can give it more"
                );
            }
        });
        until(|| budget.demand() == 15 * MIB);
        let mut younger = Charge::empty(&budget, Pool::Evaluation);
        assert!(younger.grow_in_line(15 * MIB, None));
        told.send(()).unwrap();
        until(|| waiting(&budget) == 1);
        assert!(!younger.grow_in_line(10 * MIB, Some(&mut || panic!("it does not wait"))));
        drop(younger);
        elder.join().unwrap();
        assert_eq!(budget.demand(), 0);
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
