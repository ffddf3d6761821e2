//! What the list of files says of the log.

mod ffi;

pub(crate) use ffi::first_needed_log;
