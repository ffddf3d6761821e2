//! The iterator, and everything that it points to.
//!
//! RocksDB keeps pointers to the bounds and to the read options, and requires an open database, so the cursor owns
//! all of them. They are freed in the order iterator, options, bounds, database.
//!
//! A large scan must not evict frequently read blocks from the cache. A cursor that has moved over
//! `JUDGED_AFTER_BYTES` estimates the size of its range. If the range is too large for the cache, it continues with
//! an iterator that uses cached blocks but adds none.
//!
//! A scan of cached data waits for memory more than it computes. The entries of a block are stored one after the other,
//! so the start of the next one is prefetched while the caller processes the current one.
#![expect(unsafe_code)]

use std::{cell::Cell, ffi::c_char, sync::Arc};

use nagi_kv::{Cursor, Result, Space};
use nagi_rocksdb_sys as ffi;

use super::super::{
    ffi::{Db, bytes, checked, slice},
    snapshot::SnapshotHandle,
};

/// Before that, the cursor may belong to a query with a small limit.
const JUDGED_AFTER_BYTES: usize = 256 << 10;
/// A range may be cached if it takes at most one in this many parts of the cache.
const SPARED_PART: u64 = 4;
/// Data blocks are uncompressed in the cache; their growth is estimated, in halves.
const GROWTH_HALVES: u64 = 3;
/// The prefetched part of the next entry: its key, and the first fields of a document.
#[cfg(target_arch = "x86_64")]
const PREFETCHED_LINES: usize = 4;
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
/// Sorts after every key of a space.
const LAST_KEY: [u8; 16] = [0xff; 16];

/// Start and length of bytes in memory of RocksDB.
type Bytes = (*const c_char, usize);

pub(crate) struct RocksCursor {
    raw: *mut ffi::rocksdb_iterator_t,
    reads: *mut ffi::rocksdb_readoptions_t,
    start: Box<[u8]>,
    end: Box<[u8]>,
    space: Space,
    valid: bool,
    /// The current entry's key and value, once they were read: RocksDB is called once for each, however often they are
    /// needed.
    key: Cell<Option<Bytes>>,
    value: Cell<Option<Bytes>>,
    /// True if the values are documents, whose next one is worth a prefetch.
    prefetches: bool,
    /// Bytes moved over; not counted any more once the range was judged.
    moved_bytes: usize,
    judged: bool,
    /// True if the range cannot contain a key, whatever the data.
    empty: bool,
    /// Kept alive, because the iterator reads from them.
    _snapshot: Option<Arc<SnapshotHandle>>,
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
                raw: db.iterator(reads, space),
                reads,
                start,
                end,
                space,
                valid: false,
                key: Cell::new(None),
                value: Cell::new(None),
                prefetches: space.is_records(),
                moved_bytes: 0,
                judged: false,
                empty,
                _snapshot: snapshot.map(Arc::clone),
                db: Arc::clone(db),
            }
        }
    }

    /// Updates the state after a move. Returns true if there is a current entry.
    fn landed(&mut self) -> Result<bool> {
        self.key.take();
        self.value.take();
        // SAFETY: the iterator is live.
        unsafe {
            self.valid = ffi::rocksdb_iter_valid(self.raw) != 0;
            if !self.valid {
                checked(|error| ffi::rocksdb_iter_get_error(self.raw, error))?;
            }
        }
        Ok(self.valid)
    }

    /// Like `landed`, after one step of a scan.
    fn stepped(&mut self, forward: bool) -> Result<bool> {
        if !self.landed()? {
            return Ok(false);
        }
        if forward && self.prefetches {
            prefetch(self.value());
        }
        if !self.judged {
            self.moved_bytes += self.key().len() + self.value().len();
            if self.moved_bytes >= JUDGED_AFTER_BYTES {
                self.judged = true;
                if self.is_large()? {
                    return self.spare_the_cache(forward);
                }
            }
        }
        Ok(true)
    }

    /// Returns true if caching the whole range would evict much of the present contents.
    fn is_large(&self) -> Result<bool> {
        let end = if self.end.is_empty() { &LAST_KEY[..] } else { &*self.end };
        let bytes = self.db.approximate_size(self.space, &self.start, end)? * GROWTH_HALVES / 2;
        let capacity = self.db.cache_capacity();
        let capacity = capacity.saturating_sub(self.db.cache_usage());
        Ok(bytes > capacity.max(capacity / SPARED_PART))
    }

    /// Continues with an iterator that adds nothing to the cache. Without a snapshot the current key may have been
    /// deleted; then it continues with the next one in the direction of the scan.
    fn spare_the_cache(&mut self, forward: bool) -> Result<bool> {
        // SAFETY: the old iterator is freed before the options it was made with change, and its key
        // is copied first; everything the new one points to is as in `new`.
        unsafe {
            let key = slice_key(self.raw).to_vec();
            ffi::rocksdb_iter_destroy(self.raw);
            ffi::rocksdb_readoptions_set_fill_cache(self.reads, 0);
            self.raw = self.db.iterator(self.reads, self.space);
            match forward {
                true => ffi::rocksdb_iter_seek(self.raw, bytes(&key), key.len()),
                false => ffi::rocksdb_iter_seek_for_prev(self.raw, bytes(&key), key.len()),
            }
        }
        self.landed()
    }
}

