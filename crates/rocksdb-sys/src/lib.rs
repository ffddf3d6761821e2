//! RocksDB itself: compiled once from its sources, and the functions of its C interface.
//!
//! `build/` compiles the sources of the crate `librocksdb-sys` (which is fetched, not built) into an
//! archive that is kept outside the clone; `native/` chooses checksums by what the processor has.
#![no_std]

// Linked for what RocksDB calls of them.
use nagi_rocksdb_codecs as _;

mod ffi;

pub use ffi::*;
