//! The table files of the database, and operations on them.

mod ffi;

pub(crate) use ffi::LiveFile;
