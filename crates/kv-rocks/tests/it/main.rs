//! The contract on RocksDB, then behaviour that only files have: reopening, crashes, a full disk.

mod allocations;
mod apart;
mod cache;
mod compressors;
mod crash;
mod damage;
mod folder;
mod full;
mod governor;
mod journal;
mod large;
mod reading;
mod reopen;
mod scale;
mod scans;
mod space;

use std::{path::Path, sync::Arc};

use nagi_kv::{Engine, conformance};
use nagi_kv_rocks::{Options, open};
pub(crate) use nagi_testkit::Scratch;

#[global_allocator]
static ALLOCATOR: nagi_testkit::CountingAllocator = nagi_testkit::CountingAllocator;

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
