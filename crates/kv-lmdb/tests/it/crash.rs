//! The data that remains after the process or the machine stopped at any moment.
//!
//! A copy of the data directory's files while the engine is open is what a killed process leaves. After a power cut
//! any part of the log's unsynced tail may be missing; the data file is always a consistent snapshot, because every
//! write of it was synced.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagi_kv::{CommitStamp, Durability, Engine, Error, Space, TxnOptions, conformance::crash};
use nagi_kv_lmdb::{Options, open, repair};
use nagi_testkit::{copy_folder, flip, torn_at};

use crate::{Scratch, options};

fn commit(engine: &Arc<dyn Engine>, n: u32, durability: Durability) -> CommitStamp {
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(Space::Records, &n.to_be_bytes(), &[n as u8; 300]).expect("free");
    txn.add(Space::Counters, b"count", &[1]).expect("adds");
    txn.append(Space::Changes, &n.to_be_bytes(), false).expect("appends");
    txn.commit(durability).expect("commits")
}

/// Options under which nothing is synced or applied unless the test requests it.
fn lazy() -> Options {
    Options { commit_interval_ms: 3_600_000, ..options() }
}

fn copy(from: &Path, to: &Path) {
    copy_folder(from, to).expect("copies");
}

/// The number of commits 0, 1, ... that exist, up to the first that is missing.
fn commits(engine: &Arc<dyn Engine>) -> u32 {
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut buf = Vec::new();
    let mut count = 0_u32;
    while snapshot.get(Space::Records, &count.to_be_bytes(), &mut buf).expect("reads").is_some() {
        count += 1;
    }
    let mut cursor = snapshot.cursor(Space::Records, &[], &[]).expect("a cursor");
    let mut entries = 0;
    let mut more = cursor.seek(&[]).expect("seeks");
    while more {
        entries += 1;
        more = cursor.next().expect("moves");
    }
    assert_eq!(entries, count, "no commit after a missing one");
    let counted = snapshot.get(Space::Counters, b"count", &mut buf).expect("reads");
    let counted = counted.map_or(0, |v| i64::from_le_bytes(v.try_into().expect("eight bytes")));
    assert_eq!(counted, i64::from(count), "a commit is there whole or not at all");
    count
}

fn journal_files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir.join("journal"))
        .expect("lists")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("j._")))
        .collect();
    files.sort();
    files
}

/// Opens with layers of a few commits, so that a kill can hit every stage.
fn open_small(dir: &Path) -> Arc<dyn Engine> {
    let small = Options { layer_bytes: 40_000, segment_bytes: Some(16_000), ..options() };
    open(dir, &small).expect("opens")
}

#[test]
fn child() {
    crash::child(&open_small);
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    crash::rounds(Scratch::new().path(), 6, &open_small);
}

#[test]
fn a_power_cut_leaves_the_commits_up_to_some_moment() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &lazy()).expect("opens");
    for n in 0..30 {
        commit(&engine, n, Durability::Synced);
    }
    let synced = fs::read(&journal_files(scratch.path())[0]).expect("reads").len();
    for n in 30..60 {
        commit(&engine, n, Durability::Buffered);
    }
    let log = journal_files(scratch.path()).remove(0);
    let whole = fs::read(&log).expect("reads");
    let name = log.file_name().expect("a name");
    let step = ((whole.len() - synced) / 9).max(1);
    for cut in (synced..whole.len()).step_by(step) {
        for torn in torn_at(&whole, cut) {
            let after = Scratch::new();
            copy(scratch.path(), after.path());
            fs::write(after.path().join("journal").join(name), torn).expect("writes");
            let again = open(after.path(), &lazy()).expect("opens");
            let count = commits(&again);
            assert!((30..60).contains(&count), "{count}");
            commit(&again, count, Durability::Buffered);
            assert_eq!(commits(&again), count + 1);
        }
    }
}

