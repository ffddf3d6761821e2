//! Table files written outside the database. All of the code is `unsafe`, so it is in `ffi.rs`.

mod ffi;

pub(crate) use ffi::TableFile;
