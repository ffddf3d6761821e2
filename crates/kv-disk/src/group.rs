//! Group commit: whoever finds the commit path busy leaves its writes to the one who is in it.
//!
//!   first comer   leads: writes its own transaction and those in the line, in one batch, one log record;
//!                 then those who lined up meanwhile, a few times
//!   others        try a few times to be the next to lead, then line up and sleep until they are told
//!                 their stamp, or to lead
//!
//! A plain lock would do for order, but a lock that lets newcomers pass makes a few threads fast and
//! the sleeping ones wait for milliseconds; here whoever passes writes for those who sleep.
//!
//! Does not know about: any engine, stamps. Invariant: while anyone waits, somebody leads or was told to.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use nagi_kv::{Error, Result, overlay::SharedOverlay};

/// Bytes of the transactions a leader takes along; a bigger one goes in a group of its own, which its own thread
/// leads.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// How often a newcomer tries to lead before it lines up, a little longer each time: a group takes
/// microseconds, to sleep and be woken costs more. It does not yield: on a busy machine that waits
/// for every other thread's turn.
const TRY_COUNT: u32 = 6;
/// Groups that a leader writes after its own before another one takes over.
const MORE_GROUPS_MAX: usize = 8;

/// Writes a transaction and those of others as one group; the group's first stamp.
pub type WriteGroup<'w> = &'w mut dyn FnMut(Option<&SharedOverlay>, &[Arc<Waiter>]) -> Result<u64>;

#[derive(Default)]
pub struct Group {
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    led: bool,
    waiting: Vec<Arc<Waiter>>,
}

/// A transaction in the line.
pub struct Waiter {
    pub overlay: SharedOverlay,
    bytes: usize,
    turn: Mutex<Turn>,
    told: Condvar,
}

enum Turn {
    Waits,
    Leads,
    Done(Result<u64>),
}

/// How a commit continues.
pub enum Part<'g> {
    /// Write, for everybody.
    Lead(Leader<'g>),
    /// Somebody has written it.
    Done(Result<u64>),
}

impl Group {
    /// Lines up. Returns when the transaction was written by another, or is to be written here.
    pub fn join(&self, overlay: &SharedOverlay, bytes: usize) -> Part<'_> {
        // Leading or joining the group, and leaving it.
        nagi_percore::note_shared("group of commits", 4);
        for attempt in 0..TRY_COUNT {
            if let Some(mut line) = self.line.try_lock()
                && !line.led
            {
                line.led = true;
                return Part::Lead(self.leader(&mut line, bytes));
            }
            (0..4 << attempt).for_each(|_| std::hint::spin_loop());
        }
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

    /// Commits a transaction: leaves it to another, or writes it here with `write` and then groups of
    /// others. `write` gets the own transaction, if it is the group's, and the others; it returns the
    /// group's first stamp. Returns the own transaction's stamp.
    pub fn commit(
        &self,
        overlay: &SharedOverlay,
        bytes: usize,
        write: WriteGroup<'_>,
    ) -> Result<u64> {
        match self.join(overlay, bytes) {
            Part::Done(result) => result,
            Part::Lead(mut leader) => {
                let result = write(Some(overlay), leader.followers());
                leader.tell(&result);
                while leader.next_group() {
                    let others = write(None, leader.followers());
                    leader.tell(&others);
                }
                result
            }
        }
    }

    fn leader(&self, line: &mut Line, bytes: usize) -> Leader<'_> {
        let followers = line.take(bytes);
        Leader { group: self, followers, own: 1, more: MORE_GROUPS_MAX, results: Vec::new() }
    }
}

impl Line {
    /// Takes what fits beside `bytes`, past those that do not: a small transaction waits for one large one at most,
    /// however many there are. The first in the line leads next, so each of those that are passed has its turn.
    fn take(&mut self, mut bytes: usize) -> Vec<Arc<Waiter>> {
        let fits = |waiter: &mut Arc<Waiter>| {
            let with = bytes.saturating_add(waiter.bytes);
            let fits = with <= GROUP_BYTES_MAX;
            if fits {
                bytes = with;
            }
            fits
        };
        self.waiting.extract_if(.., fits).collect()
    }
}

/// The right to write, and the duty to tell the others. Dropped without `tell` (a panic), it tells
/// them that no one knows what became of their writes.
pub struct Leader<'g> {
    group: &'g Group,
    followers: Vec<Arc<Waiter>>,
    /// Whether the leader's own transaction is the first of the group: 1 or 0.
    own: u64,
    /// Groups it may still write for others.
    more: usize,
    /// Told when the path is free again: to wake somebody takes as long as to write for him.
    results: Vec<(Arc<Waiter>, Result<u64>)>,
}

