//! What RocksDB tells of compactions that failed.

mod ffi;

pub(super) use ffi::listen;
