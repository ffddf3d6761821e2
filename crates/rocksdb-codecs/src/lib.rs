//! The compressors that RocksDB calls, for the linker.
//!
//! A crate of its own, so that `rocksdb-sys` does not depend on them directly: cargo would run its build script, the
//! longest, after theirs.
#![no_std]

use libz_sys as _;
use lz4_sys as _;
use zstd_sys as _;
