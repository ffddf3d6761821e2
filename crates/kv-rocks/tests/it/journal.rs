//! A log that changed on disk after a crash is reported, and not mistaken for one that the crash tore.
//!
//! A copy of the data directory's files while the engine is open is what a power failure leaves if everything had
//! reached the disk; the ring belongs to the original folder. A killed process leaves its ring.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagi_kv::{Durability, Engine, Error, Space, TxnOptions, conformance::crash::run_and_kill};
use nagi_kv_rocks::{open, repair};
use nagi_testkit::{copy_folder, flip, torn_at};

use crate::{Scratch, encrypted, options_at};

const COMMITS: u32 = 240;
const SYNCED: u32 = 200;

fn key(n: u32) -> Vec<u8> {
    [&7_u32.to_be_bytes()[..], &u64::from(n).to_be_bytes()].concat()
}

/// Some commits are longer than a block of the log.
fn value(n: u32) -> Vec<u8> {
    let length = if n % 41 == 40 { 50_000 } else { 20 + n * 53 % 700 };
    (0..length).map(|at| (n * 7 + at * 13) as u8).collect()
}

fn commit(engine: &Arc<dyn Engine>, n: u32, durability: Durability) {
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Records, &key(n), &value(n)).expect("free");
    txn.add(Space::Counters, b"count", &[1]).expect("adds");
    txn.commit(durability).expect("commits");
}

fn has(engine: &Arc<dyn Engine>, n: u32) -> bool {
    let mut buf = Vec::new();
    match engine.latest().get(Space::Records, &key(n), &mut buf).expect("reads") {
        Some(found) => {
            assert_eq!(found, value(n), "commit {n} is there whole or not at all");
            true
        }
        None => false,
    }
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("rocksdb")).expect("lists");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut logs: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    logs
}

fn copy(from: &Path, to: &Path) {
    copy_folder(from, to).expect("copies");
}

/// Whether a text names a damaged log.
fn names_a_log(text: &str) -> bool {
    text.contains(".log is damaged at offset") || text.contains(".log: the header of an encrypted")
}

/// Opening the data directory fails each time and names the place; then it is repaired.
fn refused_and_repaired(dir: &Path) -> Arc<dyn Engine> {
    for _ in 0..2 {
        match open(dir, &options_at(dir)) {
            Err(Error::Corrupt(what)) => {
                assert!(names_a_log(&what), "{what}");
            }
            other => panic!("{:?}", other.map(|engine| engine.last_stamp())),
        }
    }
    let report = repair(dir, &options_at(dir)).expect("repairs");
    assert!(names_a_log(&report.findings[0]), "{report:?}");
    assert!(report.kept.is_some());
    open(dir, &options_at(dir)).expect("opens")
}

#[test]
fn a_flip_anywhere_in_the_journal_loses_nothing_that_was_synced_without_a_word() {
    loses_nothing_without_a_word(&Scratch::new());
}

#[test]
fn a_flip_anywhere_in_an_encrypted_journal_loses_nothing_without_a_word() {
    loses_nothing_without_a_word(&encrypted());
}

fn loses_nothing_without_a_word(original: &Scratch) {
    let engine = open(original.path(), &options_at(original.path())).expect("opens");
    for n in 0..COMMITS {
        let synced = n % 10 == 9 && n < SYNCED;
        commit(&engine, n, if synced { Durability::Synced } else { Durability::Buffered });
    }
    engine.flush().expect("flushes");
    let log = logs(original.path()).pop().expect("a log");
    let length = fs::metadata(&log).expect("there").len() as usize;
    let (mut refused, mut accepted) = (0, 0);
    for at in (0..length).step_by(length / 60) {
        let scratch = Scratch::new();
        copy(original.path(), scratch.path());
        flip(&scratch.path().join("rocksdb").join(log.file_name().expect("a name")), at)
            .expect("flips");
        match open(scratch.path(), &options_at(scratch.path())) {
            Ok(engine) => {
                accepted += 1;
                let count = (0..COMMITS).take_while(|n| has(&engine, *n)).count() as u32;
                assert!((count..COMMITS).all(|n| !has(&engine, n)), "{at}: a hole");
                assert!(count >= SYNCED - 10, "{at}: {count}");
            }
            Err(_) => {
                refused += 1;
                let engine = refused_and_repaired(scratch.path());
                let count = (0..COMMITS).filter(|n| has(&engine, *n)).count() as u32;
                assert!(count >= COMMITS - 1, "{at}: {count} of {COMMITS} saved");
            }
        }
    }
    assert!(refused > 30, "{refused} refused, {accepted} accepted");
}

#[test]
fn a_killed_process_left_word_of_what_it_had_synced() {
    leaves_word(&Scratch::new(), 500);
}

#[test]
fn a_killed_process_left_word_of_what_it_had_synced_encrypted() {
    leaves_word(&encrypted(), 4096 + 500);
    // In the header.
    leaves_word(&encrypted(), 60);
}

fn leaves_word(scratch: &Scratch, at: usize) {
    let acknowledged = run_and_kill(scratch.path(), 60);
    let log = logs(scratch.path()).pop().expect("a log");
    // In the first commits.
    flip(&log, at).expect("flips");
    let engine = refused_and_repaired(scratch.path());
    let mut left = 0;
    let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("one");
    let mut found = cursor.seek(&[]).expect("seeks");
    while found {
        left += 1;
        found = cursor.next().expect("moves");
    }
    let known: u32 = acknowledged.iter().sum();
    assert!(left + 8 >= known, "{left} of {known}");
}

#[test]
fn what_follows_the_last_sync_may_be_torn() {
    may_be_torn(&Scratch::new());
}

#[test]
fn what_follows_the_last_sync_may_be_torn_in_encrypted_files() {
    may_be_torn(&encrypted());
}

fn may_be_torn(original: &Scratch) {
    let lazy =
        nagi_kv_rocks::Options { commit_interval_ms: 3_600_000, ..options_at(original.path()) };
    let engine = open(original.path(), &lazy).expect("opens");
    for n in 0..50 {
        commit(&engine, n, Durability::Synced);
    }
    let log = logs(original.path()).pop().expect("a log");
    let synced = fs::metadata(&log).expect("there").len() as usize;
    for n in 50..90 {
        commit(&engine, n, Durability::Buffered);
    }
    // Makes the ring buffer write without a sync that is recorded in this log.
    engine.flush().expect("flushes");
    let whole = fs::read(&log).expect("reads");
    for at in (synced..whole.len()).step_by((whole.len() - synced) / 9) {
        for torn in torn_at(&whole, at) {
            let scratch = Scratch::new();
            copy(original.path(), scratch.path());
            let target = scratch.path().join("rocksdb").join(log.file_name().expect("a name"));
            fs::write(target, torn).expect("writes");
            let engine = open(scratch.path(), &lazy).expect("opens");
            let count = (0..90).take_while(|n| has(&engine, *n)).count() as u32;
            assert!((count..90).all(|n| !has(&engine, n)), "{at}: a hole");
            assert!(count >= 50, "{at}: {count}");
        }
    }
}
