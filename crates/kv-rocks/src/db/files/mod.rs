//! The table files of the database, and work on them.

mod ffi;

pub(crate) use ffi::LiveFile;
