//! The iterator, and everything that it points to.
//!
//! RocksDB keeps pointers to the bounds and to the read options, and requires an open database, so the cursor owns
//! all of them. They are freed in the order iterator, options, bounds, database.
//!
//! There are two iterators below a cursor, created when they are needed. Forward moves within a snapshot are those of a
//! [`Scan`], which takes half of the instructions. Moves backward, and reads of the newest data, are those of RocksDB's
//! public iterator. A move and the entry that it reaches are one call of C++ (`native/cursor.cc`, `native/scan.cc`).
//!
//! A large scan must not evict frequently read blocks from the cache. A cursor that has moved over
//! `JUDGED_AFTER_BYTES` estimates the size of its range. If the range is too large for the cache, it continues with
//! an iterator that uses cached blocks but adds none. While all data fits into the cache, no range is too large:
//! otherwise blocks that left the cache once would be read from disk by every scan.
#![expect(unsafe_code)]

use std::{ffi::c_int, ptr, sync::Arc};

use nagi_kv::{Cursor, Error, Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::{
    ffi::{Db, bytes, checked, slice},
    native::{Entry, nagi_iterator_step},
    snapshot::SnapshotHandle,
};
use super::scan::Scan;
use crate::large_reads::{self, Backward, Earlier, LARGE_BYTES};

/// The direction of a step, as `nagi_iterator_step` expects it.
const FORWARD: c_int = 1;
const BACKWARD: c_int = -1;
const NONE: c_int = 0;

/// Before that, the cursor may belong to a query with a small limit.
const JUDGED_AFTER_BYTES: usize = 256 << 10;
/// A range may be cached if it takes at most one in this many parts of the cache.
const SPARED_PART: u64 = 4;
/// Data blocks are uncompressed in the cache; their growth is estimated, in halves.
const GROWTH_HALVES: u64 = 3;
/// Moves in one direction after which the iterator of the other one is freed.
const MOVES_WITHOUT_OTHER: u32 = 200;
/// Sorts after every key of a space.
pub(crate) const LAST_KEY: [u8; 16] = [0xff; 16];

pub(crate) struct RocksCursor {
    /// The public iterator; null until it is needed.
    raw: *mut ffi::rocksdb_iterator_t,
    /// None before the first search, and without a snapshot.
    scan: Option<Scan>,
    /// True if the position is that of the public iterator.
    is_public: bool,
    /// Moves since the other iterator was last used, if there are both.
    moves_without_other: u32,
    reads: *mut ffi::rocksdb_readoptions_t,
    start: Box<[u8]>,
    end: Box<[u8]>,
    space: Space,
    /// The current entry, if there is a position.
    entry: Entry,
    positioned: bool,
    /// Bytes moved over; not counted any more once the range was judged.
    moved_bytes: usize,
    judged: bool,
    /// True if the range cannot contain a key, whatever the data.
    empty: bool,
    /// Kept alive, because the iterator reads from them.
    snapshot: Option<Arc<SnapshotHandle>>,
    db: Arc<Db>,
}

// SAFETY: an iterator may move between threads, it is used by one at a time (`&mut`).
unsafe impl Send for RocksCursor {}

impl RocksCursor {
    pub(crate) fn new(
        db: &Arc<Db>,
        snapshot: Option<&Arc<SnapshotHandle>>,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> RocksCursor {
        let (start, end): (Box<[u8]>, Box<[u8]>) = (start.into(), end.into());
        let empty = !end.is_empty() && start >= end;
        // SAFETY: options and bounds live in the cursor, as long as the iterator; boxed bytes do
        // not move with the cursor.
        unsafe {
            let reads = ffi::rocksdb_readoptions_create();
            if !start.is_empty() {
                ffi::rocksdb_readoptions_set_iterate_lower_bound(reads, bytes(&start), start.len());
            }
            if !end.is_empty() {
                ffi::rocksdb_readoptions_set_iterate_upper_bound(reads, bytes(&end), end.len());
            }
            if let Some(snapshot) = snapshot {
                ffi::rocksdb_readoptions_set_snapshot(reads, snapshot.raw());
                // Otherwise the iterator would keep alive all memtables from when it was created, and the files
                // made from them.
                ffi::rocksdb_readoptions_set_auto_refresh_iterator_with_snapshot(reads, 1);
            }
            ffi::rocksdb_readoptions_set_background_purge_on_iterator_cleanup(reads, 1);
            RocksCursor {
                raw: ptr::null_mut(),
                scan: None,
                is_public: false,
                moves_without_other: 0,
                reads,
                start,
                end,
                space,
                entry: Entry::NONE,
                positioned: false,
                moved_bytes: 0,
                judged: false,
                empty,
                snapshot: snapshot.map(Arc::clone),
                db: Arc::clone(db),
            }
        }
    }

    /// A cursor over a whole space that adds its blocks to the cache, however many they are.
    pub(crate) fn filling(db: &Arc<Db>, space: Space) -> RocksCursor {
        let mut cursor = RocksCursor::new(db, None, space, &[], &[]);
        cursor.judged = true;
        cursor
    }

    /// The public iterator, for the moves that follow.
    fn public(&mut self) -> *mut ffi::rocksdb_iterator_t {
        if self.raw.is_null() {
            self.raw = self.db.iterator(self.reads, self.space);
        }
        self.is_public = true;
        self.moves_without_other = 0;
        self.raw
    }

    /// Moves the public iterator by one entry, or only reads the entry that a search has reached. Returns true if
    /// there is one.
    fn step(&mut self, steps: c_int) -> Result<bool> {
        // SAFETY: the iterator is live, and positioned if it is to move.
        self.positioned = unsafe { nagi_iterator_step(self.raw, steps, &raw mut self.entry) } != 0;
        if !self.positioned {
            // SAFETY: the iterator is live.
            unsafe { checked(|error| ffi::rocksdb_iter_get_error(self.raw, error))? };
        }
        Ok(self.positioned)
    }

    /// Moves to the first entry at or behind a key.
    fn search(&mut self, key: &[u8]) -> Result<bool> {
        self.positioned = false;
        if self.snapshot.is_none() {
            return self.search_publicly(key);
        }
        let (db, reads, space) = (&self.db, self.reads, self.space);
        // SAFETY: the options have a snapshot, and are freed after the scan.
        let scan = self.scan.get_or_insert_with(|| unsafe { Scan::new(db, reads, space) });
        self.is_public = false;
        self.moves_without_other = 0;
        self.positioned = scan.seek(key, &mut self.entry)?;
        Ok(self.positioned)
    }

    fn search_publicly(&mut self, key: &[u8]) -> Result<bool> {
        let raw = self.public();
        // SAFETY: the iterator is live; the key is read during the call.
        unsafe { ffi::rocksdb_iter_seek(raw, bytes(key), key.len()) };
        self.step(NONE)
    }

    /// Moves to the last entry of the change log, whose newest file knows its key; false if it is not there any more. A
    /// search backward reads the last block of each file: gigabytes, if many files have large values.
    fn search_newest(&mut self) -> Result<bool> {
        let files = self.db.live_files();
        let files = files.into_iter().filter(|file| file.space == self.space);
        let Some(mut last) = files.map(|file| file.largest).max() else { return Ok(false) };
        if !self.search(&last)? {
            return Ok(false);
        }
        // What follows is in memory.
        loop {
            last.clear();
            last.extend_from_slice(self.key());
            if !self.step_forward()? {
                return self.search(&last);
            }
        }
    }

    fn step_forward(&mut self) -> Result<bool> {
        if self.is_public {
            if self.snapshot.is_none() {
                return self.step(FORWARD);
            }
            let key = self.key().to_vec();
            if !self.search(&key)? {
                return Ok(false);
            }
        }
        let Some(scan) = &mut self.scan else { return Ok(false) };
        self.positioned = false;
        self.positioned = scan.next(&mut self.entry)?;
        Ok(self.positioned)
    }

    fn step_backward(&mut self) -> Result<bool> {
        if !self.is_public {
            let key = self.key().to_vec();
            if !self.search_publicly(&key)? {
                return Ok(false);
            }
        }
        self.step(BACKWARD)
    }

    /// One step of a scan, which may judge the size of its range.
    fn advance(&mut self, steps: c_int) -> Result<bool> {
        if !self.positioned {
            return Ok(false);
        }
        let moved = if steps == BACKWARD { self.step_backward() } else { self.step_forward() };
        if !moved? {
            return Ok(false);
        }
        if self.scan.is_some() && !self.raw.is_null() {
            self.leave_other();
        }
        if !self.judged {
            self.moved_bytes += self.key().len() + self.value().len();
            if self.moved_bytes >= JUDGED_AFTER_BYTES {
                self.judged = true;
                if self.is_large()? {
                    return self.spare_the_cache(steps);
                }
            }
        }
        Ok(true)
    }

    /// Returns true if caching the whole range would evict much of the present contents.
    fn is_large(&self) -> Result<bool> {
        if self.db.data.fits() {
            return Ok(false);
        }
        let end = if self.end.is_empty() { &LAST_KEY[..] } else { &*self.end };
        let bytes = self.db.approximate_size(self.space, &self.start, end)? * GROWTH_HALVES / 2;
        let capacity = self.db.cache_capacity();
        let free = capacity.saturating_sub(self.db.cache_usage());
        Ok(bytes > free.max(capacity / SPARED_PART))
    }

    /// Continues with an iterator that adds nothing to the cache. Without a snapshot the current key may have been
    /// deleted; then it continues with the next one in the direction of the scan.
    fn spare_the_cache(&mut self, steps: c_int) -> Result<bool> {
        let key = self.key().to_vec();
        self.free();
        // SAFETY: no iterator uses the options now.
        unsafe { ffi::rocksdb_readoptions_set_fill_cache(self.reads, 0) };
        if steps != BACKWARD {
            return self.search(&key);
        }
        let raw = self.public();
        // SAFETY: the iterator is live; the key is read during the call.
        unsafe { ffi::rocksdb_iter_seek_for_prev(raw, bytes(&key), key.len()) };
        self.step(NONE)
    }

    /// Waits until this thread may hold the value, if it is large. The block is not held meanwhile: it is searched
    /// again.
    fn hold(&mut self, found: bool) -> Result<bool> {
        let length = self.entry.value_length;
        if !found || length <= LARGE_BYTES || large_reads::may_hold(length, false) {
            return Ok(found);
        }
        let (key, backward) = (self.key().to_vec(), self.is_public && self.snapshot.is_some());
        self.free();
        if !large_reads::may_hold(length, true) {
            return Err(Error::NoMemory);
        }
        if !backward {
            return self.search(&key);
        }
        let raw = self.public();
        // SAFETY: the iterator is live; the key is read during the call.
        unsafe { ffi::rocksdb_iter_seek_for_prev(raw, bytes(&key), key.len()) };
        self.step(NONE)
    }

    /// Frees the iterator that is not used, once the cursor seems to stay in its direction. It is not renewed while
    /// it is not moved, and keeps old memtables and files.
    fn leave_other(&mut self) {
        self.moves_without_other += 1;
        if self.moves_without_other < MOVES_WITHOUT_OTHER {
            return;
        }
        match self.is_public {
            true => self.scan = None,
            false => self.free_public(),
        }
    }

    fn free_public(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: created by `public`, and not used any more.
            unsafe { ffi::rocksdb_iter_destroy(self.raw) };
            self.raw = ptr::null_mut();
        }
    }

    /// Frees the iterators, which the options must outlive.
    fn free(&mut self) {
        self.positioned = false;
        self.scan = None;
        self.free_public();
    }
}

impl Drop for RocksCursor {
    fn drop(&mut self) {
        self.free();
        // SAFETY: created in `new`; snapshot and database are dropped after this.
        unsafe { ffi::rocksdb_readoptions_destroy(self.reads) };
    }
}

impl Cursor for RocksCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if self.empty {
            return Ok(false);
        }
        if key < &*self.start {
            let start = self.start.clone();
            let found = self.search(&start)?;
            return self.hold(found);
        }
        let found = self.search(key)?;
        self.hold(found)
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        if self.empty {
            return Ok(false);
        }
        let beyond = key.is_empty() || (!self.end.is_empty() && key > &*self.end);
        if self.space == Space::Changes
            && self.snapshot.is_none()
            && beyond
            && self.end.is_empty()
            && self.search_newest()?
        {
            return self.hold(true);
        }
        let raw = self.public();
        let bound = if beyond { &*self.end } else { key };
        let backward = Backward::begin(Earlier::Kept);
        // SAFETY: the iterator is live; the bound is read during the call.
        unsafe {
            match bound {
                [] => ffi::rocksdb_iter_seek_to_last(raw),
                _ => ffi::rocksdb_iter_seek_for_prev(raw, bytes(bound), bound.len()),
            }
        }
        let found = self.step(NONE)?;
        let bound = if beyond { &*self.end } else { key };
        let found = match found && self.key() == bound {
            true => self.step(BACKWARD)?,
            false => found,
        };
        drop(backward);
        self.hold(found)
    }

    fn next(&mut self) -> Result<bool> {
        let found = self.advance(FORWARD)?;
        self.hold(found)
    }

    fn prev(&mut self) -> Result<bool> {
        let backward = Backward::begin(Earlier::Replaced);
        let found = self.advance(BACKWARD)?;
        drop(backward);
        self.hold(found)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if !self.positioned {
            return &[];
        }
        // SAFETY: the bytes live until the next move, which needs `&mut self`.
        unsafe { slice(self.entry.key, self.entry.key_length) }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        if !self.positioned {
            return &[];
        }
        // SAFETY: as for the key.
        unsafe { slice(self.entry.value, self.entry.value_length) }
    }
}
