//! Resizes the cache: RocksDB's own setter, and an eviction that the C interface lacks.
#![expect(unsafe_code)]

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
