//! The database, snapshots and write batches over RocksDB's C interface.
//!
//! Every call that can fail fills an error string, which `checked` converts to `Error` and frees. Many threads may
//! use a RocksDB handle at once, so handles are `Send` and `Sync`; iterators and batches are only `Send`.
#![expect(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use nagi_kv::{Error, Result, Space};
use nagi_rocksdb_sys as ffi;
use parking_lot::Mutex;

use super::census::LastCensus;
use super::data::Data;
use super::native::{nagi_batch_append, nagi_batch_reserve, nagi_cache_set_share};
use super::setup::{Setup, System, names, pointers};
use super::snapshot::SnapshotHandle;
use super::ticker::Ticker;
use crate::{damage, large_reads, options::Options, quarantine::Damaged, tier::Sizes};

/// Calls `run` with a pointer for an error string.
pub(super) fn checked<T>(run: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut message: *mut c_char = ptr::null_mut();
    let result = run(&raw mut message);
    if message.is_null() {
        return Ok(result);
    }
    // SAFETY: RocksDB returned a zero-terminated string that is ours to free.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        ffi::rocksdb_free(message.cast());
        text
    };
    Err(translate(text))
}

fn translate(text: String) -> Error {
    if text.contains("No space left on device") || text.contains("Space limit reached") {
        Error::Full
    } else if text.contains("no memory for a large read") {
        Error::NoMemory
    } else if text.starts_with("Corruption") || is_missing_table(&text) {
        let text = damage::explained(text);
        damage::note(&text);
        Error::Corrupt(text)
    } else {
        Error::other(text)
    }
}

/// A missing table file is lost data, not an I/O error.
fn is_missing_table(text: &str) -> bool {
    text.starts_with("IO error: No such file") && (text.contains(".sst") || text.contains(".blob"))
}

pub(super) fn bytes(data: &[u8]) -> *const c_char {
    data.as_ptr().cast()
}

/// An open database.
pub(crate) struct Db {
    pub(super) raw: *mut ffi::rocksdb_t,
    default: *mut ffi::rocksdb_column_family_handle_t,
    /// Null for a space that was never used.
    spaces: [AtomicPtr<ffi::rocksdb_column_family_handle_t>; Space::ALL.len()],
    /// Held while a column family is created.
    making: Mutex<()>,
    /// See `set_warm_later`.
    pub(super) flushed_only: AtomicBool,
    pub(crate) data: Data,
    pub(super) last_census: LastCensus,
    reads: *mut ffi::rocksdb_readoptions_t,
    writes: *mut ffi::rocksdb_writeoptions_t,
    pub(super) setup: Setup,
    /// Number of times that running compactions were cancelled.
    pub(super) interrupt_count: AtomicU64,
    /// The greatest number of removed blocks that was seen.
    blocks_removed: AtomicU64,
    /// Number of ingestions of table files that were begun, and that were finished.
    pub(super) ingests_begun: AtomicU64,
    pub(super) ingests_ended: AtomicU64,
}

// SAFETY: RocksDB synchronises its database and column family handles; option objects are only read
// after they were built.
unsafe impl Send for Db {}
// SAFETY: as above.
unsafe impl Sync for Db {}

/// The new blocks that are put into the cache when they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Warm {
    /// Blocks of flushes and compactions; suitable while all data fits into the cache.
    All,
    /// Blocks of flushes, because new data is likely to be read.
    Flushed,
    /// None: each is copied for the cache, and a block with a large value is larger than what the cache has free.
    None,
}

