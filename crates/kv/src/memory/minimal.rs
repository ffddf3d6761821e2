//! A memory engine that promises the contract and nothing more (`Capabilities::NONE`), as a distributed store does.
//!
//! It is for tests of the layers above: what they do without a promise can be tested without a cluster. Several stores
//! may be opened on one engine, as several processes on one cluster.
//!
//! ```text
//!   first operation   takes a stamp of the clock, as from an oracle, and the snapshot at it
//!   put, delete, ..   are staged; lock notes the key
//!   commit            each key that was written or locked must not have been committed since that stamp
//! ```
//!
//! Conflicts are found by the commit, which claims all keys at once in the memory engine's conflict table. A
//! transaction that has read nothing, and may wait, begins anew at a conflict. Counters conflict, and nothing can be
//! appended.

use std::{
    cell::{Cell, OnceCell},
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    time::Duration,
};

use super::{Core, Memory, State};
use crate::{
    Capabilities, Claim, Claimer, Clock, CommitStamp, Compressor, Cursor, Durability, Engine,
    Error, Maintenance, Next, Owner, Read, Result, Savepoint, Scratch, Snapshot, Space, Tuning,
    Txn, TxnOptions,
    overlay::{Merged, Op, Overlay, SharedOverlay, add_counters},
    sync::{
        Instant, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        thread,
    },
};

/// How far ahead a stamp may be that `advance` waits for. The wait takes no time here: so tests let time pass.
const ADVANCE_SECONDS_MAX: u64 = 10;

/// See the module's header.
pub struct Minimal {
    inner: Memory,
    commits: Arc<Commits>,
}

/// What the transactions of an engine share.
#[derive(Default)]
struct Commits {
    one: Mutex<()>,
    begun: AtomicU64,
    /// Versions behind this snapshot are kept.
    history: Mutex<Option<Arc<State>>>,
}

impl Minimal {
    /// An empty store.
    pub fn new() -> Minimal {
        Minimal { inner: Memory::new(), commits: Arc::default() }
    }

    /// Keeps the versions of all stamps from now on, for `begin_at`; those before are forgotten, as by the garbage
    /// collection of a distributed store.
    pub fn keep_history(&self) {
        *self.commits.history.lock() = Some(snapshot(&self.inner.core));
    }

    fn transaction(&self, wait: Duration, state: OnceCell<Arc<State>>) -> Late {
        Late {
            core: Arc::clone(&self.inner.core),
            commits: Arc::clone(&self.commits),
            owner: self.commits.begun.fetch_add(1, Relaxed) + 1,
            overlay: SharedOverlay::default(),
            locked: BTreeSet::new(),
            wait,
            state,
            has_read: Cell::new(false),
        }
    }
}

impl Default for Minimal {
    fn default() -> Minimal {
        Minimal::new()
    }
}

/// The snapshot at a new stamp.
fn snapshot(core: &Arc<Core>) -> Arc<State> {
    // No commit is in progress, so each later one has a greater stamp.
    let _alone = core.commit.lock();
    core.ledger.advance(core.ledger.clock.next());
    Arc::new(State::new(core))
}

struct Late {
    core: Arc<Core>,
    commits: Arc<Commits>,
    owner: Owner,
    overlay: SharedOverlay,
    locked: BTreeSet<(Space, Vec<u8>)>,
    wait: Duration,
    state: OnceCell<Arc<State>>,
    has_read: Cell<bool>,
}

impl Late {
    /// Takes the snapshot with the first operation.
    fn start(&self) -> &Arc<State> {
        self.state.get_or_init(|| snapshot(&self.core))
    }

    fn read(&self) -> &Arc<State> {
        self.has_read.set(true);
        self.start()
    }

    /// Writes all, if none of the keys was committed after `read_stamp`.
    fn commit_at(&self, read_stamp: u64, overlay: &Overlay) -> Result<u64> {
        let _one = self.commits.one.lock();
        let (table, active) = (&self.core.ledger.conflicts, &self.core.ledger.active);
        let claimer = Claimer { owner: self.owner, read_stamp, wait: Duration::ZERO };
        let mut held = Vec::new();
        let mut claim = |space: Space, key: &[u8]| {
            let hash = table.hash(space, key);
            if let Claim::New = table.claim(hash, &claimer, active)? {
                held.push(hash);
            }
            Ok(())
        };
        let claimed = overlay
            .writes()
            .try_for_each(|write| claim(write.space, write.key))
            .and_then(|()| self.locked.iter().try_for_each(|(space, key)| claim(*space, key)))
            .and_then(|()| self.core.check_capacity(overlay));
        if let Err(error) = claimed {
            table.release(&held, None, false);
            return Err(error);
        }
        let stamp = self.core.write_all(overlay);
        table.release(&held, Some(stamp), false);
        Ok(stamp)
    }
}

