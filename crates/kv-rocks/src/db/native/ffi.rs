//! Declarations of `native/*.cc`.
#![expect(unsafe_code)]

use std::{
    ffi::{c_char, c_int, c_uchar, c_void},
    path::Path,
    ptr, slice,
    sync::atomic::AtomicBool,
};

use nagi_kv::{Error, Result};
use nagi_rocksdb_sys as ffi;

use super::super::ffi::c_path;
use crate::{damage, disk_map, encrypted::Environment, large_reads, work_memory};

/// The file remover of a database.
#[repr(C)]
pub(crate) struct Remover {
    _opaque: [u8; 0],
}

/// An open table file and a position in it.
#[repr(C)]
pub(crate) struct TableKeysHandle {
    _opaque: [u8; 0],
}

/// A forward scan of a snapshot.
#[repr(C)]
pub(crate) struct ScanHandle {
    _opaque: [u8; 0],
}

/// The current entry of an iterator; it is valid until the iterator moves.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) key: *const c_char,
    pub(crate) key_length: usize,
    pub(crate) value: *const c_char,
    pub(crate) value_length: usize,
}

impl Entry {
    /// No entry: an empty key and an empty value.
    pub(crate) const NONE: Entry =
        Entry { key: ptr::null(), key_length: 0, value: ptr::null(), value_length: 0 };
}

// SAFETY: as defined in `native/*.cc`, which this crate's build script compiles.
unsafe extern "C" {
    /// Gives compactions of the database of `options` the lowest disk priority, if the disk scheduler supports it.
    pub(crate) fn nagi_compaction_last_at_the_disk(options: *mut ffi::rocksdb_options_t);
    /// Makes the database of `options`, whose environment is set, remove its files at a limited rate.
    pub(crate) fn nagi_remover_create(options: *mut ffi::rocksdb_options_t) -> *mut Remover;
    /// Sets how many bytes per second are removed; zero: no limit.
    pub(crate) fn nagi_remover_set_rate(remover: *mut Remover, bytes: i64);
    pub(crate) fn nagi_remover_destroy(remover: *mut Remover);
    /// Sets how many bytes per second the rate limiter allows.
    pub(crate) fn nagi_rate_limiter_set(limiter: *mut ffi::rocksdb_ratelimiter_t, bytes: i64);
    /// Appends the entries of a batch to another one. Neither has range deletions.
    pub(crate) fn nagi_batch_append(
        to: *mut ffi::rocksdb_writebatch_t,
        from: *const ffi::rocksdb_writebatch_t,
    );
    /// Reserves memory for a batch of this many bytes.
    pub(crate) fn nagi_batch_reserve(batch: *mut ffi::rocksdb_writebatch_t, bytes: usize);
    /// Lets records be stored as differences to older versions.
    pub(crate) fn nagi_options_merge_differences(options: *mut ffi::rocksdb_options_t);
    /// Gives each large entry a data block of its own.
    pub(crate) fn nagi_table_large_alone(table: *mut ffi::rocksdb_block_based_table_options_t);
    /// The format of table files. Compactions read their large values late, and end once `closing` is true, which
    /// outlives the database (native/late_reads.cc).
    pub(crate) fn nagi_options_tables(
        options: *mut ffi::rocksdb_options_t,
        table: *const ffi::rocksdb_block_based_table_options_t,
        closing: *const AtomicBool,
    );
    /// Makes memtables remember the last insertion of each prefix of this length.
    pub(crate) fn nagi_options_insert_near_last(
        options: *mut ffi::rocksdb_options_t,
        prefix_bytes: usize,
    );
    /// Creates a cache of `capacity` bytes, of which `share` is for blocks compressed with RocksDB's compressor
    /// number `compression`. Its reads are sampled: `reuse` and `threshold` (of that one) outlive the cache.
    pub(crate) fn nagi_cache_create(
        capacity: usize,
        compression: c_int,
        share: f64,
        reuse: *const c_void,
        threshold: *const u64,
    ) -> *mut ffi::rocksdb_cache_t;

    /// Changes the share of a cache that was created with one.
    pub(crate) fn nagi_cache_set_share(cache: *mut ffi::rocksdb_cache_t, share: f64);

    /// Moves an iterator by one entry, forward (1), backward (-1) or not at all (0). Returns 0, and leaves `entry`
    /// unchanged, if it has no position then.
    pub(crate) fn nagi_iterator_step(
        iterator: *mut ffi::rocksdb_iterator_t,
        steps: c_int,
        entry: *mut Entry,
    ) -> c_uchar;

    /// Creates a forward scan. The options have a snapshot; they, the database and the column family live longer.
    pub(crate) fn nagi_scan_create(
        db: *mut ffi::rocksdb_t,
        reads: *const ffi::rocksdb_readoptions_t,
        family: *mut ffi::rocksdb_column_family_handle_t,
    ) -> *mut ScanHandle;
    pub(crate) fn nagi_scan_destroy(scan: *mut ScanHandle);
    /// Moves to the first entry at or behind a key. Returns 0 if there is none, or after an error; 1 with an entry that
    /// is valid until the next move.
    pub(crate) fn nagi_scan_seek(
        scan: *mut ScanHandle,
        key: *const c_char,
        key_length: usize,
        entry: *mut Entry,
    ) -> c_uchar;
    /// Moves from an entry to the next one, with the results of `nagi_scan_seek`.
    pub(crate) fn nagi_scan_next(scan: *mut ScanHandle, entry: *mut Entry) -> c_uchar;
    pub(crate) fn nagi_scan_get_error(scan: *mut ScanHandle, error: *mut *mut c_char);

    /// Makes the database of `options` read through a layer with read-ahead for reverse scans, which also tolerates
    /// unreadable pages.
    pub(crate) fn nagi_options_read_back(options: *mut ffi::rocksdb_options_t);

    fn nagi_table_opens(name: *const c_char, env: *mut c_void) -> c_int;

    /// Opens a table file for its keys; null if that fails. `env`: of encrypted files, or null.
    pub(crate) fn nagi_table_keys_open(
        name: *const c_char,
        env: *mut c_void,
    ) -> *mut TableKeysHandle;
    /// Moves to the first entry at or behind the key `to`, or to the next one if `to` is null. Returns 1 and a key
    /// that is valid until the next move; 0 behind the last entry; -1 if a block cannot be read.
    pub(crate) fn nagi_table_keys_move(
        keys: *mut TableKeysHandle,
        to: *const c_char,
        to_length: usize,
        key: *mut *const c_char,
        key_length: *mut usize,
    ) -> c_int;
    pub(crate) fn nagi_table_keys_close(keys: *mut TableKeysHandle);

    fn nagi_make_unreadable(name: *const c_char, from: u64, to: u64) -> c_int;
}

