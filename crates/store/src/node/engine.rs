//! The engine of a cluster, as the store of a node that has a lease sees it.

use std::{path::Path, sync::Arc};

use nagi_kv::{
    CachedSize, Capabilities, Clock, CommitStamp, Compressor, Cursor, DiskActivity, Engine,
    EngineEvent, KeyRange, Limits, Maintenance, Next, RangeSize, Read, Result, Scratch, Snapshot,
    Space, Tuning, Txn, TxnOptions, Watch,
    reuse::CacheEstimate,
    sync::{Mutex, thread::JoinHandle},
};

use super::{counters, lease::Lease, listing::Listing, stripes, txn::NodeTxn};

/// See the module's header.
pub(super) struct Member {
    lease: Arc<Lease>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Member {
    pub(super) fn new(lease: Arc<Lease>) -> Member {
        let threads = lease.keep().into_iter().chain(Listing::keep(&lease)).collect();
        Member { lease, threads: Mutex::new(threads) }
    }

    fn inner(&self) -> &dyn Engine {
        &*self.lease.engine
    }

    fn leave(&self) {
        self.lease.listing.stop();
        self.lease.listing.end(&self.lease);
        self.lease.leave();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Reads with the sums of counters.
pub(super) struct Summed<R>(pub(super) R);

fn get<'a>(
    from: &'a (impl Read + ?Sized),
    (space, key): (Space, &[u8]),
    buf: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>> {
    match space {
        Space::Counters => {
            let is_there = counters::read(from, key, std::iter::empty(), buf)?;
            Ok(is_there.then_some(buf.as_slice()))
        }
        _ => from.get(space, &stripes::placed(space, key), buf),
    }
}

fn get_many(
    from: &(impl Read + ?Sized),
    space: Space,
    keys: &[&[u8]],
    visit: &mut dyn FnMut(usize, Option<&[u8]>),
) -> Result<()> {
    if space != Space::Counters {
        let keys = stripes::placed_all(space, keys);
        let lent: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        return from.get_many(space, &lent, visit);
    }
    let mut sum = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        visit(index, get(from, (space, key), &mut sum)?);
    }
    Ok(())
}

impl Read for Summed<Arc<dyn Snapshot>> {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        get(&*self.0, (space, key), buf)
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        get_many(&*self.0, space, keys, visit)
    }

    fn keys_at_once(&self) -> usize {
        self.0.keys_at_once()
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        stripes::cursor(&*self.0, space, start, end)
    }
}

impl Snapshot for Summed<Arc<dyn Snapshot>> {
    fn stamp(&self) -> CommitStamp {
        self.0.stamp()
    }
}

/// Reads of the newest data.
impl Read for Member {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        self.lease.check()?;
        get(self.inner().latest(), (space, key), buf)
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.lease.check()?;
        get_many(self.inner().latest(), space, keys, visit)
    }

    fn keys_at_once(&self) -> usize {
        self.inner().latest().keys_at_once()
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        self.lease.check()?;
        match stripes::has_stripes(space, start) {
            // Its cursors have to see the same.
            true => stripes::cursor(&*self.inner().snapshot()?, space, start, end),
            false => self.inner().latest().cursor(space, start, end),
        }
    }
}

impl Engine for Member {
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { adds_commute: true, ..self.inner().capabilities() }
    }

    fn limits(&self) -> Limits {
        self.inner().limits()
    }

    fn latest(&self) -> &(dyn Read + Sync) {
        self
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.lease.check()?;
        Ok(Arc::new(Summed(self.inner().snapshot()?)))
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        self.lease.check()?;
        Ok(Box::new(NodeTxn::new(self.inner().begin(options)?, &self.lease)))
    }

    fn begin_at(&self, stamp: CommitStamp) -> Result<Box<dyn Txn>> {
        self.lease.check()?;
        Ok(Box::new(NodeTxn::new(self.inner().begin_at(stamp)?, &self.lease)))
    }

    fn clock(&self) -> &Clock {
        self.inner().clock()
    }

    fn last_stamp(&self) -> CommitStamp {
        self.inner().last_stamp()
    }

    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        self.inner().advance(stamp)
    }

    fn sync(&self, stamp: CommitStamp) -> Result<()> {
        self.inner().sync(stamp)
    }
}

impl Maintenance for Member {
    /// Not fenced: the keys are those of an index that is not ready, whose ident a node that takes over does not use.
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        self.lease.check()?;
        self.inner().load(space, &mut |key, value| {
            let more = next(key, value)?;
            if more && stripes::has_stripes(space, key) {
                *key = stripes::placed(space, key).into_owned();
            }
            Ok(more)
        })
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        self.inner().scratch()
    }

    /// Not fenced: the keys are those of an ident that was dropped for good.
    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let range = KeyRange { space, start, end, live_count: None };
        self.drop_range_watched(range, &mut |_, _| true).map(drop)
    }

    fn drop_range_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        self.lease.check()?;
        for (start, end) in stripes::ranges(range.space, range.start, range.end)? {
            let range = KeyRange { start: &start, end: &end, ..range };
            if !self.inner().drop_range_watched(range, watch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The keys are those of the engine: see [`stripes::starts`].
    fn split_at(&self, space: Space, keys: &[&[u8]]) -> Result<usize> {
        self.lease.check()?;
        self.inner().split_at(space, keys)
    }

    fn tend_versions(&self, leads: bool, watch: &mut Watch<'_>) -> Result<()> {
        self.lease.check()?;
        self.inner().tend_versions(leads, watch)
    }

    fn flush(&self) -> Result<()> {
        self.inner().flush()
    }

    fn begin_close(&self) {
        self.inner().begin_close();
    }

    fn close(&self) -> Result<()> {
        self.leave();
        self.inner().close()
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.inner().checkpoint(dir)
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        let sizes = stripes::ranges(space, start, end)?;
        sizes.iter().map(|(from, to)| self.inner().approximate_size(space, from, to)).sum()
    }

    fn range_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Vec<RangeSize>> {
        self.inner().range_sizes(ranges)
    }

    fn cached_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Option<Vec<CachedSize>>> {
        self.inner().cached_sizes(ranges)
    }

    fn compact(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        self.inner().compact(space, start, end)
    }

    fn compact_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        self.inner().compact_watched(range, watch)
    }

    fn hold_files(&self, watch: &mut Watch<'_>) -> Result<bool> {
        self.inner().hold_files(watch)
    }

    fn release_files(&self) -> Result<()> {
        self.inner().release_files()
    }

    fn verify(&self, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
        self.inner().verify(watch)
    }
}

impl Tuning for Member {
    fn compressor(&self, space: Space) -> Compressor {
        self.inner().compressor(space)
    }

    fn limit_conflicts(&self, bytes: u64) {
        self.inner().limit_conflicts(bytes);
    }

    fn conflict_bytes(&self) -> u64 {
        self.inner().conflict_bytes()
    }

    fn resize_cache(&self, bytes: u64) {
        self.inner().resize_cache(bytes);
    }

    fn blocks_read(&self) -> u64 {
        self.inner().blocks_read()
    }

    fn cached_data_bytes(&self) -> u64 {
        self.inner().cached_data_bytes()
    }

    fn events_after(&self, number: u64) -> Vec<EngineEvent> {
        self.inner().events_after(number)
    }

    fn disk_activity(&self) -> Option<DiskActivity> {
        self.inner().disk_activity()
    }

    fn cache_estimate(&self) -> Option<CacheEstimate> {
        self.inner().cache_estimate()
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        self.inner().stats(visit);
    }
}
