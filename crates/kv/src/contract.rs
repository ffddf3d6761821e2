//! The engine contract: what the store requires of an ordered, transactional key-value engine.
//!
//! An engine implements [`Engine`] (reads, snapshots, transactions, the clock), [`Maintenance`] (compaction,
//! verification, checkpoints) and [`Tuning`] (figures and sizes). The store calls nothing else, so RocksDB, LMDB
//! and the memory engine can be exchanged, and a distributed engine can be added: what such an engine cannot
//! promise is named in [`Capabilities`](crate::Capabilities). The suite in `conformance` tests every sentence below
//! on every engine.
//!
//! ```text
//!   time     T1                                   T2                              stamps
//!    |       begin, reads k = 1 (at stamp 10)
//!    |                                            begin, reads k = 1 (at stamp 10)
//!    |       put k = 2       holds k from now on
//!    |                                            put k = 3  -> Conflict: T1 holds k
//!    |       commit                                                               k = 2 at stamp 11
//!    |                                            (begun again) reads k = 2 (at stamp 11)
//!    v                                            put k = 3, commit               k = 3 at stamp 12
//! ```
//!
//! - Snapshot isolation: a snapshot or transaction reads one state, plus the transaction's own writes.
//! - First writer wins: of two concurrent transactions that write (or `lock`) one key, at most one commits. The
//!   other one gets `Conflict` from `put`, `delete`, `lock` or `commit`, and has to begin again.
//! - A transaction that has not read anything conflicts only with transactions that are still open. Uniqueness is
//!   therefore checked by reading (or locking) a key and writing it in the same transaction.
//! - Stamps grow in commit order, and a reader that sees a commit sees all commits with smaller stamps.
//! - A stamp is a cluster time (see [`Clock`]). The stamp of a snapshot is exact: the snapshot contains every
//!   commit up to that stamp and no later one.
//! - Keys compare as unsigned bytes and are not empty. Values may be empty.

use std::{path::Path, sync::Arc};

use crate::{
    Batch, Capabilities, Clock, CommitStamp, Compressor, Durability, KeyRange, Limits, Next,
    RangeSize, Result, Savepoint, Scratch, Space, TxnOptions, Watch,
};

/// A store of ordered bytes. Shared by all threads; every method of it and of its two other traits may be called
/// at any time.
pub trait Engine: Maintenance + Tuning {
    /// Name in `serverStatus.storageEngine` and in the data directory's marker file.
    fn name(&self) -> &'static str;

    /// What it promises beyond the contract.
    fn capabilities(&self) -> Capabilities {
        Capabilities::IN_PROCESS
    }

    /// What fits.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The newest committed state: each call sees all commits that returned before it. Costs
    /// nothing to obtain; the cheapest way to read one or two keys.
    fn latest(&self) -> &(dyn Read + Sync);

    /// One consistent state for many reads. Keep it for milliseconds to seconds: old versions stay
    /// on disk as long as a snapshot may read them.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// A new transaction. Dropping it without `commit` undoes it. Its snapshot is taken at the
    /// first read.
    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>>;

    /// The clock that stamps commits. Stamps that were observed or taken for other purposes are ahead of
    /// the newest commit.
    fn clock(&self) -> &Clock;

    /// The newest stamp that a reader may have seen: no commit that is visible has a greater one.
    fn last_stamp(&self) -> CommitStamp;

    /// On return every commit up to `stamp` is visible to all reads that begin, and every later commit of
    /// this process has a greater stamp. Costs nothing if that is so already.
    fn advance(&self, stamp: CommitStamp) -> Result<()>;

    /// Returns once the commit with this stamp is durable. Many waiting threads share one sync.
    fn sync(&self, stamp: CommitStamp) -> Result<()>;
}

/// What is done to ranges and files rather than to keys: bulk loads, drops, copies, checks.
pub trait Maintenance: Send + Sync {
    /// Writes many entries outside any transaction: index builds on hidden idents, spilled runs.
    /// `next` fills key and value and says whether it did; any key order is allowed, ascending is
    /// fastest. No one else may write the keys meanwhile. Not atomic; durable on return (`Spill`
    /// never is).
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()>;

