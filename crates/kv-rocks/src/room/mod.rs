//! What the machine lets the engine have: files, direct I/O, a disk that may be small.

mod ffi;
mod full;

use std::path::Path;

pub(crate) use ffi::{raise_file_limit, takes_direct_io};
pub(crate) use full::make;

use crate::options::Options;

/// Memtables, and with them log files, that a small disk has room for.
pub(crate) fn fit(options: &Options, dir: &Path) -> Options {
    let (_, total) = nagi_kv_disk::room::space(dir).unwrap_or((u64::MAX, u64::MAX));
    let write_buffer = options.write_buffer().min(total / 64);
    Options { write_buffer_bytes: Some(write_buffer), ..options.clone() }
}
