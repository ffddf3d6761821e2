//! The engine contract: what the store requires of an ordered, transactional key-value engine.
//!
//! An engine implements [`Engine`] (reads, snapshots, transactions, the clock), [`Maintenance`] (compaction,
//! verification, checkpoints) and [`Tuning`] (gauges and limits). The store uses nothing else, so RocksDB, LMDB and
//! the memory engine can be exchanged, and a distributed engine can be added: promises that such an engine cannot
//! keep are listed in [`Capabilities`](crate::Capabilities). The suite in `conformance` tests every sentence below
//! on every engine.
//!
//! ```text
//!   time     T1                                   T2                              stamps
//!    |       begin, reads k = 1 (at stamp 10)
//!    |                                            begin, reads k = 1 (at stamp 10)
//!    |       put k = 2       holds k from now on
//!    |                                            put k = 3  -> Conflict: T1 holds k
//!    |       commit                                                               k = 2 at stamp 11
//!    |                                            (retried) reads k = 2 (at stamp 11)
//!    v                                            put k = 3, commit               k = 3 at stamp 12
//! ```
//!
//! - Snapshot isolation: a transaction reads one snapshot, plus its own writes.
//! - First writer wins: of two concurrent transactions that write (or `lock`) one key, at most one commits. The
//!   other one gets `Conflict` from `put`, `delete`, `lock` or `commit`, and has to be retried.
//! - A transaction that has not read anything conflicts only with transactions that are still open. Uniqueness is
//!   therefore checked by reading (or locking) a key and writing it in the same transaction.
//! - Stamps grow in commit order, and a reader that sees a commit sees all commits with smaller stamps.
//! - A stamp is a cluster time (see [`Clock`]). The stamp of a snapshot is exact: the snapshot contains every
//!   commit up to that stamp and no later one.
//! - Keys compare as unsigned bytes and are not empty. Values may be empty.

use std::{path::Path, sync::Arc};

use crate::{
    Batch, CachedSize, Capabilities, Clock, CommitStamp, Compressor, DiskActivity, Durability,
    EngineEvent, Error, KeyRange, Limits, Next, RangeSize, Result, Savepoint, Scratch, Space,
    TxnOptions, Watch, reuse::CacheEstimate,
};

/// A store of ordered bytes. It is shared by all threads; every method of it and of its two supertraits may be
/// called at any time.
pub trait Engine: Maintenance + Tuning {
    /// Name in `serverStatus.storageEngine` and in the data directory's marker file.
    fn name(&self) -> &'static str;

    /// The promises of this engine beyond the contract.
    fn capabilities(&self) -> Capabilities {
        Capabilities::IN_PROCESS
    }

    /// Limits of keys, values and transactions.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Reads of the newest committed data: each call sees all commits that returned before it. Costs nothing to
    /// obtain; the cheapest way to read one or two keys.
    fn latest(&self) -> &(dyn Read + Sync);

    /// A snapshot: one consistent view for many reads. It should live for milliseconds to seconds, because old
    /// versions stay on disk as long as a snapshot may read them.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// Begins a transaction. Dropping it without `commit` rolls it back. Its snapshot is taken at the first read.
    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>>;

    /// Begins a transaction that reads at a stamp of the past, and writes nothing. The stamp has to be one that a
    /// reader of any process has had, or that `advance` has returned for, so that all later commits have greater ones.
    /// The snapshot ends as if it had been taken at that time (`Limits::snapshot_age_ms_max`).
    ///
    /// # Errors
    /// `SnapshotTooOld` if the engine keeps no versions of that time; one that keeps those of open snapshots only
    /// always answers so.
    fn begin_at(&self, stamp: CommitStamp) -> Result<Box<dyn Txn>> {
        let _ = stamp;
        Err(Error::SnapshotTooOld)
    }

    /// The clock that assigns commit stamps. Stamps that were observed or taken for other purposes are greater than
    /// the newest commit's.
    fn clock(&self) -> &Clock;

    /// The newest stamp that a reader may have seen: no visible commit has a greater one.
    fn last_stamp(&self) -> CommitStamp;

