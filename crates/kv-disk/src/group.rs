//! Group commit: a thread that finds the commit path busy leaves its writes to the thread that is in it.
//!
//! ```text
//!   A  try_lock: leads | writes A | writes B, C | unlock, wakes D, tells B and C their stamps
//!   B      busy: queues, sleeps ................. | done
//!   C        busy: queues, sleeps ............... | done
//!   D                              queues, sleeps .......... | locks: leads | writes D, ...
//! ```
//!
//! The right to lead is the commit lock itself. The leader writes its own transaction and the queued ones in one batch
//! with one log record, then the transactions that were queued meanwhile, a few times. Other threads try a few times
//! to lead, then queue their transaction and sleep until they receive its stamp, or learn that the lock is free.
//!
//! A plain lock would give the same order, but a lock that newcomers can take before sleeping threads makes a few
//! threads fast and lets the others wait for milliseconds. Here a newcomer that gets the lock writes for those that
//! sleep.
//!
//! Invariant: a transaction is in the queue only while some thread holds the lock or was woken to take it. A thread
//! queues its transaction and then reads the lock; a holder unlocks and then reads the queue. With a fence in between
//! on both sides at least one of them sees the other.
//!
//! Cost: two writes of shared memory for a commit that finds the path free.
//!
//! Used by the engines on disk; `S` is the state that the lock protects, `P` what a transaction brings.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst, fence},
    },
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use nagi_kv::{Error, Result};

/// Bytes of the transactions that a leader writes together; a larger one is written in a group of its own, which its
/// own thread leads.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// Number of attempts of a newcomer to lead before it queues its transaction, with growing pauses: a group takes
/// microseconds, to sleep and be woken costs more. It does not yield, because on a busy machine a yield waits for the
/// turns of all other threads.
const TRY_COUNT: u32 = 6;
/// Number of groups that a leader writes after its own before another thread takes over.
const MORE_GROUPS_MAX: usize = 8;

/// Writes the leader's own transaction, if it is part of the group, and those of others, in this order. Returns the
/// stamp of the own one, and sets those of the others ([`Waiter::set_stamp`]).
pub type WriteGroup<'w, S, P> =
    &'w mut dyn FnMut(&mut S, Option<&P>, &[Arc<Waiter<P>>]) -> Result<u64>;

/// The commit path of an engine.
pub struct Group<S, P> {
    state: Mutex<S>,
    line: Mutex<Vec<Arc<Waiter<P>>>>,
    /// Length of the queue.
    waiting: AtomicUsize,
}

/// A queued transaction.
pub struct Waiter<P> {
    pub payload: P,
    /// Its stamp, once it was written.
    stamp: AtomicU64,
    bytes: usize,
    turn: Mutex<Turn>,
    told: Condvar,
}

enum Turn {
    Waits,
    /// The lock was free.
    Woken,
    Done(Result<u64>),
}

/// The state behind the commit lock. No transaction is written while it is held.
pub struct Held<'g, S, P> {
    group: &'g Group<S, P>,
    /// None while it is being dropped.
    state: Option<MutexGuard<'g, S>>,
}

impl<S, P> Group<S, P> {
    pub fn new(state: S) -> Group<S, P> {
        let (line, waiting) = (Mutex::default(), AtomicUsize::new(0));
        Group { state: Mutex::new(state), line, waiting }
    }

