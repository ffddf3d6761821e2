//! Group commit: whoever finds the commit path busy leaves its writes to the one who is in it.
//!
//!   first comer   leads: writes its own transaction and those that wait, in one batch, one log record
//!   others        line up and sleep until they are told their stamp, or to lead the next group
//!
//! A plain lock would do for order, but a lock that lets newcomers pass makes a few threads fast and
//! the sleeping ones wait for milliseconds; here everyone who waits is in the next batch.
//!
//! Does not know about: RocksDB, stamps. Invariant: while anyone waits, somebody leads or was told to.

use std::sync::Arc;

use nagi_kv::{Error, Result, overlay::SharedOverlay};
use parking_lot::{Condvar, Mutex};

/// Bytes of the transactions a leader takes along; a bigger one goes in a group of its own.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// How often a waiter lets others run before it sleeps: most groups are written meanwhile, and to be
/// woken costs more than the commit.
const YIELD_COUNT: usize = 16;

#[derive(Default)]
pub(crate) struct Group {
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    led: bool,
    waiting: Vec<Arc<Waiter>>,
}

/// A transaction in the line.
pub(crate) struct Waiter {
    pub(crate) overlay: SharedOverlay,
    bytes: usize,
    turn: Mutex<Turn>,
    told: Condvar,
}

enum Turn {
    Waits,
    Leads,
    Done(Result<u64>),
}

/// How a commit goes on.
pub(crate) enum Part<'g> {
    /// Write, for everybody.
    Lead(Leader<'g>),
    /// Somebody has written it.
    Done(Result<u64>),
}

impl Group {
    /// Lines up. Returns when the transaction was written by another, or is to be written here.
    pub(crate) fn join(&self, overlay: &SharedOverlay, bytes: usize) -> Part<'_> {
        let waiter = {
            let mut line = self.line.lock();
            if !line.led {
                line.led = true;
                return Part::Lead(self.leader(&mut line, bytes));
            }
            let waiter = Arc::new(Waiter {
                overlay: Arc::clone(overlay),
                bytes,
                turn: Mutex::new(Turn::Waits),
                told: Condvar::new(),
            });
            line.waiting.push(Arc::clone(&waiter));
            waiter
        };
        match waiter.wait() {
            Ok(()) => Part::Lead(self.leader(&mut self.line.lock(), bytes)),
            Err(done) => Part::Done(done),
        }
    }

    /// Takes along from the front of the line what fits beside `bytes`.
    fn leader(&self, line: &mut Line, mut bytes: usize) -> Leader<'_> {
        let fits = |waiter: &Arc<Waiter>| {
            bytes = bytes.saturating_add(waiter.bytes);
            bytes <= GROUP_BYTES_MAX
        };
        let count = line.waiting.iter().map(fits).take_while(|fits| *fits).count();
        Leader { group: self, followers: line.waiting.drain(..count).collect() }
    }
}

/// The right to write, and the duty to tell the others. Dropped without `tell` (a panic), it tells
/// them that nobody knows what became of their writes.
pub(crate) struct Leader<'g> {
    group: &'g Group,
    followers: Vec<Arc<Waiter>>,
}

impl Leader<'_> {
    /// The transactions to be written after the leader's own, in this order.
    pub(crate) fn followers(&self) -> &[Arc<Waiter>] {
        &self.followers
    }

    /// Tells each follower its result: `first` is the leader's own stamp, the others follow on.
    pub(crate) fn tell(mut self, result: &Result<u64>) {
        for (stamp, waiter) in (1..).zip(self.followers.drain(..)) {
            waiter.tell(Turn::Done(match result {
                Ok(first) => Ok(first + stamp),
                Err(error) => Err(copy(error)),
            }));
        }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        for waiter in self.followers.drain(..) {
            waiter.tell(Turn::Done(Err(Error::other("the commit was given up half-way"))));
        }
        let mut line = self.group.line.lock();
        if line.waiting.is_empty() {
            line.led = false;
        } else {
            let next = line.waiting.remove(0);
            drop(line);
            next.tell(Turn::Leads);
        }
    }
}