    /// On return every commit up to `stamp` is visible to all reads that begin, and every later commit of this
    /// process has a greater stamp. Costs nothing if that is the case already.
    fn advance(&self, stamp: CommitStamp) -> Result<()>;

    /// Returns once the commit with this stamp is durable. Many waiting threads share one sync.
    fn sync(&self, stamp: CommitStamp) -> Result<()>;
}

/// Operations on ranges and files rather than on keys: bulk loads, drops, copies, checks.
pub trait Maintenance: Send + Sync {
    /// Writes many entries outside any transaction: index builds on hidden idents, spilled runs. `next` fills key
    /// and value and returns true if there was an entry. Any order of keys is allowed; ascending is fastest. No
    /// other thread may write the keys in the meantime. Not atomic; durable on return (except `Spill`, which is
    /// never durable).
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()>;

    /// Creates a scratch file for data of this process only, such as spilled runs. Its space is released when it is
    /// dropped, and by a crash. Not durable.
    fn scratch(&self) -> Result<Arc<dyn Scratch>>;

    /// Removes every key in `[start, end)` in milliseconds, whatever their number; the space is reused. Not
    /// transactional: the caller ensures that the keys are no longer needed (snapshots and cursors opened earlier
    /// may or may not see them). Durable on return.
    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()>;

    /// Like `drop_range`, for engines that remove the keys one by one (`Capabilities::drops_at_once`). `watch` is
    /// called several times a second, and cancels the removal by returning false. Returns false if it was cancelled;
    /// the keys that were removed stay removed.
    fn drop_range_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        if !watch(0, 0) {
            return Ok(false);
        }
        self.drop_range(range.space, range.start, range.end)?;
        Ok(true)
    }

    /// Ensures that versions of values that no reader needs any more are removed, where the engine does not do so by
    /// itself. Called every few seconds in each process with the data; `leads` in one of them, or for a moment in two.
    /// May take minutes. `watch` as in `drop_range_watched`.
    fn tend_versions(&self, leads: bool, watch: &mut Watch<'_>) -> Result<()> {
        let _ = (leads, watch);
        Ok(())
    }

    /// Ends ranges that are placed on machines of their own before each of these keys, so that writes on both sides
    /// need not go to one machine. Keys and values stay as they are, and so does their order. Takes some seconds, at
    /// most half a minute. Returns the number of keys before which a range ends now; 0 for an engine that has no such
    /// ranges (`Capabilities::splits_ranges`).
    ///
    /// # Errors
    /// If none of the keys could be reached. The engine works as well without the split.
    fn split_at(&self, space: Space, keys: &[&[u8]]) -> Result<usize> {
        let _ = (space, keys);
        Ok(0)
    }

    /// Makes every commit that has returned durable.
    fn flush(&self) -> Result<()>;

    /// `close` follows within seconds: ends work in the background that need not be done, so that requests that run
    /// finish sooner. Returns within milliseconds.
    fn begin_close(&self) {}

    /// The last call before the process exits: makes everything durable, and records an orderly shutdown if the
    /// engine keeps such a record. Writes fail afterwards.
    fn close(&self) -> Result<()> {
        self.flush()
    }

    /// Writes a consistent copy of everything to the new folder `dir`, with hard links where possible.
    fn checkpoint(&self, dir: &Path) -> Result<()>;

    /// Estimated bytes on disk of the keys in `[start, end)`. Cheap.
    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64>;

    /// Estimated sizes of many ranges, in their order. The engine's file list is read once for all of them.
    fn range_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Vec<RangeSize>> {
        let size = |range: &KeyRange<'_>| {
            let bytes = self.approximate_size(range.space, range.start, range.end)?;
            Ok(RangeSize { bytes, ..RangeSize::default() })
        };
        ranges.iter().map(size).collect()
    }

    /// What of each range is in memory; `None` if the engine has no cache of its own. May take milliseconds for each
    /// gigabyte of the cache.
    fn cached_sizes(&self, _: &[KeyRange<'_>]) -> Result<Option<Vec<CachedSize>>> {
        Ok(None)
    }

    /// Rewrites the range so that the space of removed and old versions is released. May take long.
    fn compact(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()>;

    /// Like `compact`, in pieces that take seconds. `watch` is called several times a second with the bytes done and
    /// the total bytes; if it returns false, the work is cancelled within a fraction of a second. Pieces that were
    /// rewritten stay rewritten. Returns false if it was cancelled.
    fn compact_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        let bytes = self.approximate_size(range.space, range.start, range.end)?;
        if !watch(0, bytes) {
            return Ok(false);
        }
        self.compact(range.space, range.start, range.end)?;
        watch(bytes, bytes);
        Ok(true)
    }

    /// Freezes the files except for the log: nothing is rewritten until `release_files`. Returns when rewriting in
    /// progress has finished; returns false, with nothing frozen, if `watch` (called without progress) cancelled it
    /// before.
    fn hold_files(&self, watch: &mut Watch<'_>) -> Result<bool> {
        Ok(watch(0, 0))
    }

    /// Reverses one `hold_files`.
    fn release_files(&self) -> Result<()> {
        Ok(())
    }

    /// Checks every byte on disk against its checksum, bypassing all caches. Returns the damage found, with file
    /// and offset. `watch` is called several times a second and cancels the check by returning false; then the
    /// result is none. An engine without files has nothing to check.
    fn verify(&self, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
        watch(0, 0);
        Ok(Some(Vec::new()))
    }
}

