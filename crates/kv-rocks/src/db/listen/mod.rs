//! RocksDB's notifications of failed compactions and of flushes.

mod ffi;

pub(super) use ffi::listen;
