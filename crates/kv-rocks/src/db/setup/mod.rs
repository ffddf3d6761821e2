//! The options of RocksDB. All of the code is `unsafe`, so it is in `ffi.rs`.

mod ffi;

pub(crate) use ffi::System;
pub(super) use ffi::{Setup, names, pointers};
