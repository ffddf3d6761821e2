//! Resizing: RocksDB's own setter, and an eviction it has no call for.
#![expect(unsafe_code)]

use nagi_rocksdb_sys as ffi;

unsafe extern "C" {
    /// `trim.cc`: evicts down to `capacity` as far as entries are not in use; the bytes then used.
    fn nagi_cache_trim(cache: *mut ffi::rocksdb_cache_t, capacity: usize) -> usize;
}

/// Sets the capacity; a smaller one is kept to at once, as far as blocks are not in use.
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