#[test]
fn damage_to_what_was_synced_is_said_with_file_and_offset() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &lazy()).expect("opens");
    for n in 0..30 {
        commit(&engine, n, Durability::Synced);
    }
    let damaged = Scratch::new();
    copy(scratch.path(), damaged.path());
    let log = journal_files(damaged.path()).remove(0);
    let at = fs::metadata(&log).expect("is there").len() / 2;
    flip(&log, at as usize).expect("flips");
    match open(damaged.path(), &lazy()) {
        Err(Error::Corrupt(what)) => {
            assert!(what.contains("journal/j._") && what.contains("offset"), "{what}");
        }
        other => panic!("{:?}", other.map(|engine| engine.last_stamp())),
    }
    let engine = open(damaged.path(), &Options { salvage: true, ..lazy() }).expect("salvages");
    assert_eq!(present(&engine, 30), 29, "only the damaged commit is lost");
}

/// The number of commits before `n` that exist.
fn present(engine: &Arc<dyn Engine>, n: u32) -> usize {
    let mut buf = Vec::new();
    let mut has = |n: u32| match engine.latest().get(Space::Records, &n.to_be_bytes(), &mut buf) {
        Ok(Some(value)) => value == [n as u8; 300],
        other => other.expect("reads").is_some(),
    };
    (0..n).filter(|n| has(*n)).count()
}

#[test]
fn a_flip_anywhere_in_the_log_loses_nothing_that_was_synced_without_a_word() {
    let scratch = Scratch::new();
    // The log spans several segments.
    let options = Options { segment_bytes: Some(20_000), ..lazy() };
    let engine = open(scratch.path(), &options).expect("opens");
    for n in 0..150 {
        commit(&engine, n, if n % 5 == 4 { Durability::Synced } else { Durability::Buffered });
    }
    let (mut refused, mut whole, mut fixed) = (0, 0, 0);
    for log in journal_files(scratch.path()) {
        let length = fs::metadata(&log).expect("is there").len() as usize;
        for at in (0..64).chain((64..length).step_by(1487)) {
            let damaged = Scratch::new();
            copy(scratch.path(), damaged.path());
            let name = log.file_name().expect("a name");
            flip(&damaged.path().join("journal").join(name), at).expect("flips");
            match open(damaged.path(), &options).map(|engine| commits(&engine)) {
                Ok(150) if at < 64 => fixed += 1,
                Ok(count) => {
                    whole += 1;
                    assert!(count >= 140, "{name:?} at {at}: {count}");
                }
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    assert!(text.contains("journal/j._") && text.contains("offset"), "{text}");
                    assert!(open(damaged.path(), &options).is_err(), "refused each time");
                    let report = repair(damaged.path(), &options).expect("repairs");
                    assert!(report.findings[0].contains("journal/j._"), "{report:?}");
                    let engine = open(damaged.path(), &options).expect("opens");
                    let count = present(&engine, 150);
                    assert!(count >= 149, "{name:?} at {at}: {count}");
                }
            }
        }
    }
    assert!(refused > 20 && fixed > 40, "{refused} refused, {fixed} fixed, {whole} whole");
}

/// Offset, length of the body, and newest durable stamp of each record.
fn records(bytes: &[u8]) -> Vec<(usize, usize, u64)> {
    let mut found = Vec::new();
    let mut at = 64;
    while let Some(head) = bytes.get(at..).and_then(|b| b.first_chunk::<32>()) {
        if head[8..16] == [0; 8] {
            break;
        }
        let length = u32::from_le_bytes([0, 1, 2, 3].map(|n| head[n])) as usize;
        let synced = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n| head[24 + n]));
        found.push((at, length, synced));
        at += 32 + length;
    }
    found
}

