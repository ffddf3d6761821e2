//! Declarations of `native/*.cc`.
#![expect(unsafe_code)]

use librocksdb_sys as ffi;

// SAFETY: as defined in `native/*.cc`, which this crate's build script compiles.
unsafe extern "C" {
    /// Sets how many bytes a second the limiter lets through.
    pub(crate) fn nagi_rate_limiter_set(limiter: *mut ffi::rocksdb_ratelimiter_t, bytes: i64);
    /// Lets the database of `options` read through a layer that reads ahead of reverse scans.
    pub(crate) fn nagi_options_read_back(options: *mut ffi::rocksdb_options_t);
}