    /// Takes the commit lock.
    pub fn lock(&self) -> Held<'_, S, P> {
        Held { group: self, state: Some(self.state.lock()) }
    }

    fn try_lock(&self) -> Option<Held<'_, S, P>> {
        Some(Held { group: self, state: Some(self.state.try_lock()?) })
    }

    /// Commits a transaction of `bytes` bytes: leaves it to another thread, or writes it here with `write`, and then
    /// groups of others. Returns the transaction's stamp.
    pub fn commit(&self, payload: P, bytes: usize, write: WriteGroup<'_, S, P>) -> Result<u64> {
        // Taken and released; other threads try it in between.
        nagi_percore::note_shared("commit lock", 2, 2);
        for attempt in 0..TRY_COUNT {
            if let Some(held) = self.try_lock() {
                return self.lead(held, &payload, bytes, write);
            }
            (0..4 << attempt).for_each(|_| std::hint::spin_loop());
        }
        nagi_percore::note_shared("line of commits", 2, 4);
        let (turn, told) = (Mutex::new(Turn::Waits), Condvar::new());
        let waiter = Arc::new(Waiter { payload, stamp: AtomicU64::new(0), bytes, turn, told });
        self.line_up(&waiter);
        loop {
            if let Some(done) = waiter.wait() {
                return done;
            }
            let held = self.lock();
            // Another thread that had the lock in between may have written it; then the result is on its way.
            if self.leave_line(&waiter) {
                return self.lead(held, &waiter.payload, bytes, write);
            }
        }
    }

    fn line_up(&self, waiter: &Arc<Waiter<P>>) {
        {
            let mut line = self.line.lock();
            line.push(Arc::clone(waiter));
            self.waiting.store(line.len(), SeqCst);
        }
        fence(SeqCst);
        self.wake_next();
    }

    /// Removes the transaction from the queue; false if a leader has taken it.
    fn leave_line(&self, waiter: &Arc<Waiter<P>>) -> bool {
        let mut line = self.line.lock();
        let at = line.iter().position(|other| Arc::ptr_eq(other, waiter));
        if let Some(at) = at {
            line.remove(at);
            self.waiting.store(line.len(), SeqCst);
        }
        at.is_some()
    }

    /// Wakes the first in the queue, unless a thread holds the lock: that one does it when it unlocks.
    fn wake_next(&self) {
        if self.waiting.load(SeqCst) == 0 || self.state.is_locked() {
            return;
        }
        let first = self.line.lock().first().cloned();
        if let Some(first) = first {
            first.wake();
        }
    }

    /// Takes transactions that fit beside `bytes` from the queue, past those that do not: a small transaction waits
    /// for one large one at most, however many there are. The first in the queue leads next, so each of those that
    /// are passed has its turn.
    fn take(&self, mut bytes: usize) -> Vec<Arc<Waiter<P>>> {
        if self.waiting.load(SeqCst) == 0 {
            return Vec::new();
        }
        let fits = |waiter: &mut Arc<Waiter<P>>| {
            let with = bytes.saturating_add(waiter.bytes);
            let fits = with <= GROUP_BYTES_MAX;
            if fits {
                bytes = with;
            }
            fits
        };
        let mut line = self.line.lock();
        let taken = line.extract_if(.., fits).collect();
        self.waiting.store(line.len(), SeqCst);
        taken
    }

    fn lead(
        &self,
        held: Held<'_, S, P>,
        own: &P,
        bytes: usize,
        write: WriteGroup<'_, S, P>,
    ) -> Result<u64> {
        // Dropped after the lock: to wake a thread takes as long as to write for it.
        let mut others = Others { followers: self.take(bytes), results: Vec::new() };
        let mut held = held;
        let result = write(&mut held, Some(own), &others.followers);
        others.note(&result);
        for _ in 0..MORE_GROUPS_MAX {
            others.followers = self.take(0);
            if others.followers.is_empty() {
                break;
            }
            let result = write(&mut held, None, &others.followers);
            others.note(&result);
        }
        result
    }
}

impl<S, P> Deref for Held<'_, S, P> {
    type Target = S;

    fn deref(&self) -> &S {
        self.state.as_ref().expect("taken by `drop` only")
    }
}

impl<S, P> DerefMut for Held<'_, S, P> {
    fn deref_mut(&mut self) -> &mut S {
        self.state.as_mut().expect("taken by `drop` only")
    }
}

impl<S, P> Drop for Held<'_, S, P> {
    fn drop(&mut self) {
        drop(self.state.take());
        fence(SeqCst);
        self.group.wake_next();
    }
}

/// The transactions that a leader writes for others, and their results. When it is dropped they are told; those
/// without a result, after a panic, that it is not known what became of their writes.
struct Others<P> {
    followers: Vec<Arc<Waiter<P>>>,
    results: Vec<(Arc<Waiter<P>>, Result<u64>)>,
}

impl<P> Others<P> {
    /// Notes the followers' results; `result` is that of the group.
    fn note(&mut self, result: &Result<u64>) {
        for waiter in self.followers.drain(..) {
            let own = match result {
                Ok(_) => Ok(waiter.stamp.load(SeqCst)),
                Err(error) => Err(copy(error)),
            };
            self.results.push((waiter, own));
        }
    }
}

impl<P> Drop for Others<P> {
    fn drop(&mut self) {
        for waiter in self.followers.drain(..) {
            waiter.tell(Turn::Done(Err(Error::Undetermined)));
        }
        for (waiter, result) in self.results.drain(..) {
            waiter.tell(Turn::Done(result));
        }
    }
}

impl<P> Waiter<P> {
    /// The stamp of its transaction.
    pub fn set_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, SeqCst);
    }

    /// Sleeps until the transaction is written, or until the lock may be taken (none).
    fn wait(&self) -> Option<Result<u64>> {
        let mut turn = self.turn.lock();
        loop {
            match std::mem::replace(&mut *turn, Turn::Waits) {
                Turn::Waits => self.told.wait(&mut turn),
                Turn::Woken => return None,
                Turn::Done(result) => return Some(result),
            }
        }
    }

    fn wake(&self) {
        let mut turn = self.turn.lock();
        if matches!(*turn, Turn::Waits) {
            *turn = Turn::Woken;
            self.told.notify_one();
        }
    }

    fn tell(&self, done: Turn) {
        *self.turn.lock() = done;
        self.told.notify_one();
    }
}