/// Gauges, and limits that may change at run time. An engine omits gauges that it does not have.
pub trait Tuning: Send + Sync {
    /// The compressor of the blocks of this space; `None` if the engine does not compress them.
    fn compressor(&self, _space: Space) -> Compressor {
        Compressor::None
    }

    /// Limits the memory for keys that were written while older snapshots are active. At the limit, open
    /// transactions that write get `Conflict`; reads are not affected.
    fn limit_conflicts(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Approximate size of that memory.
    fn conflict_bytes(&self) -> u64 {
        0
    }

    /// Changes the size of the engine's cache while it is in use. The excess is evicted at once, except for blocks
    /// that are being read. An engine without a cache does nothing.
    fn resize_cache(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Number of blocks of documents and index keys that client reads have fetched from disk since the start,
    /// without large scans. Cheap. Zero for an engine without blocks.
    fn blocks_read(&self) -> u64 {
        0
    }

    /// Bytes that the documents and index keys would take in the cache, without what was dropped. An estimate that is
    /// some seconds old; cheap. Zero if it is not known.
    fn cached_data_bytes(&self) -> u64 {
        0
    }

    /// The newest events after the one with this number, at most some hundred.
    fn events_after(&self, number: u64) -> Vec<EngineEvent> {
        let _ = number;
        Vec::new()
    }

    /// Where reads and writes have landed since the previous call; `None` if the engine does not tell. Reads and writes
    /// are recorded for some seconds after each call.
    fn disk_activity(&self) -> Option<DiskActivity> {
        None
    }

    /// What a cache of another size would do; `None` if the engine has none, or too few reads were made so far. Meant
    /// for listings: some microseconds.
    fn cache_estimate(&self) -> Option<CacheEstimate> {
        None
    }

    /// Gauges and counters by name ("cache_bytes", "disk_bytes", ...), sorted by name.
    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64));
}

/// See [`Read::keys_at_once`]: the number that RocksDB processes at once.
pub const KEYS_AT_ONCE: usize = 32;

/// A readable view.
pub trait Read: Send {
    /// Borrows the value from the engine's own memory if possible, otherwise from `buf`, whose previous content is
    /// lost. Does not allocate once `buf` is large enough.
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>>;

