//! The contract on RocksDB, then what only files can show: reopening, crashes, a full disk.

mod allocations;
mod cache;
mod compressors;
mod crash;
mod damage;
mod folder;
mod full;
mod governor;
mod journal;
mod reading;
mod reopen;
mod scale;
mod space;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use nagi_kv::{Engine, conformance};
use nagi_kv_rocks::{Options, open};

#[global_allocator]
static ALLOCATOR: nagi_testkit::CountingAllocator = nagi_testkit::CountingAllocator;

/// A folder that is removed when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nagi-kv-rocks-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        Scratch(dir)
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

pub(crate) fn small() -> Options {
    Options { cache_bytes: 32 << 20, commit_interval_ms: 5, ..Options::default() }
}

pub(crate) fn open_at(dir: &Path) -> Arc<dyn Engine> {
    open(dir, &small()).expect("opens")
}

#[test]
fn rocksdb_keeps_the_contract() {
    let folders = std::cell::RefCell::new(Vec::new());
    conformance::run(&|| {
        let scratch = Scratch::new();
        let engine = open_at(scratch.path());
        folders.borrow_mut().push(scratch);
        engine
    });
}