/// A copy of the error for another transaction of the group.
fn copy(error: &Error) -> Error {
    match error {
        Error::Conflict => Error::Conflict,
        Error::SnapshotTooOld => Error::SnapshotTooOld,
        Error::Full => Error::Full,
        Error::MemoryFull => Error::MemoryFull,
        Error::NoMemory => Error::NoMemory,
        Error::Undetermined => Error::Undetermined,
        Error::TakenOver => Error::TakenOver,
        Error::Interrupted => Error::Interrupted,
        Error::KeyTooLong(bytes, most) => Error::KeyTooLong(*bytes, *most),
        Error::Unreachable(what) => Error::Unreachable(what.clone()),
        Error::Corrupt(what) => Error::Corrupt(what.clone()),
        Error::Io(error) => Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// What the lock protects in these tests: the next stamp, and the groups that were written.
    #[derive(Default)]
    struct Written {
        next: u64,
        groups: Vec<Vec<usize>>,
    }

    type TestGroup = Group<Written, usize>;

    fn group() -> TestGroup {
        Group::new(Written::default())
    }

    fn write(
        state: &mut Written,
        own: Option<&usize>,
        followers: &[Arc<Waiter<usize>>],
    ) -> Result<u64> {
        let others = followers.iter().map(|waiter| waiter.payload);
        let group: Vec<usize> = own.copied().into_iter().chain(others).collect();
        let first = state.next;
        state.next += group.len() as u64;
        state.groups.push(group);
        for (waiter, stamp) in followers.iter().zip(first + u64::from(own.is_some())..) {
            waiter.set_stamp(stamp);
        }
        Ok(first)
    }

    /// Commits a transaction of so many bytes.
    fn commit(group: &TestGroup, bytes: usize) -> u64 {
        group.commit(bytes, bytes, &mut write).expect("nothing fails")
    }

    /// Waits until `count` transactions are queued.
    fn lined_up(group: &TestGroup, count: usize) {
        while group.line.lock().len() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn transactions_in_the_line_are_written_together_and_each_gets_its_own_stamp() {
        let group = group();
        let held = group.lock();
        let mut stamps: Vec<u64> = thread::scope(|scope| {
            let others: Vec<_> = (0..5).map(|_| scope.spawn(|| commit(&group, 1))).collect();
            lined_up(&group, 5);
            drop(held);
            others.into_iter().map(|other| other.join().expect("does not panic")).collect()
        });
        stamps.sort_unstable();
        assert_eq!(stamps, [0, 1, 2, 3, 4]);
        assert_eq!(group.lock().groups, [[1; 5]]);
        assert_eq!(group.waiting.load(SeqCst), 0);
    }

    #[test]
    fn a_group_is_bounded_in_bytes() {
        let group = group();
        let held = group.lock();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| commit(&group, GROUP_BYTES_MAX));
            }
            lined_up(&group, 3);
            drop(held);
        });
        assert_eq!(group.lock().groups, [[GROUP_BYTES_MAX]; 3]);
    }

    #[test]
    fn small_transactions_pass_large_ones_and_large_ones_have_their_turn() {
        let group = group();
        let large = 2 * GROUP_BYTES_MAX;
        let held = group.lock();
        thread::scope(|scope| {
            let group = &group;
            for (count, size) in [large, large, 10, large, 20].into_iter().enumerate() {
                scope.spawn(move || commit(group, size));
                lined_up(group, count + 1);
            }
            drop(held);
        });
        assert_eq!(group.lock().groups, [vec![large], vec![10, 20], vec![large], vec![large]]);
    }

    #[test]
    fn an_error_reaches_the_whole_group() {
        let group = group();
        let held = group.lock();
        let results: Vec<_> = thread::scope(|scope| {
            let fail = || group.commit(1, 1, &mut |_, _, _| Err(Error::Full));
            let others: Vec<_> = (0..3).map(|_| scope.spawn(fail)).collect();
            lined_up(&group, 3);
            drop(held);
            others.into_iter().map(|other| other.join().expect("does not panic")).collect()
        });
        assert!(results.iter().all(|result| matches!(result, Err(Error::Full))));
    }

    #[test]
    fn after_a_panic_others_are_told_and_the_next_one_leads() {
        let group = group();
        let held = group.lock();
        thread::scope(|scope| {
            let panics = || group.commit(1, 1, &mut |_, _, _| panic!("in the middle of a write"));
            let first = scope.spawn(panics);
            lined_up(&group, 1);
            let second = scope.spawn(|| group.commit(2, 2, &mut write));
            lined_up(&group, 2);
            let large = scope.spawn(|| commit(&group, GROUP_BYTES_MAX));
            lined_up(&group, 3);
            drop(held);
            assert!(first.join().is_err());
            assert!(matches!(second.join().expect("told"), Err(Error::Undetermined)));
            assert_eq!(large.join().expect("leads"), 0);
        });
    }

    #[test]
    fn no_thread_sleeps_while_the_lock_is_free() {
        const COMMITS: usize = 20_000;
        let group = group();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..COMMITS).for_each(|_| _ = commit(&group, 1)));
            }
            // Work that is no commit takes the lock as well.
            scope.spawn(|| (0..COMMITS).for_each(|_| drop(group.lock())));
        });
        let held = group.lock();
        assert_eq!(held.next, 4 * COMMITS as u64);
        assert_eq!(held.groups.iter().map(Vec::len).sum::<usize>(), 4 * COMMITS);
    }
}