impl Db {
    pub(crate) fn open(path: &Path, options: &Options, system: &System) -> Result<Db> {
        let setup = Setup::new(path, options, system);
        let name = c_path(path)?;
        let present = setup.present(&name)?;
        let (names, families) = (names(&present), setup.options(&present));
        let mut handles = vec![ptr::null_mut(); names.len()];
        // Only a full open fails if families are left out.
        if system.read_only && setup.family_count(&name)? != names.len() {
            return Err(Error::other("not all families of the database are known"));
        }
        // SAFETY: all arrays have as many elements as there are names and outlive the call.
        let raw = checked(|error| unsafe {
            let (database, count) = (setup.database.cast_const(), names.len() as i32);
            let (names, families) = (pointers(&names), families.as_ptr());
            let (name, names, handles) = (name.as_ptr(), names.as_ptr(), handles.as_mut_ptr());
            match system.read_only {
                true => ffi::rocksdb_open_for_read_only_column_families(
                    database, name, count, names, families, handles, 0, error,
                ),
                false => ffi::rocksdb_open_column_families(
                    database, name, count, names, families, handles, error,
                ),
            }
        })?;
        let spaces: [AtomicPtr<_>; Space::ALL.len()] = Default::default();
        for (space, handle) in present.iter().zip(&handles[1..]) {
            spaces[*space as usize].store(*handle, Release);
        }
        // SAFETY: constructors and setters of objects that `drop` frees.
        unsafe {
            let writes = ffi::rocksdb_writeoptions_create();
            let reads = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_verify_checksums(reads, 1);
            Ok(Db {
                raw,
                default: handles[0],
                spaces,
                making: Mutex::new(()),
                blocks_removed: AtomicU64::new(0),
                flushed_only: AtomicBool::new(false),
                data: Data::default(),
                reads,
                writes,
                setup,
                interrupt_count: AtomicU64::new(0),
                ingests_begun: AtomicU64::new(0),
                last_census: LastCensus::default(),
                ingests_ended: AtomicU64::new(0),
            })
        }
    }

    pub(super) fn space_options(&self, space: Space) -> *const ffi::rocksdb_options_t {
        self.setup.spaces[space as usize]
    }

    /// The column family of a space, for reads of any space and writes of existing ones. A space that does not
    /// exist reads as the family `default`, which is empty.
    pub(super) fn family(&self, space: Space) -> *mut ffi::rocksdb_column_family_handle_t {
        let family = self.spaces[space as usize].load(Acquire);
        if family.is_null() { self.default } else { family }
    }

