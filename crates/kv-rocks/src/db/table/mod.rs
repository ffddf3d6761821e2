//! Table files made outside the database. All of it is `unsafe`, so it is in `ffi.rs`.

mod ffi;

pub(crate) use ffi::TableFile;
