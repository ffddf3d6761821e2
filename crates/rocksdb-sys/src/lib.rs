//! RocksDB: compiled once from its sources, and the functions of its C interface.
//!
//! `build/` compiles the sources of the crate `librocksdb-sys` (which is fetched, not built) into an archive that
//! is kept outside the source tree; `native/` selects checksum implementations by the processor's features.
#![no_std]

// Linked because RocksDB calls it.
use nagi_rocksdb_codecs as _;

mod ffi;

pub use ffi::*;