    /// A new place for bytes that are of use to this process only: spilled runs. Its room is given back when
    /// it is dropped, and by a crash. Not durable.
    fn scratch(&self) -> Result<Arc<dyn Scratch>>;

    /// Removes every key in `[start, end)` in milliseconds, whatever their number; the space is
    /// reused. Not transactional: the caller makes sure that no one needs the keys (snapshots and
    /// cursors opened earlier may or may not see them). Durable on return.
    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()>;

    /// Makes every commit that returned before durable.
    fn flush(&self) -> Result<()>;

    /// The last call before the end of the process: makes everything durable, and notes that the
    /// end was in order if the engine keeps such a note. Writes fail afterwards.
    fn close(&self) -> Result<()> {
        self.flush()
    }

    /// Writes a consistent copy of everything to the new folder `dir`, by hard links where it can.
    fn checkpoint(&self, dir: &Path) -> Result<()>;

    /// Bytes on disk of the keys in `[start, end)`; an estimate, cheap.
    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64>;

    /// What many ranges take, in their order: one look at the files for all of them. Estimates.
    fn range_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Vec<RangeSize>> {
        let size = |range: &KeyRange<'_>| {
            let bytes = self.approximate_size(range.space, range.start, range.end)?;
            Ok(RangeSize { bytes, ..RangeSize::default() })
        };
        ranges.iter().map(size).collect()
    }

    /// Rewrites the range so that removed and old versions give their space back. May take long.
    fn compact(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()>;

    /// As `compact`, in pieces that take seconds: `watch` is told bytes done and bytes in all, several
    /// times a second, and ends the work within a fraction of a second by saying false. What was
    /// rewritten stays so. False if it was ended.
    fn compact_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        let bytes = self.approximate_size(range.space, range.start, range.end)?;
        if !watch(0, bytes) {
            return Ok(false);
        }
        self.compact(range.space, range.start, range.end)?;
        watch(bytes, bytes);
        Ok(true)
    }

    /// Lets the files be as they are, but for the log: no rewriting until `release_files`. Returns when
    /// what was under way is done; false, and nothing held, if `watch` (told nothing) said so before.
    fn hold_files(&self, watch: &mut Watch<'_>) -> Result<bool> {
        Ok(watch(0, 0))
    }

    /// Undoes one `hold_files`.
    fn release_files(&self) -> Result<()> {
        Ok(())
    }

    /// Reads every byte that is on disk against its checksum, past all caches; what does not agree,
    /// with file and place. `watch` is asked several times a second and ends the wait for the answer
    /// by saying false: none then. An engine without files has nothing to check.
    fn verify(&self, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
        watch(0, 0);
        Ok(Some(Vec::new()))
    }
}

/// Figures, and limits that may change while the engine runs. What an engine does not have it leaves out.
pub trait Tuning: Send + Sync {
    /// How the engine compresses the blocks of this space; none if it does not.
    fn compressor(&self, _space: Space) -> Compressor {
        Compressor::None
    }

    /// Bounds the memory for keys that were written while older states are open. Where it is full, open
    /// transactions that write get `Conflict`; reading continues.
    fn limit_conflicts(&self, bytes: u64) {
        let _ = bytes;
    }

    /// What that memory is now, about.
    fn conflict_bytes(&self) -> u64 {
        0
    }

    /// Changes the memory of the engine's cache while it is in use: what is too much goes at once, as
    /// far as no one is reading it. An engine without a cache of its own does nothing.
    fn resize_cache(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Blocks of documents and index keys that reads of clients have fetched from disk since the start,
    /// large scans aside. Cheap. Zero where there are no blocks.
    fn blocks_read(&self) -> u64 {
        0
    }

    /// Gauges and counters by name ("cache_bytes", "disk_bytes", ...), sorted by name.
    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64));
}

/// Something that can be read.
pub trait Read: Send {
    /// Lends the value from the engine's own memory where it can, else from `buf`, whose old
    /// content is lost. Without allocation once `buf` is large enough.
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>>;

    /// Looks up many keys, fastest when they are sorted; `visit` gets each key's index once, in order.
    /// A key may come up more than once. The values lie in memory together, some dozens of them at a
    /// time. An engine that can read several at once does better than this.
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

