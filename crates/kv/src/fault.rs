//! An engine with fault injection: the layers above must handle every error that an engine may return.
//!
//! `Faults::arm(point, skip, times, error)` lets `skip` calls pass and makes the next `times` calls fail.

use std::{path::Path, sync::Arc};

use parking_lot::{Condvar, Mutex};

use crate::{
    Batch, CachedSize, Capabilities, Clock, CommitStamp, Compressor, Cursor, DiskActivity,
    Durability, Engine, EngineEvent, Error, KeyRange, Limits, Maintenance, Next, RangeSize, Read,
    Result, Savepoint, Scratch, Snapshot, Space, Tuning, Txn, TxnOptions, Watch,
    reuse::CacheEstimate,
};

/// The calls at which an error can be injected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// `get` and `get_many`.
    Get,
    /// Opening and moving a cursor.
    Cursor,
    /// `begin` and `snapshot`.
    Begin,
    /// `put`, `delete`, `lock`, `add`, `append`.
    Write,
    /// Before any part of the commit is written.
    Commit,
    /// After the commit: it is visible, but its caller gets an error (`Undetermined`).
    Committed,
    /// `load`, `drop_range`, `flush`, `checkpoint`, `compact`.
    Maintain,
}

struct Armed {
    point: Point,
    skip: u64,
    times: u64,
    error: fn() -> Error,
}

/// The controls of a `Faulty` engine.
#[derive(Clone, Default)]
pub struct Faults(Arc<Controls>);

#[derive(Default)]
struct Controls {
    armed: Mutex<Vec<Armed>>,
    /// Calls at this point wait.
    held: Mutex<Option<Point>>,
    changed: Condvar,
}

impl Faults {
    /// Arms a fault: `skip` calls at `point` pass, the next `times` fail.
    pub fn arm(&self, point: Point, skip: u64, times: u64, error: fn() -> Error) {
        self.0.armed.lock().push(Armed { point, skip, times, error });
    }

    /// Removes all faults.
    pub fn disarm(&self) {
        self.0.armed.lock().clear();
    }

    /// Makes the calls at `point` wait, as a disk does that stands still.
    pub fn hold(&self, point: Point) {
        *self.0.held.lock() = Some(point);
    }

    /// Lets those go on that wait.
    pub fn let_go(&self) {
        *self.0.held.lock() = None;
        self.0.changed.notify_all();
    }

    fn check(&self, point: Point) -> Result<()> {
        let mut held = self.0.held.lock();
        while *held == Some(point) {
            self.0.changed.wait(&mut held);
        }
        drop(held);
        let mut armed = self.0.armed.lock();
        let Some(index) = armed.iter().position(|armed| armed.point == point) else {
            return Ok(());
        };
        let fault = &mut armed[index];
        if fault.skip > 0 {
            fault.skip -= 1;
            return Ok(());
        }
        fault.times = fault.times.saturating_sub(1);
        let error = (fault.error)();
        if fault.times == 0 {
            armed.remove(index);
        }
        Err(error)
    }
}

/// Wraps any engine with `Faults`.
pub struct Faulty {
    inner: Arc<dyn Engine>,
    faults: Faults,
    cache_estimate: Option<CacheEstimate>,
}

impl Faulty {
    pub fn new(inner: Arc<dyn Engine>, faults: Faults) -> Faulty {
        Faulty { inner, faults, cache_estimate: None }
    }

    /// The engine says this of its cache.
    #[must_use]
    pub fn with_cache_estimate(self, estimate: CacheEstimate) -> Faulty {
        Faulty { cache_estimate: Some(estimate), ..self }
    }
}

/// A reader, cursor, snapshot or transaction with faults.
struct With<T> {
    inner: T,
    faults: Faults,
}

fn get<'a>(
    faults: &Faults,
    read: &'a (impl Read + ?Sized),
    (space, key): (Space, &[u8]),
    buf: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>> {
    faults.check(Point::Get)?;
    read.get(space, key, buf)
}

