//! The block cache's size, which may change while it is in use.

mod ffi;

pub(super) use ffi::resize;
