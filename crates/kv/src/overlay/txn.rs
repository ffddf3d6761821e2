//! A transaction: staged writes (the overlay), claims in the conflict table, and a snapshot of the engine.
//!
//! ```text
//!   put, delete, lock   claim the key in the conflict table, then stage the write
//!   put_exclusive, ..   stage the write only: no other transaction can write the key
//!   get, cursor         the first one takes the engine's snapshot; staged writes are merged over it
//!   commit              the engine writes the overlay in one batch; then the keys are released
//! ```
//!
//! A transaction that only writes takes no snapshot and no ticket.
//!
//! Conflict detection relies on the order at commit: the engine writes the batch, publishes its stamp, and only
//! then are the keys released with that stamp. A transaction that finds a key free has therefore either a snapshot
//! that contains its last commit, or a snapshot stamp that is smaller than the stamp in the conflict table.
//!
//! Used by all engines of this process through [`Base`]. Memory of ended transactions is kept per core and reused.

use std::{
    cell::{OnceCell, RefCell},
    sync::Arc,
    time::Duration,
};

use super::{Merged, Op, Overlay, counter};
use nagi_percore::{PerCore, note_shared};

use crate::{
    Clock, CommitStamp, Cursor, Durability, Read, Result, Savepoint, Snapshot, Space, Txn,
    TxnOptions,
    active::{Active, Ticket},
    conflict::{Claim, Claimer, Conflicts, KeyHash, OF_CLIENT, Owner},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

const KEPT: &str = "the scratch is taken by `drop` only";
/// A value that is changed again and again is written whole each time of this many, on average, even if the thread that
/// changes it does not know from how many differences it was put together.
const WHOLE_EACH: u64 = 64;
const POOL_ENTRIES_MAX: usize = 64;
const POOLED_BYTES_MAX: usize = 256 << 10;

/// A transaction's writes, shared only by the transaction, its cursors and the commit.
pub type SharedOverlay = Arc<Mutex<Overlay>>;

/// The part of an engine below `Staged`.
pub trait Base: Send + Sync + 'static {
    /// True if `write` uses [`Write::difference`](super::Write::difference) for records.
    const WRITES_DIFFERENCES: bool = false;

    /// An owned snapshot; its stamp is exact.
    type State: Snapshot;

    /// The engine's open transactions.
    fn ledger(&self) -> &Ledger;

    /// Takes a snapshot of the newest data.
    fn state(self: &Arc<Self>) -> Result<Self::State>;

    /// Reads the newest committed value of a key into `buf`; returns true if there is one.
    fn get_newest(&self, space: Space, key: &[u8], buf: &mut Vec<u8>) -> Result<bool>;

    /// Writes all of `overlay.writes()` atomically with a stamp from `ledger().clock`, publishes the stamp in
    /// `ledger().active` and returns it. Many threads call it at once. The caller does not hold the lock of the
    /// overlay, so an engine may let one thread write for others.
    fn write(&self, overlay: &SharedOverlay) -> Result<u64>;

    /// Returns once the commit is durable.
    fn sync(&self, stamp: u64) -> Result<()>;
}

/// The open transactions of an engine.
pub struct Ledger {
    pub clock: Clock,
    pub conflicts: Conflicts,
    pub active: Active,
    /// Transactions begun, by core.
    begun: PerCore<AtomicU64>,
    /// Memory of ended transactions, by core.
    pool: PerCore<Mutex<Vec<Scratch>>>,
}

impl Ledger {
    /// `newest`: no commit of the store being opened has a greater stamp.
    pub fn new(newest: u64) -> Ledger {
        let clock = Clock::new(newest);
        Ledger {
            conflicts: Conflicts::new(),
            active: Active::new(clock.greatest()),
            clock,
            begun: PerCore::default(),
            pool: PerCore::default(),
        }
    }
}

impl Ledger {
    /// An identity that no other transaction of this process has: made of the core, and the core's number of
    /// transactions.
    fn new_owner(&self) -> Owner {
        let core = nagi_percore::core();
        let begun = self.begun.of(core).fetch_add(1, Ordering::Relaxed) + 1;
        begun * nagi_percore::core_count() as u64 + core as u64
    }

    /// Makes `stamp` the newest one, if it is greater. The caller holds the engine's commit lock, so that no commit
    /// is in progress.
    pub fn advance(&self, stamp: u64) {
        self.clock.observe(stamp);
        if stamp > self.active.newest() {
            self.active.publish(stamp);
        }
    }
}

