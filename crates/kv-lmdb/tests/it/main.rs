//! The contract on LMDB, then tests of behaviour that only files have.

mod contract;
mod crash;
mod descriptors;
mod fault;
mod long_keys;

use nagi_kv_lmdb::{Growth, Options};
pub(crate) use nagi_testkit::Scratch;

/// Small files, nothing allocated ahead of need.
pub(crate) fn options() -> Options {
    Options {
        growth: Growth::AsWritten { small: true },
        segment_bytes: Some(1 << 20),
        ..Options::default()
    }
}
