//! What RocksDB tells of compactions that failed and of flushes.

mod ffi;

pub(super) use ffi::listen;