    /// The spaces that exist.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = Space> {
        Space::ALL.into_iter().filter(|space| !self.spaces[*space as usize].load(Acquire).is_null())
    }

    /// Creates the space before its first write. Costs one load if it exists.
    pub(crate) fn make(&self, space: Space) -> Result<()> {
        let place = &self.spaces[space as usize];
        if !place.load(Acquire).is_null() {
            return Ok(());
        }
        let _one = self.making.lock();
        if !place.load(Acquire).is_null() {
            return Ok(());
        }
        let name = CString::new(space.name()).expect("names have no zero byte");
        // SAFETY: the options live in `setup`; the handle is freed in `drop`.
        let family = checked(|error| unsafe {
            ffi::rocksdb_create_column_family(
                self.raw,
                self.space_options(space),
                name.as_ptr(),
                error,
            )
        })?;
        place.store(family, Release);
        if self.flushed_only.load(Acquire) {
            self.set_warm(space, Warm::Flushed)?;
        }
        Ok(())
    }

    /// Reads a value into `buf`, whose content is exactly the value afterwards.
    pub(crate) fn get(
        &self,
        snapshot: Option<&SnapshotHandle>,
        space: Space,
        key: &[u8],
        buf: &mut Vec<u8>,
    ) -> Result<bool> {
        let reads = snapshot.map_or(self.reads, |snapshot| snapshot.reads);
        loop {
            let (mut found, mut length) = (0, 0);
            buf.clear();
            // SAFETY: RocksDB writes at most the capacity it is told, and `length` of it is
            // initialised when the call says that it fitted.
            unsafe {
                let fitted = checked(|error| {
                    ffi::rocksdb_get_into_buffer_cf(
                        self.raw,
                        reads,
                        self.family(space),
                        bytes(key),
                        key.len(),
                        buf.as_mut_ptr().cast(),
                        buf.capacity(),
                        &raw mut length,
                        &raw mut found,
                        error,
                    )
                })?;
                if found == 0 {
                    return Ok(false);
                }
                if fitted != 0 {
                    buf.set_len(length);
                    return Ok(true);
                }
            }
            if !large_reads::wait_to_hold(length) {
                return Err(Error::NoMemory);
            }
            buf.reserve(length);
        }
    }

    /// Reads many values; `visit` is called in order.
    pub(crate) fn get_many(
        &self,
        snapshot: Option<&SnapshotHandle>,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        const AT_ONCE: usize = 64;
        let reads = snapshot.map_or(self.reads, |snapshot| snapshot.reads);
        for (part, keys) in keys.chunks(AT_ONCE).enumerate() {
            let sorted = keys.is_sorted();
            let mut names = [ptr::null::<c_char>(); AT_ONCE];
            let mut lengths = [0_usize; AT_ONCE];
            let mut values = [ptr::null_mut::<ffi::rocksdb_pinnableslice_t>(); AT_ONCE];
            let mut errors = [ptr::null_mut::<c_char>(); AT_ONCE];
            for (index, key) in keys.iter().enumerate() {
                (names[index], lengths[index]) = (bytes(key), key.len());
            }
            // SAFETY: the arrays are at least `keys.len()` long; keys outlive the call.
            unsafe {
                ffi::rocksdb_batched_multi_get_cf(
                    self.raw,
                    reads,
                    self.family(space),
                    keys.len(),
                    names.as_ptr(),
                    lengths.as_ptr(),
                    values.as_mut_ptr(),
                    errors.as_mut_ptr(),
                    sorted,
                );
            }
            let values = Values { values, errors, count: keys.len() };
            values.visit(part * AT_ONCE, visit)?;
        }
        Ok(())
    }

    /// Writes the batch to the log's buffer and the memtables.
    pub(crate) fn write(&self, batch: &mut Batch) -> Result<()> {
        // SAFETY: the batch is exclusively ours during the call.
        checked(|error| unsafe { ffi::rocksdb_write(self.raw, self.writes, batch.raw, error) })
    }

    pub(crate) fn put_batch(&self, batch: &mut Batch, space: Space, key: &[u8], value: &[u8]) {
        // SAFETY: key and value are copied.
        unsafe {
            ffi::rocksdb_writebatch_put_cf(
                batch.raw,
                self.family(space),
                bytes(key),
                key.len(),
                bytes(value),
                value.len(),
            );
        }
    }

    /// Adds a difference to the present value of a record.
    pub(crate) fn merge_batch(&self, batch: &mut Batch, space: Space, key: &[u8], by: &[u8]) {
        // SAFETY: key and difference are copied.
        unsafe {
            ffi::rocksdb_writebatch_merge_cf(
                batch.raw,
                self.family(space),
                bytes(key),
                key.len(),
                bytes(by),
                by.len(),
            );
        }
    }

    pub(crate) fn delete_batch(&self, batch: &mut Batch, space: Space, key: &[u8]) {
        // SAFETY: the key is copied.
        unsafe {
            ffi::rocksdb_writebatch_delete_cf(batch.raw, self.family(space), bytes(key), key.len());
        }
    }

    /// Adds bytes to the batch that are written to the log and ignored by the database.
    pub(crate) fn note_batch(&self, batch: &mut Batch, note: &[u8]) {
        // SAFETY: the bytes are copied.
        unsafe { ffi::rocksdb_writebatch_put_log_data(batch.raw, bytes(note), note.len()) }
    }

    /// Hides a range with one tombstone.
    pub(crate) fn delete_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        // SAFETY: the keys are copied.
        checked(|error| unsafe {
            ffi::rocksdb_delete_range_cf(
                self.raw,
                self.writes,
                self.family(space),
                bytes(start),
                start.len(),
                bytes(end),
                end.len(),
                error,
            );
        })
    }

    /// Removes the files that lie wholly within the range.
    pub(crate) fn delete_files(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        // SAFETY: the keys outlive the call.
        checked(|error| unsafe {
            ffi::rocksdb_delete_file_in_range_cf(
                self.raw,
                self.family(space),
                bytes(start),
                start.len(),
                bytes(end),
                end.len(),
                error,
            );
        })
    }

    /// Rewrites the range. Returns when it is done; other threads may compact at the same time.
    pub(crate) fn compact(&self, space: Space, start: &[u8], end: &[u8]) {
        let bound = |key: &[u8]| if key.is_empty() { ptr::null() } else { bytes(key) };
        // SAFETY: a null bound means unbounded; the options live through the call.
        unsafe {
            let options = ffi::rocksdb_compactoptions_create();
            ffi::rocksdb_compactoptions_set_exclusive_manual_compaction(options, 0);
            ffi::rocksdb_compact_range_cf_opt(
                self.raw,
                self.family(space),
                options,
                bound(start),
                start.len(),
                bound(end),
                end.len(),
            );
            ffi::rocksdb_compactoptions_destroy(options);
        }
    }

    /// Makes a running `compact` return early; for closing.
    pub(crate) fn stop_compacting(&self) {
        self.damaged().stop_waits();
        // SAFETY: the database is open.
        unsafe { ffi::rocksdb_disable_manual_compaction(self.raw) }
    }

    /// Syncs the log.
    pub(crate) fn sync_log(&self) -> Result<()> {
        // SAFETY: the database is open.
        checked(|error| unsafe { ffi::rocksdb_flush_wal(self.raw, 1, error) })
    }

    /// Flushes all memtables and waits until that is done.
    pub(crate) fn flush_memtables(&self) -> Result<()> {
        self.flush(self.spaces(), true)
    }

    /// Flushes memtables; if `wait`, waits until that is done.
    pub(crate) fn flush(&self, spaces: impl Iterator<Item = Space>, wait: bool) -> Result<()> {
        let mut families: Vec<_> = spaces.map(|space| self.family(space)).collect();
        let (first, count) = (families.as_mut_ptr(), families.len() as i32);
        // SAFETY: the database is open; the handles are only read.
        unsafe {
            let options = ffi::rocksdb_flushoptions_create();
            ffi::rocksdb_flushoptions_set_wait(options, wait.into());
            // Otherwise it would first wait for compactions, forever if these were stopped or have met damage.
            ffi::rocksdb_flushoptions_set_allow_write_stall(options, 1);
            let result = checked(|error| {
                ffi::rocksdb_flush_cfs(self.raw, options, first, count, error);
            });
            ffi::rocksdb_flushoptions_destroy(options);
            result
        }
    }

    /// Stops flushes and compactions permanently: only reads continue.
    pub(crate) fn stop_background(&self) {
        // SAFETY: the database is open.
        unsafe { ffi::rocksdb_cancel_all_background_work(self.raw, 1) }
    }

    /// Names and sizes of the table files and of the blob files.
    pub(crate) fn table_files(&self) -> Result<Vec<(String, u64)>> {
        self.stored_files(&[".sst", ".blob"])
    }

    /// Names and sizes of the logs that have changes which no table file has.
    pub(crate) fn log_files(&self) -> Result<Vec<(String, u64)>> {
        let mut files = self.stored_files(&[".log"])?;
        // RocksDB puts the folder before the name.
        files.iter_mut().for_each(|(name, _)| *name = name.trim_start_matches('/').to_owned());
        Ok(files)
    }

    fn stored_files(&self, suffixes: &[&str]) -> Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        // SAFETY: the list is freed after its last use; its names are zero-terminated.
        unsafe {
            let options = ffi::rocksdb_livefiles_storage_info_options_create();
            ffi::rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(options, u64::MAX);
            let list =
                checked(|error| ffi::rocksdb_get_livefiles_storage_info(self.raw, options, error));
            ffi::rocksdb_livefiles_storage_info_options_destroy(options);
            let list = list?;
            for index in 0..ffi::rocksdb_livefiles_storage_info_count(list) {
                let name = ffi::rocksdb_livefiles_storage_info_relative_filename(list, index);
                let name = CStr::from_ptr(name).to_string_lossy().into_owned();
                if suffixes.iter().any(|suffix| name.ends_with(suffix)) {
                    files.push((name, ffi::rocksdb_livefiles_storage_info_size(list, index)));
                }
            }
            ffi::rocksdb_livefiles_storage_info_destroy(list);
        }
        Ok(files)
    }

    pub(crate) fn checkpoint(&self, dir: &Path) -> Result<()> {
        let name = c_path(dir)?;
        // SAFETY: the checkpoint object is freed after its one use.
        unsafe {
            let checkpoint =
                checked(|error| ffi::rocksdb_checkpoint_object_create(self.raw, error))?;
            let result = checked(|error| {
                ffi::rocksdb_checkpoint_create(checkpoint, name.as_ptr(), 0, error);
            });
            ffi::rocksdb_checkpoint_object_destroy(checkpoint);
            result
        }
    }

    /// Bytes of a range, in files and memtables.
    pub(crate) fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        let memtable = ffi::rocksdb_size_approximation_flags_include_memtable;
        self.size_by(
            ffi::rocksdb_size_approximation_flags_include_files | memtable,
            space,
            start,
            end,
        )
    }

    /// Bytes of a range in table files.
    pub(crate) fn approximate_file_size(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Result<u64> {
        self.size_by(ffi::rocksdb_size_approximation_flags_include_files, space, start, end)
    }

    fn size_by(&self, flags: u32, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        let mut size = 0;
        // SAFETY: one range, one size.
        checked(|error| unsafe {
            ffi::rocksdb_approximate_sizes_cf_with_flags(
                self.raw,
                self.family(space),
                1,
                &bytes(start),
                &start.len(),
                &bytes(end),
                &end.len(),
                flags as u8,
                &raw mut size,
                error,
            );
        })?;
        Ok(size)
    }

    /// The newest sequence number.
    pub(crate) fn sequence(&self) -> u64 {
        // SAFETY: the database is open.
        unsafe { ffi::rocksdb_get_latest_sequence_number(self.raw) }
    }

    /// A numeric property of a space; 0 if RocksDB does not have it.
    pub(crate) fn property(&self, space: Space, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: one number is written.
        unsafe {
            ffi::rocksdb_property_int_cf(
                self.raw,
                self.family(space),
                name.as_ptr(),
                &raw mut value,
            );
        }
        value
    }

    /// Sets how many bytes per second flushes and compactions may write.
    pub(crate) fn set_background_rate(&self, bytes: u64) {
        self.setup.set_background_rate(bytes);
    }

    /// Sets how many bytes per second of obsolete files are removed; none: no limit.
    pub(crate) fn set_removal_rate(&self, bytes: Option<u64>) {
        self.setup.set_removal_rate(bytes);
    }

    /// The damage met by compactions.
    pub(crate) fn damaged(&self) -> &Damaged {
        &self.setup.damaged
    }

    /// Level-0 files of a space that wait for a compaction; 0 for a space whose compactions are suspended.
    pub(crate) fn level_0_files(&self, space: Space) -> u64 {
        if self.damaged().rests(space) {
            return 0;
        }
        let name = c"rocksdb.num-files-at-level0";
        // SAFETY: RocksDB returns a zero-terminated string that is ours to free, or null.
        unsafe {
            let text = ffi::rocksdb_property_value_cf(self.raw, self.family(space), name.as_ptr());
            if text.is_null() {
                return 0;
            }
            let count = CStr::from_ptr(text).to_str().ok().and_then(|text| text.parse().ok());
            ffi::rocksdb_free(text.cast());
            count.unwrap_or(0)
        }
    }

    pub(crate) fn ticker(&self, ticker: Ticker) -> u64 {
        // SAFETY: the options object holds the database's statistics.
        unsafe {
            ffi::rocksdb_options_statistics_get_ticker_count(self.setup.database, ticker as u32)
        }
    }

    /// Capacity of the cache in bytes, including memtables.
    pub(crate) fn cache_capacity(&self) -> u64 {
        // SAFETY: the cache lives as long as `setup`.
        unsafe { ffi::rocksdb_cache_get_capacity(self.setup.cache) as u64 }
    }

    /// Changes the size of the block cache.
    pub(crate) fn resize_cache(&self, bytes: u64) {
        // SAFETY: the cache lives as long as `setup`.
        unsafe { super::cache::resize(self.setup.cache, bytes as usize) }
    }

    /// Sets the share of the cache for compressed blocks. The cache must have been created with such a share.
    pub(crate) fn set_tier(&self, percent: u32) {
        // SAFETY: the cache lives as long as `setup`; its tiers synchronise themselves.
        unsafe { nagi_cache_set_share(self.setup.cache, f64::from(percent) / 100.0) }
    }

    /// Adds the sizes of the data in a space's tables, uncompressed and as stored. Takes some microseconds per
    /// file.
    pub(crate) fn add_sizes(&self, space: Space, sizes: &mut Sizes) {
        let name = c"rocksdb.aggregated-table-properties";
        // SAFETY: the text is zero-terminated and ours to free.
        unsafe {
            let text = ffi::rocksdb_property_value_cf(self.raw, self.family(space), name.as_ptr());
            if !text.is_null() {
                sizes.add(&CStr::from_ptr(text).to_string_lossy());
                ffi::rocksdb_free(text.cast());
            }
        }
    }

    pub(super) fn cache(&self) -> *mut ffi::rocksdb_cache_t {
        self.setup.cache
    }

    /// Number of entries of the cache, with those that stand for memtables.
    pub(crate) fn cache_entry_count(&self) -> u64 {
        // SAFETY: the cache lives as long as `setup`.
        unsafe { ffi::rocksdb_cache_get_occupancy_count(self.setup.cache) as u64 }
    }

    /// Number of blocks that the cache has dropped. RocksDB does not count them: they are those that were added and are
    /// not there. Memtables take part in the number of entries only roughly, so the number is kept from going back.
    pub(crate) fn cache_blocks_removed(&self, added: u64, cached: u64) -> u64 {
        let removed = added.saturating_sub(cached);
        self.blocks_removed.fetch_max(removed, Relaxed).max(removed)
    }

    /// Bytes of the cache in use.
    pub(crate) fn cache_usage(&self) -> u64 {
        // SAFETY: the cache lives as long as `setup`.
        unsafe { ffi::rocksdb_cache_get_usage(self.setup.cache) as u64 }
    }

    /// Bytes of the cache that are pinned. Visits every block, which takes milliseconds for a large cache.
    pub(crate) fn cache_pinned(&self) -> u64 {
        // SAFETY: the cache lives as long as `setup`.
        unsafe { ffi::rocksdb_cache_get_pinned_usage(self.setup.cache) as u64 }
    }

    pub(super) fn iterator(
        &self,
        reads: *mut ffi::rocksdb_readoptions_t,
        space: Space,
    ) -> *mut ffi::rocksdb_iterator_t {
        // SAFETY: the caller keeps `reads` alive as long as the iterator.
        unsafe { ffi::rocksdb_create_iterator_cf(self.raw, reads, self.family(space)) }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.damaged().stop_waits();
        // SAFETY: snapshots, iterators and batches hold an `Arc<Db>`, so this is the last use.
        unsafe {
            ffi::rocksdb_cancel_all_background_work(self.raw, 1);
            for family in self.spaces.iter().map(|family| family.load(Acquire)) {
                if !family.is_null() {
                    ffi::rocksdb_column_family_handle_destroy(family);
                }
            }
            ffi::rocksdb_column_family_handle_destroy(self.default);
            ffi::rocksdb_close(self.raw);
            ffi::rocksdb_readoptions_destroy(self.reads);
            ffi::rocksdb_writeoptions_destroy(self.writes);
        }
    }
}