fn cursor(
    faults: &Faults,
    read: &(impl Read + ?Sized),
    space: Space,
    (start, end): (&[u8], &[u8]),
) -> Result<Box<dyn Cursor>> {
    faults.check(Point::Cursor)?;
    let inner = read.cursor(space, start, end)?;
    Ok(Box::new(With { inner, faults: faults.clone() }))
}

macro_rules! read {
    ($type:ty, $this:ident => $read:expr) => {
        impl Read for $type {
            fn get<'a>(
                &'a self,
                space: Space,
                key: &[u8],
                buf: &'a mut Vec<u8>,
            ) -> Result<Option<&'a [u8]>> {
                let $this = self;
                get(&self.faults, $read, (space, key), buf)
            }

            fn get_many(
                &self,
                space: Space,
                keys: &[&[u8]],
                visit: &mut dyn FnMut(usize, Option<&[u8]>),
            ) -> Result<()> {
                self.faults.check(Point::Get)?;
                let $this = self;
                $read.get_many(space, keys, visit)
            }

            fn keys_at_once(&self) -> usize {
                let $this = self;
                $read.keys_at_once()
            }

            fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
                let $this = self;
                cursor(&self.faults, $read, space, (start, end))
            }
        }
    };
}

read!(Faulty, faulty => faulty.inner.latest());
read!(With<Arc<dyn Snapshot>>, with => &*with.inner);
read!(With<Box<dyn Txn>>, with => &*with.inner);

impl Snapshot for With<Arc<dyn Snapshot>> {
    fn stamp(&self) -> CommitStamp {
        self.inner.stamp()
    }
}

impl Txn for With<Box<dyn Txn>> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.put(space, key, value)
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.delete(space, key)
    }

    fn put_over(&mut self, space: Space, key: &[u8], old: &[u8], new: &[u8]) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.put_over(space, key, old, new)
    }

    fn put_exclusive(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.put_exclusive(space, key, value)
    }

    fn put_new(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.put_new(space, key, value)
    }

    fn delete_exclusive(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.delete_exclusive(space, key)
    }

    fn lock_while(
        &mut self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.lock_while(space, key, go_on)
    }

    fn is_held_by_client(&self, space: Space, key: &[u8]) -> bool {
        self.inner.is_held_by_client(space, key)
    }

    fn get_locked<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        self.faults.check(Point::Get)?;
        self.inner.get_locked(space, key, buf)
    }

    fn fetch(&mut self, space: Space, keys: &[&[u8]]) -> Result<()> {
        self.faults.check(Point::Get)?;
        self.inner.fetch(space, keys)
    }

    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.add(space, key, deltas)
    }

    fn append(&mut self, log: Space, value: &[u8], joined: bool) -> Result<()> {
        self.faults.check(Point::Write)?;
        self.inner.append(log, value, joined)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.faults.check(Point::Get)?;
        self.inner.snapshot()
    }

    fn read_stamp(&self) -> Result<CommitStamp> {
        self.faults.check(Point::Get)?;
        self.inner.read_stamp()
    }

    fn order_after(&mut self, stamp: CommitStamp) {
        self.inner.order_after(stamp);
    }

    fn staged_bytes(&self) -> usize {
        self.inner.staged_bytes()
    }

    fn savepoint(&self) -> Savepoint {
        self.inner.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.inner.rollback_to(savepoint);
    }

    fn commit(self: Box<Self>, durability: Durability) -> Result<CommitStamp> {
        self.faults.check(Point::Commit)?;
        let faults = self.faults;
        let stamp = self.inner.commit(durability)?;
        faults.check(Point::Committed)?;
        Ok(stamp)
    }
}