    /// Looks up many keys, fastest if they are sorted. `visit` is called once for each key's index, in order. A key
    /// may occur more than once. Some dozens of values are in memory at a time. An engine that can read several
    /// keys at once overrides the default implementation.
    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut buf = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            visit(index, self.get(space, key, &mut buf)?);
        }
        Ok(())
    }

    /// Keys that one call of `get_many` should have, at the most: more where each call is a round trip to another
    /// machine.
    fn keys_at_once(&self) -> usize {
        KEYS_AT_ONCE
    }

    /// A cursor over the keys in `[start, end)`; an empty `end` means no upper bound. Bounds let the engine skip
    /// other keys, so they should be as tight as possible. The cursor has no position yet.
    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>>;

    /// As `cursor`, for one of `several` cursors that the caller has at once and moves in turn: an engine that reads
    /// pages makes them smaller, so that all cursors together need about the memory of one.
    fn cursor_among(
        &self,
        several: usize,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Result<Box<dyn Cursor>> {
        let _ = several;
        self.cursor(space, start, end)
    }
}

/// A snapshot of the whole store.
pub trait Snapshot: Read + Sync {
    /// Every commit up to this stamp is visible, and no later one.
    fn stamp(&self) -> CommitStamp;
}

/// An open transaction. After an error it must be dropped, except after one from a read, or a `Conflict` from `lock`.
pub trait Txn: Read {
    /// Sets a key.
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key. A missing key counts as written, too.
    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()>;

    /// As `put`, without conflict detection. The caller guarantees that no other transaction can write the key while
    /// this one is open: the key is new, or it belongs to a key that this transaction has written or locked. An
    /// engine may detect conflicts all the same.
    fn put_exclusive(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(space, key, value)
    }

    /// As `put_exclusive`, for a key that has no value, of which the caller is sure.
    fn put_new(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_exclusive(space, key, value)
    }

    /// As `put`, where `old` is the present value of the key, as this transaction has read it. An engine may write the
    /// difference alone, so another `old` destroys the value.
    fn put_over(&mut self, space: Space, key: &[u8], old: &[u8], new: &[u8]) -> Result<()> {
        let _ = old;
        self.put(space, key, new)
    }

    /// As `delete`, with the guarantee of [`Txn::put_exclusive`].
    fn delete_exclusive(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.delete(space, key)
    }

    /// Makes a read of the key conflict as if it were written. `lock` then `get` reads the newest
    /// committed value without a conflict if nothing was read before.
    fn lock(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.lock_while(space, key, &mut || true)
    }

    /// Like `lock`; while it waits for another holder, it calls `go_on` every few milliseconds, and returns
    /// `Conflict` at once if that returns false.
    fn lock_while(
        &mut self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()>;

    /// True if another transaction has the key now that was begun as one of a client (`TxnOptions::of_client`). Always
    /// false where conflicts are found by the commit: then nothing waits for it.
    fn is_held_by_client(&self, _space: Space, _key: &[u8]) -> bool {
        false
    }

    /// Reads a key that this transaction has locked or written: the newest committed value, or its own. Takes no
    /// snapshot, because no other transaction can have changed the key since the lock.
    fn get_locked<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        self.get(space, key, buf)
    }

    /// Reads keys that the transaction will probably read by `get` or `get_locked`, if that saves round trips: an
    /// engine whose reads are fast does nothing. It changes nothing that can be read.
    fn fetch(&mut self, _space: Space, _keys: &[&[u8]]) -> Result<()> {
        Ok(())
    }

    /// Adds to a counter: the value is an array of little-endian i64, absent elements are 0. It never conflicts,
    /// and takes effect with the commit. `put` and `add` of one key in one transaction: `put` must come first, and
    /// is allowed only if no other transaction adds.
    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()>;

    /// Appends a value to a log. Its key is a stamp (8 bytes, big-endian), followed by a position (4 bytes,
    /// big-endian). The transaction's own reads do not see it.
    ///
    /// Each entry takes a stamp of its own at the commit, at position 0, unless it is to be `joined` to the entry
    /// before it: then it has the stamp of that one, at the next position. The stamps of a commit are consecutive,
    /// and the last of them is the stamp of the commit.
    fn append(&mut self, log: Space, value: &[u8], joined: bool) -> Result<()>;

