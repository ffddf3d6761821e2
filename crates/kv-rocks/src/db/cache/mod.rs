//! The size of the block cache, which may change while the cache is in use, and the sample of its reads.

mod ffi;

pub(super) use ffi::resize;
