//! The engine in memory: for tests, and for servers that keep nothing.
//!
//! Each space is a sorted map from key to its versions, newest last; a reader at stamp s takes the
//! newest version that is not after s. A commit adds versions under the space's lock and publishes
//! its stamp last, so nobody sees half of it.
//!
//!   key -> [(stamp 3, "a"), (stamp 9, deleted), (stamp 12, "b")]
//!
//! A version goes away once a newer one is visible to the oldest reader: at once when its key is
//! written again, else from the `stale` queue with a later commit.
//!
//! Cost: a get is one lock and one map search; a scan takes up to 64 entries per lock.

mod cursor;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    ops::Bound,
    path::Path,
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};

use crate::{
    CommitStamp, Compressor, Cursor, Engine, Error, Limits, Next, Read, Result, Snapshot, Space,
    Txn, TxnOptions,
    active::Ticket,
    overlay::{Base, Ledger, Op, Overlay, SharedOverlay, Staged, add_counters},
};

type Key = Arc<[u8]>;
type Map = BTreeMap<Key, Versions>;

#[derive(Default)]
struct Versions(Vec<(u64, Option<Arc<[u8]>>)>);

impl Versions {
    fn at(&self, stamp: u64) -> Option<&Arc<[u8]>> {
        let newest = self.0.iter().rev().find(|(written, _)| *written <= stamp)?;
        newest.1.as_ref()
    }

    /// Drops what no reader at `oldest` or later can see; true if nothing is left.
    fn prune(&mut self, oldest: u64) -> bool {
        let visible = self.0.iter().rposition(|(written, _)| *written <= oldest).unwrap_or(0);
        self.0.drain(..visible);
        matches!(self.0.as_slice(), [] | [(_, None)]) && self.0.iter().all(|v| v.0 <= oldest)
    }
}

/// A store that is gone when it is dropped.
pub struct Memory {
    core: Arc<Core>,
    says_compressed: bool,
}

pub(crate) struct Core {
    ledger: Ledger,
    spaces: [RwLock<Map>; Space::ALL.len()],
    /// Held by the one commit that is being written.
    commit: Mutex<Stale>,
}

/// Keys with old versions, and the stamp from which on these are of no use.
type Stale = VecDeque<(u64, Space, Key)>;

impl Memory {
    /// An empty store.
    pub fn new() -> Memory {
        let core =
            Core { ledger: Ledger::new(0), spaces: Default::default(), commit: Mutex::default() };
        Memory { core: Arc::new(core), says_compressed: false }
    }

    /// An empty store that says of its spaces what an engine on disk would (the default is LZ4): for
    /// tests of those who ask.
    pub fn saying_compressed() -> Memory {
        Memory { says_compressed: true, ..Memory::new() }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

/// Reads at one stamp; its ticket keeps the versions.
pub(crate) struct State {
    core: Arc<Core>,
    ticket: Ticket,
}

impl State {
    fn new(core: &Arc<Core>) -> State {
        State { ticket: core.ledger.active.enter(), core: Arc::clone(core) }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.core.ledger.active.leave(&self.ticket);
    }
}

impl Core {
    fn get_at<'a>(
        &self,
        space: Space,
        key: &[u8],
        stamp: impl FnOnce() -> u64,
        buf: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let map = self.spaces[space as usize].read();
        // The stamp is asked for under the lock: no version it needs can be pruned any more.
        let stamp = stamp();
        let value = map.get(key)?.at(stamp)?;
        buf.clear();
        buf.extend_from_slice(value);
        Some(buf)
    }

    fn set(&self, stale: &mut Stale, space: Space, key: &[u8], version: (u64, Option<Key>)) {
        let oldest = self.ledger.active.oldest();
        let stamp = version.0;
        let mut map = self.spaces[space as usize].write();
        if let Some(versions) = map.get_mut(key) {
            versions.0.push(version);
            versions.prune(oldest);
            stale.push_back((stamp, space, key.into()));
        } else if version.1.is_some() {
            map.insert(key.into(), Versions(vec![version]));
        }
    }

    fn collect(&self, stale: &mut Stale) {
        let oldest = self.ledger.active.oldest();
        while let Some((stamp, _, _)) = stale.front()
            && *stamp <= oldest
        {
            let Some((_, space, key)) = stale.pop_front() else { return };
            let mut map = self.spaces[space as usize].write();
            if map.get_mut(&key).is_some_and(|versions| versions.prune(oldest)) {
                map.remove(&key);
            }
        }
    }

    fn newest(&self) -> u64 {
        self.ledger.active.newest()
    }

    fn write_all(&self, overlay: &Overlay) -> u64 {
        let mut stale = self.commit.lock();
        let stamp = self.newest() + 1;
        let mut position = 0_u32;
        let mut sum = Vec::new();
        for write in overlay.writes() {
            match write.op {
                Op::Put(value) => {
                    self.set(&mut stale, write.space, write.key, (stamp, Some(value.into())));
                }
                Op::Delete => self.set(&mut stale, write.space, write.key, (stamp, None)),
                Op::Add(deltas) => {
                    sum.clear();
                    self.get_at(write.space, write.key, || stamp, &mut sum);
                    add_counters(&mut sum, deltas);
                    let value = Some(sum.as_slice().into());
                    self.set(&mut stale, write.space, write.key, (stamp, value));
                }
                Op::Append(value) => {
                    let key = crate::log_key(stamp, position);
                    position += 1;
                    self.set(&mut stale, write.space, &key, (stamp, Some(value.into())));
                }
            }
        }
        self.ledger.active.publish(stamp);
        self.collect(&mut stale);
        stamp
    }
}

impl Base for Core {
    type State = State;

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn state(self: &Arc<Core>) -> Result<State> {
        Ok(State::new(self))
    }

