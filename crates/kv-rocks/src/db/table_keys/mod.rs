//! The keys of single table files, for repairs. All of the code is `unsafe`, so it is in `ffi.rs`.

mod ffi;

pub(crate) use ffi::{Step, TableKeys};
