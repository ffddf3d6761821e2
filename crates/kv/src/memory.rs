//! The memory engine: for tests, and for servers without persistent data.
//!
//! All data is in one `Table`, to which a commit adds versions. Stale versions are removed by later commits. The
//! engine may have a limit: writes that would exceed it are refused, except those that reduce the data.
//!
//! Cost: a get is one lock and one map search; a scan takes up to 64 entries per lock.

pub(crate) mod minimal;

use std::{collections::VecDeque, io, path::Path, sync::Arc};

use crate::{
    Capabilities, Clock, CommitStamp, Compressor, Cursor, Engine, Error, LogKeys, Maintenance,
    Next, Read, Result, Scratch, Snapshot, Space, Tuning, Txn, TxnOptions,
    active::Ticket,
    difference,
    overlay::{Base, Ledger, Op, Overlay, SharedOverlay, Staged, Write, add_counters},
    sync::{
        Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    table::{Bytes, Left, Scan, Table},
};

/// This fraction of the limit is reserved for writes that reduce the data.
const SHRINK_PART: usize = 16;

/// An engine whose data is lost when it is dropped.
pub struct Memory {
    core: Arc<Core>,
    says_compressed: bool,
}

pub(crate) struct Core {
    ledger: Ledger,
    table: Table,
    bytes_max: usize,
    /// Bytes of scratch files (`scratch`).
    scratch_bytes: AtomicUsize,
    /// Held by the commit in progress.
    commit: Mutex<Stale>,
}

/// Keys with old versions, and the stamp from which on these are not needed.
type Stale = VecDeque<(u64, Space, Bytes)>;

/// Scratch in memory, which counts towards the limit.
struct Pages {
    core: Arc<Core>,
    bytes: RwLock<Vec<u8>>,
}

impl Scratch for Pages {
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        if self.core.byte_count().saturating_add(bytes.len()) > self.core.bytes_max {
            return Err(Error::MemoryFull);
        }
        let mut all = self.bytes.write();
        if all.len() as u64 != at {
            return Err(Error::other("scratch is written without gaps"));
        }
        all.extend_from_slice(bytes);
        self.core.scratch_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let all = self.bytes.read();
        let rest = usize::try_from(at).ok().and_then(|at| all.get(at..));
        let Some(from) = rest.and_then(|rest| rest.get(..into.len())) else {
            return Err(Error::Io(io::ErrorKind::UnexpectedEof.into()));
        };
        into.copy_from_slice(from);
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.core.scratch_bytes.fetch_sub(self.bytes.get_mut().len(), Ordering::Relaxed);
    }
}

impl AsRef<Table> for Core {
    fn as_ref(&self) -> &Table {
        &self.table
    }
}

impl Memory {
    /// An empty store.
    pub fn new() -> Memory {
        Memory::with_limit(usize::MAX)
    }

    /// An empty store that reports compressors for its spaces as an engine on disk would (the default is LZ4); for
    /// tests of callers that use them.
    pub fn saying_compressed() -> Memory {
        Memory { says_compressed: true, ..Memory::new() }
    }

    /// An empty store of at most `bytes_max` bytes, including the overhead of each entry. Beyond that, writes that
    /// would grow the store fail with `MemoryFull`; deletes and drops need hardly any memory.
    pub fn with_limit(bytes_max: usize) -> Memory {
        let core = Core {
            ledger: Ledger::new(0),
            table: Table::new(false),
            bytes_max,
            scratch_bytes: AtomicUsize::new(0),
            commit: Mutex::default(),
        };
        Memory { core: Arc::new(core), says_compressed: false }
    }

