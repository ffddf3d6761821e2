//! A data file that is damaged while it is mapped.

use std::{fs, path::Path, process::Command};

use nagi_kv::{Durability, Space, TxnOptions};
use nagi_kv_lmdb::open;

use crate::{Scratch, options};

const FOLDER: &str = "NAGI_TEST_DAMAGED_MAP";
const KEYS: u32 = 4000;

/// Runs in a process of its own, which has to end in order and with the exit code for damage.
#[test]
fn a_file_that_is_cut_off_under_its_map_ends_the_process_with_the_code_for_damage() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return read_what_is_gone(folder.as_ref());
    }
    let scratch = Scratch::new();
    let child = Command::new(std::env::current_exe().expect("has a path"))
        .args(["fault::", "--nocapture"])
        .env(FOLDER, scratch.path())
        .output()
        .expect("starts");
    assert_eq!(child.status.code(), Some(14), "{:?} {child:?}", child.status);
}

fn read_what_is_gone(folder: &Path) {
    let engine = open(folder, &options()).expect("opens");
    for from in (0..KEYS).step_by(100) {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        for n in from..from + 100 {
            txn.put(Space::Records, &n.to_be_bytes(), &[n as u8; 1000]).expect("free");
        }
        txn.commit(Durability::Buffered).expect("commits");
    }
    engine.close().expect("closes");
    drop(engine);
    let engine = open(folder, &options()).expect("opens again");
    let mut buf = Vec::new();
    let found = engine.latest().get(Space::Records, &0_u32.to_be_bytes(), &mut buf);
    assert!(found.expect("reads").is_some());
    let file = fs::OpenOptions::new().write(true).open(folder.join("lmdb/data.mdb"));
    file.expect("is there").set_len(8192).expect("can be cut off");
    for n in 0..KEYS {
        let found = engine.latest().get(Space::Records, &n.to_be_bytes(), &mut buf);
        assert!(found.is_err(), "{n} is gone");
    }
}
