//! Table files outside the database: written for bulk loads, read by repairs. All of the code is `unsafe`.
//!
//!   ffi.rs    writes a table and makes it part of the database
//!   keys.rs   reads the keys of a table

mod ffi;
mod keys;

pub(crate) use ffi::TableFile;
pub(crate) use keys::{Step, TableKeys};