    /// The bytes of the data, including the overhead of each entry.
    pub fn byte_count(&self) -> usize {
        self.core.byte_count()
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

/// A snapshot at one stamp; its ticket keeps the versions from being removed.
pub(crate) struct State {
    core: Arc<Core>,
    ticket: Ticket,
}

impl State {
    fn new(core: &Arc<Core>) -> State {
        State { ticket: core.ledger.active.enter(), core: Arc::clone(core) }
    }

    /// At an earlier stamp, whose versions another ticket holds until this returns.
    fn at(core: &Arc<Core>, stamp: u64) -> State {
        State { ticket: core.ledger.active.enter_at(stamp), core: Arc::clone(core) }
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
        let found = self.table.read(space, key, stamp, |value| match value {
            Some(value) => {
                buf.clear();
                buf.extend_from_slice(value);
                true
            }
            None => false,
        });
        found.unwrap_or(false).then_some(buf.as_slice())
    }

    fn byte_count(&self) -> usize {
        self.table.byte_count().saturating_add(self.scratch_bytes.load(Ordering::Relaxed))
    }

    /// Returns `MemoryFull` if the writes would grow the store beyond its limit.
    fn check_capacity(&self, overlay: &Overlay) -> Result<()> {
        let bytes = self.byte_count().saturating_add(overlay.staged_bytes());
        if bytes <= self.bytes_max {
            return Ok(());
        }
        let grows = |space: Space| space.is_records() || space == Space::Spill;
        let grows = overlay.writes().any(|w| grows(w.space) && matches!(w.op, Op::Put(_)));
        // The writes of a deletion (counters, the change log) are small, but not zero.
        let most = self.bytes_max.saturating_add(self.bytes_max / SHRINK_PART);
        if grows || bytes > most { Err(Error::MemoryFull) } else { Ok(()) }
    }

    fn set(&self, stale: &mut Stale, space: Space, key: &[u8], version: (u64, Option<Bytes>)) {
        let oldest = self.ledger.active.oldest();
        let stamp = version.0;
        if self.table.set(space, key, version, oldest) == Left::Stale {
            stale.push_back((stamp, space, key.into()));
        }
    }

    fn collect(&self, stale: &mut Stale) {
        let oldest = self.ledger.active.oldest();
        while let Some((stamp, _, _)) = stale.front()
            && *stamp <= oldest
        {
            let Some((_, space, key)) = stale.pop_front() else { return };
            self.table.prune(space, &key, oldest);
        }
    }

    fn newest(&self) -> u64 {
        self.ledger.active.newest()
    }

    /// Tests in debug builds that the difference belongs to the newest value.
    fn check_difference(&self, write: &Write<'_>, value: &[u8]) {
        if cfg!(debug_assertions) && !write.difference.is_empty() {
            let mut newest = Vec::new();
            self.get_at(write.space, write.key, || self.newest(), &mut newest);
            let made = difference::apply(&newest, [write.difference]);
            assert!(made.as_deref() == Some(value), "a difference to another value");
        }
    }

    fn write_all(&self, overlay: &Overlay) -> u64 {
        let mut stale = self.commit.lock();
        let first = self.ledger.clock.take(overlay.stamps());
        let stamp = first + overlay.stamps() - 1;
        let mut log_keys = LogKeys::new(first);
        let mut sum = Vec::new();
        for write in overlay.writes() {
            match write.op {
                Op::Put(value) => {
                    self.check_difference(&write, value);
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
                Op::Append { value, joined } => {
                    let key = log_keys.key(joined);
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
    /// Only to test the callers: a difference saves nothing here.
    const WRITES_DIFFERENCES: bool = cfg!(debug_assertions);

    type State = State;

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn state(self: &Arc<Core>) -> Result<State> {
        Ok(State::new(self))
    }

    fn get_newest(&self, space: Space, key: &[u8], buf: &mut Vec<u8>) -> Result<bool> {
        Ok(self.get_at(space, key, || self.newest(), buf).is_some())
    }

    fn write(&self, overlay: &SharedOverlay) -> Result<u64> {
        let overlay = overlay.lock();
        self.check_capacity(&overlay)?;
        Ok(self.write_all(&overlay))
    }

    fn sync(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Reads of the newest data.
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
        // The cursor's own ticket is taken while this snapshot's ticket still holds the versions.
        let stamp = self.ticket.stamp();
        let ticket = self.core.ledger.active.enter_at(stamp);
        let core = Kept { core: Arc::clone(&self.core), ticket };
        Ok(Box::new(Walk(Scan::new(core, stamp, space, start, end))))
    }
}

/// The store, and a ticket that keeps the versions of a cursor from being removed.
struct Kept {
    core: Arc<Core>,
    ticket: Ticket,
}

impl AsRef<Table> for Kept {
    fn as_ref(&self) -> &Table {
        &self.core.table
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.core.ledger.active.leave(&self.ticket);
    }
}

struct Walk(Scan<Kept>);

impl Cursor for Walk {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.0.seek(key))
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.0.seek_back(key))
    }

    fn next(&mut self) -> Result<bool> {
        Ok(self.0.next())
    }

    fn prev(&mut self) -> Result<bool> {
        Ok(self.0.prev())
    }

    fn key(&self) -> &[u8] {
        self.0.key()
    }

    fn value(&self) -> &[u8] {
        self.0.value().unwrap_or_default()
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

    fn capabilities(&self) -> Capabilities {
        Capabilities { links_files: false, ..Capabilities::IN_PROCESS }
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

    fn clock(&self) -> &Clock {
        &self.core.ledger.clock
    }

    fn last_stamp(&self) -> CommitStamp {
        CommitStamp(self.core.newest())
    }

    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        if stamp.0 > self.core.newest() {
            let _alone = self.core.commit.lock();
            self.core.ledger.advance(stamp.0);
        }
        Ok(())
    }

    fn sync(&self, _: CommitStamp) -> Result<()> {
        Ok(())
    }
}

impl Maintenance for Memory {
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut overlay = Overlay::new();
        loop {
            let more = next(&mut key, &mut value)?;
            if more {
                overlay.put(space, &key, &value);
            }
            if !overlay.is_empty() && (!more || overlay.write_count() == 1000) {
                self.core.check_capacity(&overlay)?;
                self.core.write_all(&overlay);
                overlay.clear();
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        Ok(Arc::new(Pages { core: Arc::clone(&self.core), bytes: RwLock::default() }))
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let _stale = self.core.commit.lock();
        self.core.table.remove_range(space, start, end);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self, _: &Path) -> Result<()> {
        Err(Error::Io(io::Error::new(
            io::ErrorKind::Unsupported,
            "the memory engine has no files to copy",
        )))
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        Ok(self.core.table.range_bytes(space, start, end, self.core.newest()))
    }

    fn compact(&self, _: Space, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Tuning for Memory {
    fn compressor(&self, space: Space) -> Compressor {
        match self.says_compressed {
            true => Compressor::of_space(space).unwrap_or(Compressor::Lz4),
            false => Compressor::None,
        }
    }

    fn limit_conflicts(&self, bytes: u64) {
        self.core.ledger.conflicts.limit(bytes);
    }

    fn conflict_bytes(&self) -> u64 {
        self.core.ledger.conflicts.bytes()
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        visit("keys", number(self.core.table.key_count()));
        visit("memory_bytes", number(self.core.byte_count()));
        visit("memory_bytes_max", number(self.core.bytes_max));
        visit("snapshots_open", number(self.core.ledger.active.ticket_count()));
    }
}