#[test]
fn an_idle_log_says_that_its_last_commit_is_on_disk() {
    let scratch = Scratch::new();
    let options = Options { commit_interval_ms: 1, ..options() };
    let engine = open(scratch.path(), &options).expect("opens");
    let stamps: Vec<_> = (0..20).map(|n| commit(&engine, n, Durability::Synced)).collect();
    let (before, last) = (stamps[18], stamps[19]);
    let log = journal_files(scratch.path()).remove(0);
    // A record without changes that was written between the last commit and its sync has the stamp before.
    let says_it = |&(_, length, synced): &(usize, usize, u64)| length == 0 && synced == last.0;
    let mut bytes = fs::read(&log).expect("reads");
    while !records(&bytes).iter().any(says_it) {
        std::thread::yield_now();
        bytes = fs::read(&log).expect("reads");
    }
    let damaged = Scratch::new();
    copy(scratch.path(), damaged.path());
    let (at, length, _) = *records(&bytes).iter().rfind(|record| record.1 != 0).expect("commit 20");
    bytes[at + 32 + length - 10] ^= 1;
    fs::write(damaged.path().join("journal").join(log.file_name().expect("x")), bytes).expect("x");
    let error = open(damaged.path(), &options).map(|_| ()).expect_err("damaged");
    assert!(error.to_string().contains(&format!("commits after {before} up to {last}")), "{error}");
}

#[test]
fn a_damaged_entry_is_said_and_others_are_read() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &lazy()).expect("opens");
    for n in 0..30 {
        commit(&engine, n, Durability::Buffered);
    }
    drop(engine);
    let data = scratch.path().join("lmdb/data.mdb");
    let mut bytes = fs::read(&data).expect("reads");
    // Free pages may have copies of it.
    let mut places: Vec<usize> = Vec::new();
    for at in 0..bytes.len() - 300 {
        if bytes[at..at + 300] == [17; 300] {
            places.push(at);
        }
    }
    assert!(!places.is_empty());
    // The byte before the value belongs to its key and is 17 as well, so a byte in the middle is changed.
    places.into_iter().for_each(|at| bytes[at + 150] ^= 1);
    fs::write(&data, bytes).expect("writes");
    let engine = open(scratch.path(), &lazy()).expect("opens");
    let mut buf = Vec::new();
    let mut get = |n: u32| {
        let found = engine.latest().get(Space::Records, &n.to_be_bytes(), &mut buf);
        found.map(|value| value.is_some())
    };
    assert!(matches!(get(17), Err(Error::Corrupt(what)) if what.contains("data.mdb")));
    assert!(get(16).expect("reads") && get(18).expect("reads"));
    let found = engine.verify(&mut |_, _| true).expect("verifies").expect("to the end");
    assert_eq!(found.len(), 1, "{found:?}");
    drop(engine);
    let repaired = repair(scratch.path(), &lazy()).expect("repairs");
    assert_eq!((repaired.lost.len(), repaired.findings.len()), (1, 1));
    assert_eq!(repaired.lost[0].1, 17_u32.to_be_bytes());
    assert!(repaired.kept.is_some_and(|kept| kept.join("data.mdb").exists()));
    let engine = open(scratch.path(), &lazy()).expect("opens");
    assert_eq!(engine.verify(&mut |_, _| true).expect("verifies"), Some(Vec::new()));
    let again = repair_again(engine, scratch.path());
    assert!(again.findings.is_empty() && again.kept.is_none());
}

fn repair_again(engine: Arc<dyn Engine>, dir: &Path) -> nagi_kv_lmdb::Repair {
    drop(engine);
    repair(dir, &lazy()).expect("repairs")
}

#[test]
fn a_copy_is_a_whole_store() {
    let (scratch, folder) = (Scratch::new(), Scratch::new());
    let engine = open(scratch.path(), &lazy()).expect("opens");
    for n in 0..50 {
        commit(&engine, n, Durability::Buffered);
    }
    engine.checkpoint(folder.path()).expect("copies");
    commit(&engine, 50, Durability::Buffered);
    let copy = open(folder.path(), &lazy()).expect("opens");
    assert_eq!((commits(&copy), commits(&engine)), (50, 51));
    assert!(copy.approximate_size(Space::Records, &[], &[]).expect("a size") > 50 * 300);
}

#[test]
fn what_was_closed_leaves_no_log() {
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &lazy()).expect("opens");
    commit(&engine, 0, Durability::Buffered);
    drop(engine);
    assert!(journal_files(scratch.path()).is_empty());
    assert_eq!(commits(&open(scratch.path(), &lazy()).expect("opens")), 1);
}
