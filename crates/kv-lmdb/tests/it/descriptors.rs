//! The table of open files is full when a commit needs the log's next segment.

use std::{fs, process::Command};

use nagi_kv::{Durability, Space, TxnOptions};
use nagi_kv_lmdb::{Options, open};

use crate::{Scratch, options};

const FOLDER: &str = "NAGI_TEST_FULL_TABLE";

/// Runs in a process of its own, which may open only few files.
#[test]
fn a_full_table_of_open_files_ends_nothing() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return commit_with_a_full_table(folder.as_ref());
    }
    let scratch = Scratch::new();
    let own = std::env::current_exe().expect("has a path");
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(own)
        .args(["--exact", "descriptors::a_full_table_of_open_files_ends_nothing", "--nocapture"])
        .env(FOLDER, scratch.path())
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

fn commit_with_a_full_table(folder: &std::path::Path) {
    let options = Options { segment_bytes: Some(4000), ..options() };
    let engine = open(folder, &options).expect("opens");
    let mut others = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        others.push(file);
    }
    assert!(others.len() > 8, "the engine has taken nearly all");
    for n in 0_u32..64 {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Records, &n.to_be_bytes(), &[n as u8; 500]).expect("free");
        txn.commit(Durability::Synced).expect("the next segment can be made");
        if n == 32 {
            // As in a server whose clients disconnect: the engine can take its reserve descriptors again.
            others.truncate(others.len() / 2);
        }
    }
    drop(others);
    let mut buf = Vec::new();
    for n in 0_u32..64 {
        let found = engine.latest().get(Space::Records, &n.to_be_bytes(), &mut buf);
        assert_eq!(found.expect("reads"), Some(&[n as u8; 500][..]));
    }
    engine.close().expect("closes");
}