    /// Its snapshot, without its own writes; takes it if nothing was read before. So the caller can compute what it
    /// writes from many reads: a key that was committed after this snapshot is a `Conflict` for this transaction.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// The stamp of its snapshot: every commit up to it is visible, and no later one. Takes the snapshot if nothing
    /// was read before.
    fn read_stamp(&self) -> Result<CommitStamp>;

    /// Makes the stamp of the commit greater than `stamp`, which this engine has told. An engine whose stamps grow from
    /// commit to commit (`Capabilities::one_order`) has nothing to do. Another one may need round trips in the commit,
    /// if the transaction's snapshot is older.
    fn order_after(&mut self, stamp: CommitStamp) {
        let _ = stamp;
    }

    /// Bytes staged so far. The caller keeps them below `Limits::txn_bytes_max`.
    fn staged_bytes(&self) -> usize;

    /// Creates a savepoint.
    fn savepoint(&self) -> Savepoint;

    /// Undoes every write since the savepoint (keys stay locked).
    fn rollback_to(&mut self, savepoint: Savepoint);

    /// Makes all writes visible at once. A transaction without writes returns the newest stamp.
    fn commit(self: Box<Self>, durability: Durability) -> Result<CommitStamp>;
}

/// A position in a key range. Key and value are borrowed until the next move. It is unspecified if a transaction's
/// cursor sees writes made after it was positioned; the caller has to seek again. A move past either end returns
/// false and leaves the cursor without a position; the caller has to seek again.
pub trait Cursor: Send {
    /// Moves to the first entry whose key is `key` or greater.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// Moves to the last entry whose key is less than `key` (with an empty `key`, to the last of all). So a
    /// half-open range is read in the same way in both directions.
    fn seek_back(&mut self, key: &[u8]) -> Result<bool>;

    /// Tells that a `seek` for this key (`forward`) or a `seek_back` is the next move. An engine whose requests take
    /// time begins one now, so that a caller with several cursors waits for all of them at once.
    fn prepare(&mut self, key: &[u8], forward: bool) {
        let _ = (key, forward);
    }

    /// Moves to the next greater key.
    fn next(&mut self) -> Result<bool>;

    /// Moves to the next smaller key.
    fn prev(&mut self) -> Result<bool>;

    /// Replaces the content of `batch` by copies of the current entry and of the entries after it, and moves to the
    /// first entry that was not copied. Returns true if there is one. So a range is read by a `seek` followed by
    /// this call until it returns false. It copies at least one entry if there is a position, and stops before it
    /// would exceed `max_entries` entries or `max_bytes` bytes of keys and values. After an error the batch is
    /// undefined.
    ///
    /// This is for engines whose steps cost a message or a lock. For others single steps are cheaper, because they
    /// copy nothing.
    fn next_batch(
        &mut self,
        max_entries: usize,
        max_bytes: usize,
        batch: &mut Batch,
    ) -> Result<bool> {
        step_through(self, batch, true, max_entries, max_bytes)
    }

    /// Like `next_batch`, for the entries before the current one.
    fn prev_batch(
        &mut self,
        max_entries: usize,
        max_bytes: usize,
        batch: &mut Batch,
    ) -> Result<bool> {
        step_through(self, batch, false, max_entries, max_bytes)
    }

    /// The current key; empty if the cursor has no position.
    fn key(&self) -> &[u8];

    /// The current value; empty if the cursor has no position.
    fn value(&self) -> &[u8];
}

/// The default implementation of `Cursor::next_batch` (`forward`) and `prev_batch`: step by step.
pub(crate) fn step_through<C: Cursor + ?Sized>(
    cursor: &mut C,
    batch: &mut Batch,
    forward: bool,
    max_entries: usize,
    max_bytes: usize,
) -> Result<bool> {
    batch.clear();
    loop {
        let (key, value) = (cursor.key(), cursor.value());
        if key.is_empty() || !batch.takes(key.len() + value.len(), max_entries, max_bytes) {
            return Ok(!key.is_empty());
        }
        batch.push(key, value);
        let found = if forward { cursor.next()? } else { cursor.prev()? };
        if !found {
            return Ok(false);
        }
    }
}
