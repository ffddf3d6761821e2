//! Limits of the machine: open files, direct I/O, a small disk.

mod ffi;
mod full;

use std::path::Path;

pub(crate) use ffi::{raise_file_limit, takes_direct_io};
pub(crate) use full::{TRASH_SUFFIX, free};

use crate::options::Options;

/// Reduces memtables, and so log files, to sizes that fit on a small disk.
pub(crate) fn fit(options: &Options, dir: &Path) -> Options {
    let (_, total) = nagi_kv_disk::capacity::space(dir).unwrap_or((u64::MAX, u64::MAX));
    let write_buffer = options.write_buffer().min(total / 64);
    Options { write_buffer_bytes: Some(write_buffer), ..options.clone() }
}
