//! Resizes the cache: RocksDB's own setter, and an eviction that the C interface lacks. Receives the sampled reads.
#![expect(unsafe_code)]

use nagi_kv::reuse::Reuse;
use nagi_rocksdb_sys as ffi;

unsafe extern "C" {
    /// `trim.cc`: evicts entries that are not in use until `capacity` is reached; returns the bytes used
    /// afterwards.
    fn nagi_cache_trim(cache: *mut ffi::rocksdb_cache_t, capacity: usize) -> usize;
}

/// Sets the capacity. A smaller one takes effect at once, except for blocks in use.
///
/// # Safety
/// `cache` is a live cache.
pub(in crate::db) unsafe fn resize(cache: *mut ffi::rocksdb_cache_t, bytes: usize) {
    // SAFETY: the caller's promise; both calls may come while others use the cache.
    unsafe {
        ffi::rocksdb_cache_set_capacity(cache, bytes);
        if ffi::rocksdb_cache_get_usage(cache) > bytes {
            nagi_cache_trim(cache, bytes);
        }
    }
}

/// A sampled block was looked up; 0 bytes if it was not found at once.
///
/// # Safety
/// `reuse` is the one that the cache was created with.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_reuse_read(reuse: *const Reuse, hash: u64, bytes: usize) {
    // SAFETY: it outlives the cache.
    unsafe { &*reuse }.read(hash, bytes as u64);
}

/// A sampled block was put into the cache.
///
/// # Safety
/// As for `nagi_reuse_read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_reuse_cached(reuse: *const Reuse, hash: u64, bytes: usize) {
    // SAFETY: it outlives the cache.
    unsafe { &*reuse }.cached(hash, bytes as u64);
}

/// A sampled block was dropped with its file.
///
/// # Safety
/// As for `nagi_reuse_read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nagi_reuse_removed(reuse: *const Reuse, hash: u64) {
    // SAFETY: it outlives the cache.
    unsafe { &*reuse }.removed(hash);
}