impl Drop for RocksCursor {
    fn drop(&mut self) {
        // SAFETY: created in `new`; snapshot and database are dropped after this.
        unsafe {
            ffi::rocksdb_iter_destroy(self.raw);
            ffi::rocksdb_readoptions_destroy(self.reads);
        }
    }
}

impl Cursor for RocksCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if self.empty {
            return Ok(false);
        }
        let key = if key < &*self.start { &*self.start } else { key };
        // SAFETY: the iterator is live; the key is read during the call.
        unsafe { ffi::rocksdb_iter_seek(self.raw, bytes(key), key.len()) };
        self.landed()
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        if self.empty {
            return Ok(false);
        }
        let beyond = key.is_empty() || (!self.end.is_empty() && key > &*self.end);
        let key = if beyond { &*self.end } else { key };
        // SAFETY: the iterator is live; the key is read during the call.
        unsafe {
            if key.is_empty() {
                ffi::rocksdb_iter_seek_to_last(self.raw);
            } else {
                ffi::rocksdb_iter_seek_for_prev(self.raw, bytes(key), key.len());
                let here = ffi::rocksdb_iter_valid(self.raw) != 0;
                if here && slice_key(self.raw) == key {
                    ffi::rocksdb_iter_prev(self.raw);
                }
            }
        }
        self.landed()
    }

    fn next(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        // SAFETY: the iterator is positioned.
        unsafe { ffi::rocksdb_iter_next(self.raw) };
        self.stepped(true)
    }

    fn prev(&mut self) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        // SAFETY: the iterator is positioned.
        unsafe { ffi::rocksdb_iter_prev(self.raw) };
        self.stepped(false)
    }

    fn key(&self) -> &[u8] {
        if !self.valid {
            return &[];
        }
        // SAFETY: positioned; the bytes live until the next move, which needs `&mut self` and forgets them.
        unsafe {
            let (data, length) = self.key.get().unwrap_or_else(|| key_of(self.raw));
            self.key.set(Some((data, length)));
            slice(data, length)
        }
    }

    fn value(&self) -> &[u8] {
        if !self.valid {
            return &[];
        }
        // SAFETY: as for the key.
        unsafe {
            let (data, length) = self.value.get().unwrap_or_else(|| {
                let mut length = 0;
                (ffi::rocksdb_iter_value(self.raw, &raw mut length), length)
            });
            self.value.set(Some((data, length)));
            slice(data, length)
        }
    }
}

/// SAFETY: the iterator is positioned.
unsafe fn key_of(raw: *mut ffi::rocksdb_iterator_t) -> Bytes {
    let mut length = 0;
    // SAFETY: promised by the caller.
    let data = unsafe { ffi::rocksdb_iter_key(raw, &raw mut length) };
    (data, length)
}

/// SAFETY: the iterator is positioned and not moved during `'a`.
unsafe fn slice_key<'a>(raw: *mut ffi::rocksdb_iterator_t) -> &'a [u8] {
    // SAFETY: promised by the caller.
    unsafe {
        let (data, length) = key_of(raw);
        slice(data, length)
    }
}

/// Requests the start of the entry that is stored after this value. Short entries are next to it anyway, and the
/// processor requests the rest of long ones by itself.
#[inline]
fn prefetch(value: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let next = value.as_ptr().wrapping_add(value.len()).cast::<i8>();
        for line in 0..PREFETCHED_LINES {
            // SAFETY: a prefetch of any address is allowed; it has no effect beside the caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(line * LINE_BYTES)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