impl Read for Late {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let mut deltas = None;
        match self.overlay.lock().get(space, key) {
            None | Some(Op::Append { .. }) => {}
            Some(Op::Delete) => return Ok(None),
            Some(Op::Put(value)) => {
                buf.clear();
                buf.extend_from_slice(value);
                return Ok(Some(buf));
            }
            Some(Op::Add(staged)) => deltas = Some(staged.to_vec()),
        }
        let Some(deltas) = deltas else { return self.read().get(space, key, buf) };
        let mut sum = self.read().get(space, key, buf)?.map(<[u8]>::to_vec).unwrap_or_default();
        add_counters(&mut sum, &deltas);
        *buf = sum;
        Ok(Some(buf))
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        let base = self.read().cursor(space, start, end)?;
        Ok(Box::new(Merged::new(base, Arc::clone(&self.overlay), space, start, end)))
    }
}

impl Txn for Late {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.start();
        self.overlay.lock().put(space, key, value);
        Ok(())
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.start();
        self.overlay.lock().delete(space, key);
        Ok(())
    }

    fn lock_while(&mut self, space: Space, key: &[u8], _: &mut dyn FnMut() -> bool) -> Result<()> {
        self.start();
        self.locked.insert((space, key.to_vec()));
        Ok(())
    }

    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()> {
        self.start();
        self.overlay.lock().add(space, key, deltas);
        Ok(())
    }

    fn append(&mut self, log: Space, value: &[u8], joined: bool) -> Result<()> {
        self.start();
        self.overlay.lock().append(log, value, joined);
        Ok(())
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let state = Arc::clone(self.read());
        Ok(state)
    }

    fn read_stamp(&self) -> Result<CommitStamp> {
        Ok(self.read().stamp())
    }

    fn staged_bytes(&self) -> usize {
        let locked: usize = self.locked.iter().map(|(_, key)| key.len()).sum();
        self.overlay.lock().staged_bytes() + locked
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint::new(self.overlay.lock().write_count())
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.overlay.lock().truncate(savepoint.write_index());
    }

    fn commit(self: Box<Self>, _: Durability) -> Result<CommitStamp> {
        let has_read = self.has_read.get();
        let overlay = self.overlay.lock();
        // Locks of a transaction that has read nothing protect nothing.
        if overlay.is_empty() && (self.locked.is_empty() || !has_read) {
            return Ok(CommitStamp(self.core.newest()));
        }
        if overlay.writes().any(|write| matches!(write.op, Op::Append { .. })) {
            return Err(Error::other("this engine keeps no logs by stamp"));
        }
        let until = Instant::now() + self.wait;
        let mut read_stamp = self.start().stamp().0;
        loop {
            match self.commit_at(read_stamp, &overlay) {
                Err(Error::Conflict) if !has_read && Instant::now() < until => {
                    thread::yield_now();
                    read_stamp = snapshot(&self.core).stamp().0;
                }
                other => return other.map(CommitStamp),
            }
        }
    }
}

impl Engine for Minimal {
    fn name(&self) -> &'static str {
        "minimal"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn latest(&self) -> &(dyn Read + Sync) {
        self.inner.latest()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(snapshot(&self.inner.core))
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        let wait = Duration::from_millis(options.lock_wait_ms.into());
        Ok(Box::new(self.transaction(wait, OnceCell::new())))
    }

    fn begin_at(&self, stamp: CommitStamp) -> Result<Box<dyn Txn>> {
        let core = &self.inner.core;
        // It holds the versions until the new ticket does.
        let history = self.commits.history.lock();
        let oldest = history.as_ref().ok_or(Error::SnapshotTooOld)?.stamp();
        if stamp < oldest {
            return Err(Error::SnapshotTooOld);
        }
        if stamp.0 > core.newest() {
            return Err(Error::other("a stamp of the future"));
        }
        let state = State::at(core, stamp.0);
        Ok(Box::new(self.transaction(Duration::ZERO, OnceCell::from(Arc::new(state)))))
    }

    fn clock(&self) -> &Clock {
        self.inner.clock()
    }

    fn last_stamp(&self) -> CommitStamp {
        self.inner.last_stamp()
    }

    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        let ahead = (stamp.0 >> 32).saturating_sub(self.inner.clock().greatest() >> 32);
        match ahead <= ADVANCE_SECONDS_MAX {
            true => self.inner.advance(stamp),
            false => Err(Error::other("the stamp is too far in the future")),
        }
    }

    fn sync(&self, _: CommitStamp) -> Result<()> {
        Ok(())
    }
}

impl Maintenance for Minimal {
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        self.inner.load(space, next)
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        self.inner.scratch()
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        self.inner.drop_range(space, start, end)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.inner.checkpoint(dir)
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        self.inner.approximate_size(space, start, end)
    }

    fn compact(&self, _: Space, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Tuning for Minimal {
    fn compressor(&self, space: Space) -> Compressor {
        self.inner.compressor(space)
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        self.inner.stats(visit);
    }
}