/// Returns true if a table file can be opened on its own. `environment`: of encrypted files.
pub(crate) fn table_opens(file: &Path, environment: Option<&Environment>) -> bool {
    let Ok(name) = c_path(file) else { return false };
    // SAFETY: the name ends with a zero byte and is only read during the call, like the environment.
    unsafe { nagi_table_opens(name.as_ptr(), Environment::pointer(environment)) != 0 }
}

/// For tests: makes all further reads of the bytes `from..to` of a table file fail in this process, like a bad
/// sector.
///
/// # Errors
/// `Io` if there is no such file.
#[doc(hidden)]
pub fn make_unreadable(file: &Path, from: u64, to: u64) -> Result<()> {
    let name = c_path(file)?;
    // SAFETY: the name ends with a zero byte and is only read during the call.
    match unsafe { nagi_make_unreadable(name.as_ptr(), from, to) } {
        0 => Ok(()),
        _ => Err(Error::other(format!("{} cannot be found", file.display()))),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_unreadable(
    file: *const c_void,
    file_length: usize,
    offset: u64,
    text: *const c_void,
    text_length: usize,
) {
    // SAFETY: both strings live through the call.
    let (file, text) = unsafe {
        (
            slice::from_raw_parts(file.cast::<u8>(), file_length),
            slice::from_raw_parts(text.cast::<u8>(), text_length),
        )
    };
    damage::unreadable(&String::from_utf8_lossy(file), offset, &String::from_utf8_lossy(text));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_file_used(
    file: *const c_void,
    file_length: usize,
    offset: u64,
    bytes: usize,
    is_write: c_int,
) {
    // SAFETY: the name lives through the call.
    let file = unsafe { slice::from_raw_parts(file.cast::<u8>(), file_length) };
    disk_map::used(file, offset, bytes as u64, is_write != 0);
}

#[unsafe(no_mangle)]
extern "C" fn nagi_read_large(bytes: usize, waits: c_uchar) -> c_uchar {
    c_uchar::from(work_memory::reads(bytes) || large_reads::may_read(bytes, waits != 0))
}
