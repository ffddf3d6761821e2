//! `kill -9` under load, for engines with files: a child process writes and reports acknowledged commits; the
//! parent kills it at some moment and checks the remaining data.
//!
//! The child is the test program itself, started with one test: an engine's tests have a `crash::child` that calls
//! `child`, which does nothing unless `run_and_kill` has started it.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use super::get;
use crate::{Durability, Engine, Space, TxnOptions};

const WRITERS: u8 = 3;
const DIR: &str = "NAGI_CRASH_DIR";
/// Prefix of the child's reports, before the writer and the number.
const SAYS: &str = "acknowledged ";

/// The number of acknowledged commits of each writer.
pub type Acknowledged = [u32; WRITERS as usize];

/// Opens the engine under test.
pub type Open<'o> = &'o dyn Fn(&Path) -> Arc<dyn Engine>;

/// The child process: writes until it is killed.
///
/// # Panics
/// If the engine fails, or has lost data that it should have recovered.
pub fn child(open: Open<'_>) {
    let Ok(dir) = std::env::var(DIR) else { return };
    let engine = open(dir.as_ref());
    thread::scope(|scope| {
        for writer in 1..=WRITERS {
            let engine = &engine;
            scope.spawn(move || write_forever(engine, writer));
        }
    });
}

/// Starts the child on a folder and kills it after this many acknowledgements.
///
/// # Panics
/// If the child cannot be started.
pub fn run_and_kill(dir: &Path, after: u32) -> Acknowledged {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["crash::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut acknowledged = Acknowledged::default();
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut seen = 0;
    for line in lines {
        let line = line.expect("text");
        // The harness prints `test crash::child ... ` before the first line.
        let Some((_, numbers)) = line.split_once(SAYS) else { continue };
        let (writer, number) = numbers.split_once(' ').expect("two numbers");
        let writer: usize = writer.parse().expect("a number");
        acknowledged[writer - 1] = number.parse::<u32>().expect("a number") + 1;
        seen += 1;
        if seen == after {
            child.kill().expect("kills");
        }
    }
    child.wait().expect("ends");
    acknowledged
}

/// Kills the child repeatedly. After each time every acknowledged commit must exist, every transaction must be
/// whole, and no transaction may be missing before a later one.
///
/// # Panics
/// If that is violated.
pub fn rounds(dir: &Path, count: u32, open: Open<'_>) {
    for round in 0..count {
        let acknowledged = run_and_kill(dir, 20 + round * 37);
        let engine = open(dir);
        let mut total = 0;
        for (writer, known) in (1..).zip(acknowledged) {
            let records = recovered(&engine, writer);
            assert!(records >= known, "writer {writer}: {records} of {known} acknowledged");
            let sums = [i64::from(records), i64::from(records) * 300];
            let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            let counter = get(engine.latest(), Space::Counters, &[writer]);
            assert_eq!(counter.unwrap_or(vec![0; 16]), sums, "the counter is exact");
            total += records;
        }
        assert_eq!(count_keys(&engine, Space::Index), total);
    }
}

fn write_forever(engine: &Arc<dyn Engine>, writer: u8) {
    let first = recovered(engine, writer);
    if first == 0 {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Records, &changed_key(writer), &changed(writer, 0)).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
    }
    for number in first.. {
        let synced = number % 4 == 0;
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        let key = record_key(writer, number);
        txn.put(Space::Records, &key, &[writer; 300]).expect("free");
        let (old, new) = (changed(writer, number), changed(writer, number + 1));
        txn.put_over(Space::Records, &changed_key(writer), &old, &new).expect("free");
        txn.put(Space::Index, &index_key(writer, number), &key).expect("free");
        txn.add(Space::Counters, &[writer], &[1, 300]).expect("adds");
        let durability = if synced { Durability::Synced } else { Durability::Buffered };
        txn.commit(durability).expect("commits");
        if synced {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{SAYS}{writer} {number}").expect("the parent listens");
        }
    }
}

/// The record that a writer changes with each commit.
fn changed_key(writer: u8) -> Vec<u8> {
    vec![writer | 0x80]
}

/// Its value after that many commits: most of it stays the same.
fn changed(writer: u8, commits: u32) -> Vec<u8> {
    let mut value = vec![writer; 300 + commits as usize / 16 % 8];
    value[40..44].copy_from_slice(&commits.to_le_bytes());
    value
}

fn record_key(writer: u8, number: u32) -> Vec<u8> {
    [&[writer][..], &number.to_be_bytes()].concat()
}

fn index_key(writer: u8, number: u32) -> Vec<u8> {
    [&number.wrapping_mul(2_654_435_761).to_be_bytes()[..], &[writer]].concat()
}

/// The number of a writer's records; they must be those from 0 on, without a gap.
fn recovered(engine: &Arc<dyn Engine>, writer: u8) -> u32 {
    let mut cursor = engine.latest().cursor(Space::Records, &[writer], &[writer + 1]).expect("one");
    let (mut found, mut number) = (cursor.seek(&[writer]).expect("seeks"), 0);
    while found {
        assert_eq!(cursor.key(), record_key(writer, number), "a hole in what was recovered");
        assert_eq!(cursor.value(), [writer; 300]);
        let index = get(engine.latest(), Space::Index, &index_key(writer, number));
        assert_eq!(index, Some(record_key(writer, number)), "a record without its index key");
        number += 1;
        found = cursor.next().expect("moves");
    }
    let value = get(engine.latest(), Space::Records, &changed_key(writer));
    assert!(number == 0 || value == Some(changed(writer, number)), "changes are whole, too");
    number
}

fn count_keys(engine: &Arc<dyn Engine>, space: Space) -> u32 {
    let mut cursor = engine.latest().cursor(space, &[], &[]).expect("a cursor");
    let (mut found, mut count) = (cursor.seek(&[]).expect("seeks"), 0);
    while found {
        count += 1;
        found = cursor.next().expect("moves");
    }
    count
}