    fn write(&self, overlay: &SharedOverlay) -> Result<u64> {
        Ok(self.write_all(&overlay.lock()))
    }

    fn sync(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// The newest state.
impl Read for Memory {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        Ok(self.core.get_at(space, key, || self.core.newest(), buf))
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        State::new(&self.core).cursor(space, start, end)
    }
}

impl Read for State {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        Ok(self.core.get_at(space, key, || self.ticket.stamp(), buf))
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        // The cursor's own ticket is taken while this state's still holds the versions.
        Ok(Box::new(cursor::Scan::new(&self.core, self.ticket.stamp(), space, start, end)))
    }
}

impl Snapshot for State {
    fn stamp(&self) -> CommitStamp {
        CommitStamp(self.ticket.stamp())
    }
}

impl Engine for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn latest(&self) -> &(dyn Read + Sync) {
        self
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(State::new(&self.core)))
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        Ok(Box::new(Staged::begin(&self.core, options)))
    }

    fn last_stamp(&self) -> CommitStamp {
        CommitStamp(self.core.newest())
    }

    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut overlay = Overlay::new();
        loop {
            let more = next(&mut key, &mut value)?;
            if more {
                overlay.put(space, &key, &value);
            }
            if !overlay.is_empty() && (!more || overlay.write_count() == 1000) {
                self.core.write_all(&overlay);
                overlay.clear();
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let _stale = self.core.commit.lock();
        let mut map = self.core.spaces[space as usize].write();
        let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end) };
        if !end.is_empty() && start >= end {
            return Ok(());
        }
        let range = map.range::<[u8], _>((Bound::Included(start), upper));
        let keys: Vec<Key> = range.map(|(key, _)| Arc::clone(key)).collect();
        for key in keys {
            map.remove(&key);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn limit_conflicts(&self, bytes: u64) {
        self.core.ledger.conflicts.limit(bytes);
    }

    fn conflict_bytes(&self) -> u64 {
        self.core.ledger.conflicts.bytes()
    }

    fn checkpoint(&self, _: &Path) -> Result<()> {
        Err(Error::Io(io::Error::new(
            io::ErrorKind::Unsupported,
            "the memory engine has no files to copy",
        )))
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        let map = self.core.spaces[space as usize].read();
        let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end) };
        if !end.is_empty() && start >= end {
            return Ok(0);
        }
        let newest = self.core.newest();
        let range = map.range::<[u8], _>((Bound::Included(start), upper));
        let bytes =
            range.map(|(key, versions)| versions.at(newest).map_or(0, |v| key.len() + v.len()));
        Ok(bytes.sum::<usize>() as u64)
    }

    fn compact(&self, _: Space, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn compressor(&self, space: Space) -> Compressor {
        match self.says_compressed {
            true => Compressor::of_space(space).unwrap_or(Compressor::Lz4),
            false => Compressor::None,
        }
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        let keys: usize = self.core.spaces.iter().map(|space| space.read().len()).sum();
        visit("keys", keys as i64);
        visit("snapshots_open", self.core.ledger.active.ticket_count() as i64);
    }
}