impl Waiter {
    /// Returns when it is this one's turn to lead, or with what the leader says.
    fn wait(&self) -> std::result::Result<(), Result<u64>> {
        for _ in 0..YIELD_COUNT {
            if !matches!(*self.turn.lock(), Turn::Waits) {
                break;
            }
            std::thread::yield_now();
        }
        let mut turn = self.turn.lock();
        loop {
            match std::mem::replace(&mut *turn, Turn::Waits) {
                Turn::Waits => self.told.wait(&mut turn),
                Turn::Leads => return Ok(()),
                Turn::Done(result) => return Err(result),
            }
        }
    }

    fn tell(&self, turn: Turn) {
        *self.turn.lock() = turn;
        self.told.notify_one();
    }
}

/// The same error for one more transaction of the group.
fn copy(error: &Error) -> Error {
    match error {
        Error::Conflict => Error::Conflict,
        Error::SnapshotTooOld => Error::SnapshotTooOld,
        Error::Full => Error::Full,
        Error::Corrupt(what) => Error::Corrupt(what.clone()),
        Error::Io(error) => Error::other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU64, thread};

    use super::*;

    fn overlay() -> SharedOverlay {
        SharedOverlay::default()
    }

    fn leader(group: &Group) -> Leader<'_> {
        match group.join(&overlay(), 1) {
            Part::Lead(leader) => leader,
            Part::Done(_) => panic!("nobody else is there"),
        }
    }

    /// Waits until `count` transactions are in the line.
    fn lined_up(group: &Group, count: usize) {
        while group.line.lock().waiting.len() < count {
            thread::yield_now();
        }
    }

    fn commit(group: &Group, bytes: usize, sizes: &Mutex<Vec<usize>>, stamp: &AtomicU64) -> u64 {
        match group.join(&overlay(), bytes) {
            Part::Done(result) => result.expect("nothing fails"),
            Part::Lead(leader) => {
                let count = leader.followers().len() as u64 + 1;
                sizes.lock().push(count as usize);
                let first = stamp.fetch_add(count, std::sync::atomic::Ordering::SeqCst);
                leader.tell(&Ok(first));
                first
            }
        }
    }

    #[test]
    fn those_who_wait_go_in_one_batch_and_each_gets_its_own_stamp() {
        let (group, sizes, stamp) = (Group::default(), Mutex::default(), AtomicU64::new(11));
        let first = leader(&group);
        let mut stamps: Vec<u64> = thread::scope(|scope| {
            let others: Vec<_> =
                (0..5).map(|_| scope.spawn(|| commit(&group, 1, &sizes, &stamp))).collect();
            lined_up(&group, 5);
            first.tell(&Ok(10));
            others.into_iter().map(|other| other.join().expect("does not panic")).collect()
        });
        stamps.sort_unstable();
        assert_eq!(stamps, [11, 12, 13, 14, 15]);
        assert_eq!(*sizes.lock(), [5]);
        assert!(!group.line.lock().led);
    }

    #[test]
    fn a_group_is_bounded_in_bytes() {
        let (group, sizes, stamp) = (Group::default(), Mutex::default(), AtomicU64::new(1));
        let first = leader(&group);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| commit(&group, GROUP_BYTES_MAX, &sizes, &stamp));
            }
            lined_up(&group, 3);
            first.tell(&Ok(0));
        });
        assert_eq!(*sizes.lock(), [1, 1, 1]);
    }

    #[test]
    fn an_error_reaches_the_whole_group() {
        let group = Group::default();
        let first = leader(&group);
        let results: Vec<_> = thread::scope(|scope| {
            let join = || match group.join(&overlay(), 1) {
                Part::Lead(leader) => {
                    leader.tell(&Err(Error::Full));
                    Err(Error::Full)
                }
                Part::Done(result) => result,
            };
            let others: Vec<_> = (0..3).map(|_| scope.spawn(join)).collect();
            lined_up(&group, 3);
            first.tell(&Ok(1));
            others.into_iter().map(|other| other.join().expect("does not panic")).collect()
        });
        assert!(results.iter().all(|result| matches!(result, Err(Error::Full))));
    }

    #[test]
    fn a_leader_that_gives_up_leaves_the_line_to_the_next() {
        let (group, sizes, stamp) = (Group::default(), Mutex::default(), AtomicU64::new(7));
        let first = leader(&group);
        let stamp = thread::scope(|scope| {
            let next = scope.spawn(|| commit(&group, 1, &sizes, &stamp));
            lined_up(&group, 1);
            drop(first); // as a panic would
            next.join().expect("does not panic")
        });
        assert_eq!((stamp, group.line.lock().led), (7, false));
    }
}
