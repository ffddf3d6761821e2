//! The conflict table: which transaction holds which key, and when each key was last committed.
//!
//! Write conflicts are detected when a key is written, not at commit. A transaction claims a key at its first
//! `put`, `delete` or `lock`, and releases all its keys when it ends. The table has one entry per key hash: the
//! transaction that holds the key, if any, and the stamp of the key's last commit.
//!
//! ```text
//!   claim k at snapshot 10:
//!      held by another transaction      nothing read yet: wait in the queue.   Otherwise: Conflict
//!      free, last committed at 12       Conflict: the snapshot does not contain that commit
//!      free, last committed at 9        claimed
//!
//!   T1  claim k ......... commit at 11, release k (last commit: 11)
//!   T2       claim k: waits, has read nothing ........ gets k, reads at 11
//!   T3            (snapshot 10) claim k: Conflict ............ claim k: Conflict, 11 > 10
//! ```
//!
//! A transaction that has read does not wait: its snapshot cannot contain what the holder is about to commit, so
//! its claim would fail afterwards. A waiting transaction gets the key from its holder, first come, first served.
//! Newcomers cannot overtake it, so clients that all write one key make progress in turn.
//!
//! Invariants
//! - An entry may be dropped once its stamp is not newer than the oldest active snapshot, because no transaction is
//!   left that could conflict with it. A shard removes such entries when it has doubled, so a claim takes constant
//!   time.
//! - At its memory limit a shard drops its older half and remembers the greatest stamp it dropped. Transactions
//!   with an older snapshot get `Conflict` for keys that are not in the table; they can still read.
//! - Two keys with one hash can only cause a conflict that was not necessary. Hashes are seeded per process, so
//!   clients cannot choose colliding keys.
//!
//! Cost: a short lock of one shard per key at claim and at release, and no allocation in the steady state.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
    time::Duration,
};

use crate::{
    Error, Result, Space,
    active::Active,
    sync::{
        HashState, Instant, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::Relaxed},
        thread::{self, Thread},
    },
};

const SHARD_COUNT: usize = 64;
const SWEEP_ENTRIES_MIN: usize = 128;
/// Size of a slot of the hash table; and the size of an entry right after the table has doubled.
const SLOT_BYTES: u64 = 28;
const ENTRY_BYTES: u64 = 64;
/// Interval at which a waiting claim calls `go_on`.
const ASK_EACH: Duration = Duration::from_millis(5);

/// The hash that identifies a key in the table.
pub type KeyHash = u64;

/// Identity of an open transaction, never zero.
pub type Owner = u64;

/// The bit that the identities of clients' transactions have.
pub(crate) const OF_CLIENT: Owner = 1 << 63;

#[derive(Clone, Copy)]
struct Entry {
    owner: Owner,
    stamp: u64,
}

struct Shard {
    entries: HashMap<KeyHash, Entry, HashState>,
    sweep_at: usize,
    /// The greatest stamp of the dropped entries: commits up to it may be unknown although older snapshots are
    /// active.
    forgotten: u64,
    /// The transactions that wait for keys of this shard, in the order of arrival.
    line: VecDeque<Waiter>,
}

struct Waiter {
    key: KeyHash,
    owner: Owner,
    thread: Thread,
}

/// The table. See the module's header.
pub struct Conflicts {
    hasher: HashState,
    shards: Box<[Mutex<Shard>]>,
    /// Limit of a shard's entries, not counting those of open transactions.
    shard_entries_max: AtomicUsize,
}

/// The result of a claim.
pub enum Claim {
    /// The key was claimed by this call.
    New,
    /// The transaction held the key already.
    Held,
}

/// The parameters of a claim.
pub struct Claimer {
    pub owner: Owner,
    /// Commits after this stamp conflict; `u64::MAX` for a transaction that has read nothing.
    pub read_stamp: u64,
    /// How long to wait for another holder; a transaction that has read does not wait.
    pub wait: Duration,
}

impl Default for Conflicts {
    fn default() -> Conflicts {
        Conflicts::new()
    }
}

impl Conflicts {
    pub fn new() -> Conflicts {
        let shard = || {
            Mutex::new(Shard {
                entries: HashMap::default(),
                sweep_at: SWEEP_ENTRIES_MIN,
                forgotten: 0,
                line: VecDeque::new(),
            })
        };
        Conflicts {
            hasher: HashState::default(),
            shards: (0..SHARD_COUNT).map(|_| shard()).collect(),
            shard_entries_max: AtomicUsize::new(usize::MAX),
        }
    }

    /// Limits the memory of remembered commits. At the limit the older half is dropped: then a transaction that
    /// began before those commits and writes a key without an entry gets `Conflict`, because the key may have been
    /// written in the meantime. Reads are not affected.
    pub fn limit(&self, bytes: u64) {
        let entries = usize::try_from(bytes / ENTRY_BYTES).unwrap_or(usize::MAX);
        self.shard_entries_max.store((entries / SHARD_COUNT).max(SWEEP_ENTRIES_MIN), Relaxed);
    }