/// The results of a multi-get, freed when dropped.
struct Values<const N: usize> {
    values: [*mut ffi::rocksdb_pinnableslice_t; N],
    errors: [*mut c_char; N],
    count: usize,
}

impl<const N: usize> Values<N> {
    fn visit(&self, first: usize, visit: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        for index in 0..self.count {
            if !self.errors[index].is_null() {
                // SAFETY: a zero-terminated string, freed in `drop`.
                let text = unsafe { CStr::from_ptr(self.errors[index]) };
                return Err(translate(text.to_string_lossy().into_owned()));
            }
            let value = self.values[index];
            if value.is_null() {
                visit(first + index, None);
                continue;
            }
            let mut length = 0;
            // SAFETY: the slice is pinned until `drop`.
            let value = unsafe {
                let data = ffi::rocksdb_pinnableslice_value(value, &raw mut length);
                slice(data, length)
            };
            visit(first + index, Some(value));
        }
        Ok(())
    }
}

impl<const N: usize> Drop for Values<N> {
    fn drop(&mut self) {
        for index in 0..self.count {
            // SAFETY: each was returned by the multi-get and is freed once.
            unsafe {
                if !self.values[index].is_null() {
                    ffi::rocksdb_pinnableslice_destroy(self.values[index]);
                }
                if !self.errors[index].is_null() {
                    ffi::rocksdb_free(self.errors[index].cast());
                }
            }
        }
    }
}