    /// A cursor over the keys in `[start, end)`; an empty `end` means no upper bound. Bounds let
    /// the engine skip what lies outside, so give the tightest that are known. Not positioned yet.
    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>>;
}

/// One state of the whole store.
pub trait Snapshot: Read + Sync {
    /// Every commit up to this stamp is visible, and none behind it.
    fn stamp(&self) -> CommitStamp;
}

/// An open transaction. After an error other than from a read, drop it.
pub trait Txn: Read {
    /// Sets a key.
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key; one that is not there counts as written all the same.
    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()>;

    /// As `put`, without conflict detection. The caller guarantees that no other transaction can write the key while
    /// this one is open: the key is new, or it belongs to a key that this transaction has written or locked. An
    /// engine may detect conflicts all the same.
    fn put_exclusive(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(space, key, value)
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

    /// As `lock`; who has to wait for another holder asks `go_on` every few milliseconds, and gets
    /// `Conflict` at once if it says no.
    fn lock_while(
        &mut self,
        space: Space,
        key: &[u8],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()>;

    /// Adds to a counter: the value is an array of little-endian i64, absent elements are 0. Never
    /// conflicts; takes part in the commit. `put` and `add` of one key in one transaction: `put`
    /// first, and only when no one else adds.
    fn add(&mut self, space: Space, key: &[u8], deltas: &[i64]) -> Result<()>;

    /// Adds a value to a log. Its key is the commit stamp, 8 bytes big-endian, then the position
    /// within the transaction, 4 bytes big-endian. Not seen by this transaction's own reads.
    fn append(&mut self, log: Space, value: &[u8]) -> Result<()>;

    /// The stamp of the state that it reads: every commit up to it is visible, and none behind it. Takes
    /// the state if nothing was read before.
    fn read_stamp(&self) -> Result<CommitStamp>;

    /// Bytes staged so far, to be kept under `Limits::txn_bytes_max`.
    fn staged_bytes(&self) -> usize;

    /// A point to come back to.
    fn savepoint(&self) -> Savepoint;

    /// Undoes every write since the savepoint (keys stay locked).
    fn rollback_to(&mut self, savepoint: Savepoint);

    /// Makes the writes visible to everyone, all at once. A transaction without writes returns the
    /// newest stamp.
    fn commit(self: Box<Self>, durability: Durability) -> Result<CommitStamp>;
}

/// A position in a key range. Key and value are lent until the next move. Whether a transaction's
/// cursor sees writes made after it was positioned is unspecified: seek again. A move off either
/// end returns false and leaves the cursor unpositioned: seek again.
pub trait Cursor: Send {
    /// Goes to the first entry whose key is `key` or greater.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// Goes to the last entry whose key is less than `key` (an empty `key`: the last of all).
    /// So a half-open range reads alike in both directions.
    fn seek_back(&mut self, key: &[u8]) -> Result<bool>;

    /// Goes to the next greater key.
    fn next(&mut self) -> Result<bool>;

    /// Goes to the next smaller key.
    fn prev(&mut self) -> Result<bool>;

    /// Replaces the content of `batch` by copies of the current entry and of those after it, and stands on the
    /// first one that was not copied; says whether there is one. So a range is read by `seek`, then this until it
    /// says false. It copies one entry at least, if there is a position, and stops before it would have more than
    /// `max_entries` entries or `max_bytes` bytes of keys and values. After an error the batch means nothing.
    ///
    /// For engines whose steps cost a message or a lock. Where they do not, stepping is cheaper: it copies nothing.
    fn next_batch(
        &mut self,
        max_entries: usize,
        max_bytes: usize,
        batch: &mut Batch,
    ) -> Result<bool> {
        step_through(self, batch, true, max_entries, max_bytes)
    }

    /// As `next_batch`, with the entries before the current one.
    fn prev_batch(
        &mut self,
        max_entries: usize,
        max_bytes: usize,
        batch: &mut Batch,
    ) -> Result<bool> {
        step_through(self, batch, false, max_entries, max_bytes)
    }

    /// The current key; empty if unpositioned.
    fn key(&self) -> &[u8];

    /// The current value; empty if unpositioned.
    fn value(&self) -> &[u8];
}

/// What `Cursor::next_batch` (`forward`) and `prev_batch` do, step by step.
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
