//! The log position stored in the file list.

mod ffi;

pub(crate) use ffi::first_needed_log;
