//! The size of the block cache, which may change while the cache is in use.

mod ffi;

pub(super) use ffi::resize;