/// A transaction's memory, which the next transaction reuses.
#[derive(Default)]
struct Scratch {
    overlay: SharedOverlay,
    held: Vec<KeyHash>,
}

/// A transaction over an engine `B`.
pub struct Staged<B: Base> {
    base: Arc<B>,
    /// Present until it is dropped; then the next transaction gets it.
    scratch: Option<Scratch>,
    owner: Owner,
    wait: Duration,
    state: OnceCell<Arc<B::State>>,
    ticket: RefCell<Option<Ticket>>,
}

impl<B: Base> Staged<B> {
    pub fn begin(base: &Arc<B>, options: TxnOptions) -> Staged<B> {
        let ledger = base.ledger();
        Staged {
            scratch: Some(ledger.pool.own().lock().pop().unwrap_or_default()),
            owner: ledger.new_owner() | if options.of_client { OF_CLIENT } else { 0 },
            wait: Duration::from_millis(options.lock_wait_ms.into()),
            state: OnceCell::new(),
            ticket: RefCell::default(),
            base: Arc::clone(base),
        }
    }

    fn scratch(&self) -> &Scratch {
        self.scratch.as_ref().expect(KEPT)
    }

    fn state(&self) -> Result<&Arc<B::State>> {
        if let Some(state) = self.state.get() {
            return Ok(state);
        }
        let mut ticket = self.ticket.borrow_mut();
        if ticket.is_none() {
            *ticket = Some(self.base.ledger().active.enter());
        }
        let state = Arc::new(self.base.state()?);
        Ok(self.state.get_or_init(|| state))
    }

    fn claim(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.claim_while(space, key, &mut || true)
    }

    fn claim_while(
        &mut self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let ledger = self.base.ledger();
        note_shared("conflict table", 1, 2);
        let hash = ledger.conflicts.hash(space, key);
        let read_stamp = self.state.get().map_or(u64::MAX, |state| state.stamp().0);
        let wait = if self.scratch().held.is_empty() { self.wait } else { Duration::ZERO };
        let claimer = Claimer { owner: self.owner, read_stamp, wait };
        let claimed = ledger.conflicts.claim_while(hash, &claimer, &ledger.active, go_on)?;
        if let Claim::New = claimed {
            self.scratch.as_mut().expect(KEPT).held.push(hash);
        }
        Ok(())
    }

    /// True for one in [`WHOLE_EACH`] writes, at random: a reader puts a value together from all differences since it
    /// was written whole.
    fn is_due_whole(&self, overlay: &Overlay) -> bool {
        let mixed =
            (self.owner + overlay.staged_bytes() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed < u64::MAX / WHOLE_EACH
    }

    /// Tests the caller's guarantee in debug builds: no other transaction has claimed the key.
    fn check_exclusive(&self, space: Space, key: &[u8]) {
        if cfg!(debug_assertions) {
            let conflicts = &self.base.ledger().conflicts;
            let owner = conflicts.owner(conflicts.hash(space, key));
            assert!(owner.is_none_or(|owner| owner == self.owner), "another transaction has it");
        }
    }

    /// Ends the transaction: gives keys and ticket back.
    fn release(&mut self, committed: Option<u64>) {
        let ledger = self.base.ledger();
        self.state.take();
        if let Some(ticket) = self.ticket.take() {
            ledger.active.leave(&ticket);
        }
        let held = &mut self.scratch.as_mut().expect(KEPT).held;
        if !held.is_empty() {
            let alone = ledger.active.ticket_count() == 0;
            note_shared("conflict table", held.len() as u64, 2 * held.len() as u64);
            ledger.conflicts.release(held, committed, alone);
            held.clear();
        }
    }
}

impl<B: Base> Drop for Staged<B> {
    fn drop(&mut self) {
        self.release(None);
        let Some(mut scratch) = self.scratch.take() else { return };
        // A cursor that outlives the transaction keeps the overlay; then it is not reused.
        let Some(overlay) = Arc::get_mut(&mut scratch.overlay) else { return };
        let overlay = overlay.get_mut();
        if overlay.staged_bytes() > POOLED_BYTES_MAX || scratch.held.capacity() > 4096 {
            return;
        }
        overlay.clear();
        let mut pool = self.base.ledger().pool.own().lock();
        if pool.len() < POOL_ENTRIES_MAX {
            pool.push(scratch);
        }
    }
}

impl<B: Base> Read for Staged<B> {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let overlay = self.scratch().overlay.lock();
        match overlay.get(space, key) {
            None | Some(Op::Append { .. }) => {}
            Some(Op::Delete) => return Ok(None),
            Some(Op::Put(value)) => {
                buf.clear();
                buf.extend_from_slice(value);
                return Ok(Some(buf));
            }
            Some(Op::Add(deltas)) => {
                let mut sum = match self.state()?.get(space, key, buf)? {
                    Some(value) => value.to_vec(),
                    None => Vec::new(),
                };
                counter::add_counters(&mut sum, deltas);
                *buf = sum;
                return Ok(Some(buf));
            }
        }
        drop(overlay);
        self.state()?.get(space, key, buf)
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let overlay = self.scratch().overlay.lock();
        if !overlay.has(space) {
            drop(overlay);
            return self.state()?.get_many(space, keys, visit);
        }
        // The engine reads all keys at once; staged writes take precedence over its results.
        let mut sum = Vec::new();
        self.state()?.get_many(space, keys, &mut |index, value| match overlay
            .get(space, keys[index])
        {
            None | Some(Op::Append { .. }) => visit(index, value),
            Some(Op::Delete) => visit(index, None),
            Some(Op::Put(own)) => visit(index, Some(own)),
            Some(Op::Add(deltas)) => {
                sum.clear();
                sum.extend_from_slice(value.unwrap_or_default());
                counter::add_counters(&mut sum, deltas);
                visit(index, Some(&sum));
            }
        })
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        let base = self.state()?.cursor(space, start, end)?;
        let overlay = Arc::clone(&self.scratch().overlay);
        Ok(Box::new(Merged::new(base, overlay, space, start, end)))
    }
}