impl Leader<'_> {
    /// The transactions to be written, after the leader's own in the first group, in this order.
    pub fn followers(&self) -> &[Arc<Waiter>] {
        &self.followers
    }

    /// Takes those who lined up meanwhile, if it has not written enough for others.
    pub fn next_group(&mut self) -> bool {
        if self.more == 0 {
            return false;
        }
        (self.own, self.more) = (0, self.more - 1);
        self.followers = self.group.line.lock().take(0);
        !self.followers.is_empty()
    }

    /// Notes each follower's result: `first` is the first stamp of the group, the others follow on.
    /// They are told when the leader is dropped.
    pub fn tell(&mut self, result: &Result<u64>) {
        for (stamp, waiter) in (self.own..).zip(self.followers.drain(..)) {
            let own = match result {
                Ok(first) => Ok(first + stamp),
                Err(error) => Err(copy(error)),
            };
            self.results.push((waiter, own));
        }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let given_up = || Err(Error::Undetermined);
        self.results.extend(self.followers.drain(..).map(|waiter| (waiter, given_up())));
        let mut line = self.group.line.lock();
        if line.waiting.is_empty() {
            line.led = false;
            drop(line);
        } else {
            let next = line.waiting.remove(0);
            drop(line);
            next.tell(Turn::Leads);
        }
        for (waiter, result) in self.results.drain(..) {
            waiter.tell(Turn::Done(result));
        }
    }
}

impl Waiter {
    /// Returns when it is this one's turn to lead, or with what the leader says.
    fn wait(&self) -> std::result::Result<(), Result<u64>> {
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
        Error::MemoryFull => Error::MemoryFull,
        Error::Undetermined => Error::Undetermined,
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
            Part::Lead(mut leader) => {
                let write = |leader: &mut Leader<'_>, own: u64| {
                    let count = leader.followers().len() as u64 + own;
                    sizes.lock().push(count as usize);
                    let first = stamp.fetch_add(count, std::sync::atomic::Ordering::SeqCst);
                    leader.tell(&Ok(first));
                    first
                };
                let first = write(&mut leader, 1);
                while leader.next_group() {
                    write(&mut leader, 0);
                }
                first
            }
        }
    }

    #[test]
    fn those_who_wait_go_in_one_batch_and_each_gets_its_own_stamp() {
        let (group, sizes, stamp) = (Group::default(), Mutex::default(), AtomicU64::new(11));
        let mut first = leader(&group);
        let mut stamps: Vec<u64> = thread::scope(|scope| {
            let others: Vec<_> =
                (0..5).map(|_| scope.spawn(|| commit(&group, 1, &sizes, &stamp))).collect();
            lined_up(&group, 5);
            first.tell(&Ok(10));
            drop(first);
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
        let mut first = leader(&group);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| commit(&group, GROUP_BYTES_MAX, &sizes, &stamp));
            }
            lined_up(&group, 3);
            first.tell(&Ok(0));
            drop(first);
        });
        assert_eq!(*sizes.lock(), [1, 1, 1]);
    }

    #[test]
    fn small_transactions_pass_large_ones_and_large_ones_have_their_turn() {
        let group = Group::default();
        let order = Mutex::new(Vec::new());
        let write = |size: usize| match group.join(&overlay(), size) {
            Part::Done(result) => drop(result.expect("nothing fails")),
            Part::Lead(mut leader) => {
                let note = |leader: &Leader<'_>, own: Option<usize>| {
                    let others = leader.followers().iter().map(|waiter| waiter.bytes);
                    order.lock().push(own.into_iter().chain(others).collect::<Vec<_>>());
                };
                note(&leader, Some(size));
                leader.tell(&Ok(1));
                while leader.next_group() {
                    note(&leader, None);
                    leader.tell(&Ok(1));
                }
            }
        };
        let large = 2 * GROUP_BYTES_MAX;
        let mut first = leader(&group);
        thread::scope(|scope| {
            let write = &write;
            for (count, size) in [large, large, 10, large, 20].into_iter().enumerate() {
                scope.spawn(move || write(size));
                lined_up(&group, count + 1);
            }
            first.tell(&Ok(0));
            drop(first);
        });
        assert_eq!(*order.lock(), [vec![large], vec![10, 20], vec![large], vec![large]]);
        assert!(!group.line.lock().led);
    }

    #[test]
    fn an_error_reaches_the_whole_group() {
        let group = Group::default();
        let mut first = leader(&group);
        let results: Vec<_> = thread::scope(|scope| {
            let join = || match group.join(&overlay(), 1) {
                Part::Lead(mut leader) => {
                    leader.tell(&Err(Error::Full));
                    Err(Error::Full)
                }
                Part::Done(result) => result,
            };
            let others: Vec<_> = (0..3).map(|_| scope.spawn(join)).collect();
            lined_up(&group, 3);
            first.tell(&Ok(1));
            drop(first);
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
