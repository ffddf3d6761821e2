//! Declarations of `native/*.cc`.
#![expect(unsafe_code)]

use std::ffi::c_int;

use librocksdb_sys as ffi;

/// What removes the files of a database.
#[repr(C)]
pub(crate) struct Remover {
    _opaque: [u8; 0],
}

// SAFETY: as defined in `native/*.cc`, which this crate's build script compiles.
unsafe extern "C" {
    /// Lets the database of `options`, whose environment is set, remove its files at a pace.
    pub(crate) fn nagi_remover_create(options: *mut ffi::rocksdb_options_t) -> *mut Remover;
    /// How many bytes a second are removed; zero: as fast as it goes.
    pub(crate) fn nagi_remover_set_rate(remover: *mut Remover, bytes: i64);
    pub(crate) fn nagi_remover_destroy(remover: *mut Remover);
    /// Sets how many bytes a second the limiter lets through.
    pub(crate) fn nagi_rate_limiter_set(limiter: *mut ffi::rocksdb_ratelimiter_t, bytes: i64);
    /// A cache of `capacity` bytes; `share` of them for blocks compressed by RocksDB's compressor
    /// number `compression`.
    pub(crate) fn nagi_cache_create(
        capacity: usize,
        compression: c_int,
        share: f64,
    ) -> *mut ffi::rocksdb_cache_t;

    /// Changes the share, of a cache that was made with one.
    pub(crate) fn nagi_cache_set_share(cache: *mut ffi::rocksdb_cache_t, share: f64);

    /// Lets the database of `options` read through a layer that reads ahead of reverse scans.
    pub(crate) fn nagi_options_read_back(options: *mut ffi::rocksdb_options_t);
}