    /// Approximate memory of the table, in bytes.
    pub fn bytes(&self) -> u64 {
        let capacity = |shard: &Mutex<Shard>| shard.lock().entries.capacity() as u64;
        self.shards.iter().map(capacity).sum::<u64>() * SLOT_BYTES
    }

    /// The hash of a key in this table.
    pub fn hash(&self, space: Space, key: &[u8]) -> KeyHash {
        self.hasher.hash_one((space as u8, key))
    }

    /// Claims the key for `claimer`, or returns `Conflict`.
    pub fn claim(&self, key: KeyHash, claimer: &Claimer, active: &Active) -> Result<Claim> {
        self.claim_while(key, claimer, active, &mut || true)
    }

    /// Like `claim`; while it waits, it calls `go_on` every few milliseconds, and gives up if that returns false.
    pub fn claim_while(
        &self,
        key: KeyHash,
        claimer: &Claimer,
        active: &Active,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Claim> {
        let mut shard = self.shard(key).lock();
        if let Some(entry) = shard.entries.get_mut(&key) {
            if entry.owner == claimer.owner {
                return Ok(Claim::Held);
            }
            if entry.owner == 0 {
                if entry.stamp > claimer.read_stamp {
                    return Err(Error::Conflict);
                }
                entry.owner = claimer.owner;
                return Ok(Claim::New);
            }
            if claimer.wait.is_zero() || claimer.read_stamp != u64::MAX {
                return Err(Error::Conflict);
            }
            return self.wait(shard, key, claimer, go_on);
        }
        let most = self.shard_entries_max.load(Relaxed);
        if shard.entries.len() >= shard.sweep_at.min(most) {
            sweep(&mut shard, active.oldest(), most);
        }
        if claimer.read_stamp < shard.forgotten {
            return Err(Error::Conflict);
        }
        shard.entries.insert(key, Entry { owner: claimer.owner, stamp: 0 });
        Ok(Claim::New)
    }

    /// Releases the keys, the last one first: when another transaction gets a key, those that belong to it are free
    /// (`Txn::put_exclusive`). `committed` is the stamp at which they were written; none if they were not.
    pub fn release(&self, keys: &[KeyHash], committed: Option<u64>, alone: bool) {
        for key in keys.iter().rev() {
            let mut shard = self.shard(*key).lock();
            let next = shard.next(*key);
            let Some(entry) = shard.entries.get_mut(key) else { continue };
            let stamp = committed.unwrap_or(entry.stamp);
            // Without another transaction or snapshot, nothing can conflict with this commit.
            let forget = stamp == 0 || committed.is_some() && alone;
            match next {
                Some(next) => {
                    *entry = Entry { owner: next.owner, stamp };
                    drop(shard);
                    next.thread.unpark();
                }
                None if forget => {
                    shard.entries.remove(key);
                }
                None => *entry = Entry { owner: 0, stamp },
            }
        }
    }

    /// Waits until the key is handed over, at most as long as `claimer` and `go_on` permit.
    fn wait<'a>(
        &'a self,
        mut shard: MutexGuard<'a, Shard>,
        key: KeyHash,
        claimer: &Claimer,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Claim> {
        let until = Instant::now() + claimer.wait;
        let thread = thread::current();
        shard.line.push_back(Waiter { key, owner: claimer.owner, thread });
        loop {
            drop(shard);
            thread::park_timeout(until.saturating_duration_since(Instant::now()).min(ASK_EACH));
            // `go_on` is called outside the lock, because it may take long. The key may have been handed over in
            // the meantime.
            let ended = !go_on() || Instant::now() >= until;
            shard = self.shard(key).lock();
            if shard.entries.get(&key).is_some_and(|entry| entry.owner == claimer.owner) {
                return Ok(Claim::New);
            }
            if ended {
                shard.line.retain(|waiter| waiter.owner != claimer.owner);
                return Err(Error::Conflict);
            }
        }
    }

    /// The transaction that holds the key.
    pub fn owner(&self, key: KeyHash) -> Option<Owner> {
        let shard = self.shard(key).lock();
        shard.entries.get(&key).map(|entry| entry.owner).filter(|owner| *owner != 0)
    }

    /// How many keys are remembered.
    pub fn entry_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    fn shard(&self, key: KeyHash) -> &Mutex<Shard> {
        &self.shards[(key >> 58) as usize % SHARD_COUNT]
    }
}

impl Shard {
    /// Removes the first transaction that waits for the key from the queue.
    fn next(&mut self, key: KeyHash) -> Option<Waiter> {
        let at = self.line.iter().position(|waiter| waiter.key == key)?;
        self.line.remove(at)
    }
}

/// Drops entries that no transaction can conflict with any more; if more than `most` remain, also the older half.
fn sweep(shard: &mut Shard, oldest: u64, most: usize) {
    shard.entries.retain(|_, entry| entry.owner != 0 || entry.stamp > oldest);
    if shard.entries.len() > most / 4 * 3 {
        let free = shard.entries.values().filter(|entry| entry.owner == 0);
        let mut stamps: Vec<u64> = free.map(|entry| entry.stamp).collect();
        if !stamps.is_empty() {
            let middle = stamps.len() / 2;
            let (_, middle, _) = stamps.select_nth_unstable(middle);
            let until = *middle;
            shard.entries.retain(|_, entry| entry.owner != 0 || entry.stamp > until);
            // A transaction reads at the stamp of the newest commit that it sees, so `until` itself is safe.
            shard.forgotten = shard.forgotten.max(until);
        }
    }
    if shard.entries.capacity() > 4 * shard.entries.len().max(SWEEP_ENTRIES_MIN) {
        shard.entries.shrink_to(2 * shard.entries.len());
    }
    shard.sweep_at = (shard.entries.len() * 2).max(SWEEP_ENTRIES_MIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimer(owner: Owner, read_stamp: u64) -> Claimer {
        Claimer { owner, read_stamp, wait: Duration::ZERO }
    }

    #[test]
    fn first_writer_wins_and_old_readers_lose() {
        let (table, active) = (Conflicts::new(), Active::new(0));
        assert!(matches!(table.claim(7, &claimer(1, 5), &active), Ok(Claim::New)));
        assert!(matches!(table.claim(7, &claimer(1, 5), &active), Ok(Claim::Held)));
        assert!(matches!(table.claim(7, &claimer(2, 5), &active), Err(Error::Conflict)));
        table.release(&[7], Some(6), false);
        assert!(matches!(table.claim(7, &claimer(2, 5), &active), Err(Error::Conflict)));
        assert!(matches!(table.claim(7, &claimer(2, 6), &active), Ok(Claim::New)));
        table.release(&[7], None, false);
        assert!(matches!(table.claim(7, &claimer(3, 5), &active), Err(Error::Conflict)));
    }

    #[test]
    fn who_waits_gets_the_key_in_turn() {
        const WAITERS: Owner = 8;
        let (table, active) = (Conflicts::new(), Active::new(0));
        assert!(table.claim(7, &claimer(1, 0), &active).is_ok());
        let order = Mutex::new(Vec::new());
        let in_line = |count: usize| table.shard(7).lock().line.len() == count;
        thread::scope(|scope| {
            for owner in 2..2 + WAITERS {
                let (table, active, order) = (&table, &active, &order);
                scope.spawn(move || {
                    let wait = Duration::from_mins(1);
                    let claimer = Claimer { owner, read_stamp: u64::MAX, wait };
                    assert!(matches!(table.claim(7, &claimer, active), Ok(Claim::New)));
                    order.lock().push(owner);
                    table.release(&[7], Some(owner), owner == 5);
                });
                while !in_line(owner as usize - 1) {
                    thread::yield_now();
                }
            }
            table.release(&[7], None, true);
        });
        assert_eq!(*order.lock(), (2..2 + WAITERS).collect::<Vec<_>>());
        // Commits in between still count.
        assert!(matches!(table.claim(7, &claimer(20, 8), &active), Err(Error::Conflict)));
        assert!(matches!(table.claim(7, &claimer(20, 9), &active), Ok(Claim::New)));
        let brief = Claimer { owner: 21, read_stamp: u64::MAX, wait: Duration::from_millis(1) };
        assert!(matches!(table.claim(7, &brief, &active), Err(Error::Conflict)));
        assert!(in_line(0));
        // A waiter that no longer wants the key leaves the queue, long before its time limit.
        let long = Claimer { owner: 22, read_stamp: u64::MAX, wait: Duration::from_mins(60) };
        let mut asked = 0;
        let mut go_on = || {
            asked += 1;
            asked < 3
        };
        let claimed = table.claim_while(7, &long, &active, &mut go_on);
        assert!(matches!(claimed, Err(Error::Conflict)));
        assert!(in_line(0) && asked == 3);
    }

    #[test]
    fn entries_are_forgotten_once_no_snapshot_needs_them() {
        let (table, active) = (Conflicts::new(), Active::new(0));
        for n in 0..100_000_u64 {
            let key = table.hash(Space::Records, &n.to_be_bytes());
            assert!(table.claim(key, &claimer(1, n), &active).is_ok());
            table.release(&[key], Some(n + 1), false);
            active.publish(n + 1);
        }
        assert!(table.entry_count() <= SHARD_COUNT * SWEEP_ENTRIES_MIN, "{}", table.entry_count());
    }

    #[test]
    fn at_its_limit_it_forgets_and_old_states_may_no_longer_write() {
        let (table, active) = (Conflicts::new(), Active::new(0));
        table.limit(1 << 20);
        let old = active.enter();
        let mut newest = 0;
        for n in 1..200_000_u64 {
            let key = table.hash(Space::Records, &n.to_be_bytes());
            assert!(table.claim(key, &claimer(1, u64::MAX), &active).is_ok());
            table.release(&[key], Some(n), false);
            active.publish(n);
            newest = n;
        }
        assert!(table.bytes() <= 1 << 20, "{}", table.bytes());
        let key = table.hash(Space::Records, b"written by nobody");
        let refused = table.claim(key, &claimer(2, old.stamp()), &active);
        assert!(matches!(refused, Err(Error::Conflict)));
        assert!(matches!(table.claim(key, &claimer(3, newest), &active), Ok(Claim::New)));
        active.leave(&old);
    }
}