/// SAFETY: `data` points to `length` readable bytes that live for `'a`, or is null.
pub(super) unsafe fn slice<'a>(data: *const c_char, length: usize) -> &'a [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), length) }
}

pub(super) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::other("a path cannot contain a zero byte"))
}

/// Writes that are applied at once.
pub(crate) struct Batch {
    raw: *mut ffi::rocksdb_writebatch_t,
}

// SAFETY: a batch is plain memory, used by one thread at a time (`&mut`).
unsafe impl Send for Batch {}

impl Batch {
    pub(crate) fn new() -> Batch {
        // SAFETY: freed in `drop`.
        Batch { raw: unsafe { ffi::rocksdb_writebatch_create() } }
    }

    pub(crate) fn clear(&mut self) {
        // SAFETY: the batch is ours.
        unsafe { ffi::rocksdb_writebatch_clear(self.raw) }
    }

    /// Reserves memory for this many bytes, so that adding them does not move those already there.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        // SAFETY: the batch is ours.
        unsafe { nagi_batch_reserve(self.raw, bytes) }
    }

    /// Appends the entries of another batch.
    pub(crate) fn append(&mut self, other: &Batch) {
        // SAFETY: the batches are different ones; this one is exclusively ours, the other one is only read.
        unsafe { nagi_batch_append(self.raw, other.raw) }
    }

    pub(crate) fn byte_count(&self) -> usize {
        let mut length = 0;
        // SAFETY: only the length is used.
        unsafe { ffi::rocksdb_writebatch_data(self.raw, &raw mut length) };
        length
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: created in `new`.
        unsafe { ffi::rocksdb_writebatch_destroy(self.raw) }
    }
}

/// Creates a new file list (MANIFEST) from the tables and logs of a folder. RocksDB moves files that it cannot use
/// to `lost`.
pub(crate) fn repair_file_list(path: &Path, options: &Options, system: &System) -> Result<()> {
    let setup = Setup::new(path, options, system);
    let name = c_path(path)?;
    // The tables name their family. All families get these options, of which only those for reading matter.
    let families = setup.spaces[Space::Records as usize];
    // SAFETY: the options live through the call.
    checked(|error| unsafe { ffi::rocksdb_repair_db(families, name.as_ptr(), error) })
}
