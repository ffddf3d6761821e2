//! Ownership of a data directory.

use std::fs;

use nagi_kv::Error;
use nagi_kv_rocks::open;

use crate::{Scratch, open_at, small};

fn refusal(scratch: &Scratch) -> String {
    match open(scratch.path(), &small()) {
        Ok(_) => panic!("the folder should have been refused"),
        Err(Error::Io(error)) => error.to_string(),
        Err(other) => panic!("not an Io error: {other}"),
    }
}

#[test]
fn a_folder_has_one_owner_at_a_time() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    assert!(refusal(&scratch).contains("lock"));
    drop(engine);
    open_at(scratch.path());
}

#[test]
fn folders_of_others_are_refused() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path()).expect("creates");
    fs::write(scratch.path().join("WiredTiger"), b"").expect("writes");
    assert!(refusal(&scratch).contains("another server"));
    fs::write(scratch.path().join("nagi.storage"), b"engine: lmdb\nformat: 1\n").expect("writes");
    assert!(refusal(&scratch).contains("created by the 'lmdb' storage engine"));
    fs::write(scratch.path().join("nagi.storage"), b"engine: rocksdb\nformat: 9\n")
        .expect("writes");
    assert!(refusal(&scratch).contains("storage format 9"));
}

#[test]
fn an_older_format_is_marked_as_the_newest_before_anything_is_written() {
    let scratch = Scratch::new();
    drop(open_at(scratch.path()));
    let marker = scratch.path().join("nagi.storage");
    let text = fs::read_to_string(&marker).expect("reads");
    assert!(text.contains("format: 2"));
    fs::write(&marker, text.replace("format: 2", "format: 1")).expect("writes");
    drop(open_at(scratch.path()));
    assert_eq!(fs::read_to_string(&marker).expect("reads"), text);
}
