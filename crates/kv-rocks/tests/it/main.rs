//! The contract on RocksDB, then behaviour that only files have: reopening, crashes, a full disk.

mod allocations;
mod apart;
mod cache;
mod closing;
mod compressors;
mod crash;
mod damage;
mod encrypted;
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

use std::{fs, path::Path, sync::Arc};

use nagi_encryption::{FILE_NAME, Keys, MasterKey};
use nagi_kv::{Engine, conformance};
use nagi_kv_rocks::{Options, open};
pub(crate) use nagi_testkit::Scratch;

#[global_allocator]
static ALLOCATOR: nagi_testkit::CountingAllocator = nagi_testkit::CountingAllocator;

pub(crate) fn small() -> Options {
    Options { cache_bytes: 32 << 20, commit_interval_ms: 5, ..Options::default() }
}

/// A folder whose files will be encrypted.
pub(crate) fn encrypted() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path()).expect("creates");
    Keys::open(scratch.path(), &master(7), true).expect("makes keys");
    scratch
}

pub(crate) fn master(byte: u8) -> MasterKey {
    MasterKey::from_bytes(&[byte; 32], "").expect("the right length")
}

/// Options for a folder, with its keys if it has some.
pub(crate) fn options_at(dir: &Path) -> Options {
    let keys = dir.join(FILE_NAME).exists().then(|| {
        Arc::new(Keys::open(dir, &master(7), false).expect("has keys of this master key"))
    });
    Options { keys, ..small() }
}

pub(crate) fn open_at(dir: &Path) -> Arc<dyn Engine> {
    open(dir, &options_at(dir)).expect("opens")
}

#[test]
fn rocksdb_keeps_the_contract() {
    keeps_the_contract(Scratch::new);
}

#[test]
fn encrypted_files_keep_the_contract() {
    keeps_the_contract(encrypted);
}

fn keeps_the_contract(folder: fn() -> Scratch) {
    let folders = std::cell::RefCell::new(Vec::new());
    conformance::run(&|| {
        let scratch = folder();
        let engine = open_at(scratch.path());
        folders.borrow_mut().push(scratch);
        engine
    });
}
