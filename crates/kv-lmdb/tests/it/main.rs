//! The contract on LMDB, then what only files can show.

mod contract;
mod crash;
mod long_keys;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use nagi_kv_lmdb::{Growth, Options};

/// A folder that is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nagi-kv-lmdb-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Small files, nothing ahead of need.
pub(crate) fn options() -> Options {
    Options {
        growth: Growth::AsWritten { small: true },
        segment_bytes: Some(1 << 20),
        ..Options::default()
    }
}