impl<B: Base> Txn for Staged<B> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.claim(space, key)?;
        self.scratch().overlay.lock().put(space, key, value);
        Ok(())
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.claim(space, key)?;
        self.scratch().overlay.lock().delete(space, key);
        Ok(())
    }

    fn put_over(&mut self, space: Space, key: &[u8], old: &[u8], new: &[u8]) -> Result<()> {
        self.claim(space, key)?;
        let mut overlay = self.scratch().overlay.lock();
        match B::WRITES_DIFFERENCES && space.is_records() && !self.is_due_whole(&overlay) {
            true => overlay.put_over(space, key, old, new),
            false => overlay.put(space, key, new),
        }
        Ok(())
    }

    fn put_exclusive(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_exclusive(space, key);
        self.scratch().overlay.lock().put(space, key, value);
        Ok(())
    }

    fn delete_exclusive(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.check_exclusive(space, key);
        self.scratch().overlay.lock().delete(space, key);
        Ok(())
    }

    fn lock_while(
        &mut self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        self.claim_while(space, key, go_on)
    }

    fn is_held_by_client(&self, space: Space, key: &[u8]) -> bool {
        let conflicts = &self.base.ledger().conflicts;
        let owner = conflicts.owner(conflicts.hash(space, key)).unwrap_or(self.owner);
        owner != self.owner && owner & OF_CLIENT != 0
    }

    fn get_locked<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        self.check_exclusive(space, key);
        let is_own = self.scratch().overlay.lock().get(space, key).is_some();
        if is_own {
            return self.get(space, key, buf);
        }
        let found = self.base.get_newest(space, key, buf)?;
        Ok(found.then_some(buf.as_slice()))
    }

    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()> {
        self.scratch().overlay.lock().add(space, key, deltas);
        Ok(())
    }

    fn append(&mut self, log: Space, value: &[u8], joined: bool) -> Result<()> {
        self.scratch().overlay.lock().append(log, value, joined);
        Ok(())
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let state = Arc::clone(self.state()?);
        Ok(state)
    }

    fn read_stamp(&self) -> Result<CommitStamp> {
        Ok(self.state()?.stamp())
    }

    fn staged_bytes(&self) -> usize {
        self.scratch().overlay.lock().staged_bytes()
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint(self.scratch().overlay.lock().write_count())
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.scratch().overlay.lock().truncate(savepoint.0);
    }

    fn commit(mut self: Box<Self>, durability: Durability) -> Result<CommitStamp> {
        let overlay = &self.scratch().overlay;
        if overlay.lock().is_empty() {
            return Ok(CommitStamp(self.base.ledger().active.newest()));
        }
        let stamp = self.base.write(overlay)?;
        self.release(Some(stamp));
        if durability == Durability::Synced {
            self.base.sync(stamp)?;
        }
        Ok(CommitStamp(stamp))
    }
}