impl Cursor for With<Box<dyn Cursor>> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.faults.check(Point::Cursor)?;
        self.inner.seek(key)
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.faults.check(Point::Cursor)?;
        self.inner.seek_back(key)
    }

    fn next(&mut self) -> Result<bool> {
        self.faults.check(Point::Cursor)?;
        self.inner.next()
    }

    fn prev(&mut self) -> Result<bool> {
        self.faults.check(Point::Cursor)?;
        self.inner.prev()
    }

    fn next_batch(&mut self, entries: usize, bytes: usize, batch: &mut Batch) -> Result<bool> {
        self.faults.check(Point::Cursor)?;
        self.inner.next_batch(entries, bytes, batch)
    }

    fn prev_batch(&mut self, entries: usize, bytes: usize, batch: &mut Batch) -> Result<bool> {
        self.faults.check(Point::Cursor)?;
        self.inner.prev_batch(entries, bytes, batch)
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }
}

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn latest(&self) -> &(dyn Read + Sync) {
        self
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.faults.check(Point::Begin)?;
        Ok(Arc::new(With { inner: self.inner.snapshot()?, faults: self.faults.clone() }))
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        self.faults.check(Point::Begin)?;
        Ok(Box::new(With { inner: self.inner.begin(options)?, faults: self.faults.clone() }))
    }

    fn begin_at(&self, stamp: CommitStamp) -> Result<Box<dyn Txn>> {
        self.faults.check(Point::Begin)?;
        Ok(Box::new(With { inner: self.inner.begin_at(stamp)?, faults: self.faults.clone() }))
    }

    fn clock(&self) -> &Clock {
        self.inner.clock()
    }

    fn last_stamp(&self) -> CommitStamp {
        self.inner.last_stamp()
    }

    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        self.faults.check(Point::Commit)?;
        self.inner.advance(stamp)
    }

    fn sync(&self, stamp: CommitStamp) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.sync(stamp)
    }
}

impl Maintenance for Faulty {
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.load(space, next)
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        self.faults.check(Point::Maintain)?;
        self.inner.scratch()
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.drop_range(space, start, end)
    }

    fn drop_range_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        self.faults.check(Point::Maintain)?;
        self.inner.drop_range_watched(range, watch)
    }

    fn tend_versions(&self, leads: bool, watch: &mut Watch<'_>) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.tend_versions(leads, watch)
    }

    fn split_at(&self, space: Space, keys: &[&[u8]]) -> Result<usize> {
        self.faults.check(Point::Maintain)?;
        self.inner.split_at(space, keys)
    }

    fn flush(&self) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.flush()
    }

    fn begin_close(&self) {
        self.inner.begin_close();
    }

    fn close(&self) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.close()
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.checkpoint(dir)
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        self.inner.approximate_size(space, start, end)
    }

    fn range_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Vec<RangeSize>> {
        self.inner.range_sizes(ranges)
    }

    fn cached_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Option<Vec<CachedSize>>> {
        self.inner.cached_sizes(ranges)
    }

    fn compact(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        self.faults.check(Point::Maintain)?;
        self.inner.compact(space, start, end)
    }

    fn compact_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        self.faults.check(Point::Maintain)?;
        self.inner.compact_watched(range, watch)
    }

    fn hold_files(&self, watch: &mut Watch<'_>) -> Result<bool> {
        self.faults.check(Point::Maintain)?;
        self.inner.hold_files(watch)
    }

    fn release_files(&self) -> Result<()> {
        self.inner.release_files()
    }

    fn verify(&self, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
        self.inner.verify(watch)
    }
}

impl Tuning for Faulty {
    fn compressor(&self, space: Space) -> Compressor {
        self.inner.compressor(space)
    }

    fn limit_conflicts(&self, bytes: u64) {
        self.inner.limit_conflicts(bytes);
    }

    fn conflict_bytes(&self) -> u64 {
        self.inner.conflict_bytes()
    }

    fn resize_cache(&self, bytes: u64) {
        self.inner.resize_cache(bytes);
    }

    fn blocks_read(&self) -> u64 {
        self.inner.blocks_read()
    }

    fn cached_data_bytes(&self) -> u64 {
        self.inner.cached_data_bytes()
    }

    fn events_after(&self, number: u64) -> Vec<EngineEvent> {
        self.inner.events_after(number)
    }

    fn disk_activity(&self) -> Option<DiskActivity> {
        self.inner.disk_activity()
    }

    fn cache_estimate(&self) -> Option<CacheEstimate> {
        self.cache_estimate.clone().or_else(|| self.inner.cache_estimate())
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        self.inner.stats(visit);
    }
}
