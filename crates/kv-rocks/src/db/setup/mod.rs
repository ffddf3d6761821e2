//! How RocksDB is set up. All of it is `unsafe`, so it is in `ffi.rs`.

mod ffi;

pub(crate) use ffi::System;
pub(super) use ffi::{Setup, names, pointers};
