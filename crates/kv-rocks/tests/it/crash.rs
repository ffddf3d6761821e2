//! `kill -9` under load: a child process writes and tells what was acknowledged, the parent kills it
//! at some moment and looks at what is left.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use nagi_kv::{Durability, Engine, Space, TxnOptions};

use crate::{
    Scratch, open_at,
    reopen::{count, get},
};

const WRITERS: u8 = 3;
const ROUNDS: u32 = 6;
const DIR: &str = "NAGI_CRASH_DIR";

/// The child's part; does nothing when run as a test.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let engine = open_at(dir.as_ref());
    thread::scope(|scope| {
        for writer in 1..=WRITERS {
            let engine = &engine;
            scope.spawn(move || write_forever(engine, writer));
        }
    });
}

fn write_forever(engine: &Arc<dyn Engine>, writer: u8) {
    let first = recovered(engine, writer);
    for number in first.. {
        let synced = number % 4 == 0;
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        let key = record_key(writer, number);
        txn.put(Space::Records, &key, &[writer; 300]).expect("free");
        txn.put(Space::Index, &index_key(writer, number), &key).expect("free");
        txn.add(Space::Counters, &[writer], &[1, 300]).expect("adds");
        let durability = if synced { Durability::Synced } else { Durability::Buffered };
        txn.commit(durability).expect("commits");
        if synced {
            let mut out = std::io::stdout().lock();
            writeln!(out, "acknowledged {writer} {number}").expect("the parent listens");
        }
    }
}

fn record_key(writer: u8, number: u32) -> Vec<u8> {
    [&[writer][..], &number.to_be_bytes()].concat()
}

fn index_key(writer: u8, number: u32) -> Vec<u8> {
    [&number.wrapping_mul(2_654_435_761).to_be_bytes()[..], &[writer]].concat()
}

/// How many records a writer has; they are those from 0 on, or something was lost in between.
fn recovered(engine: &Arc<dyn Engine>, writer: u8) -> u32 {
    let mut cursor = engine.latest().cursor(Space::Records, &[writer], &[writer + 1]).expect("one");
    let (mut found, mut number) = (cursor.seek(&[writer]).expect("seeks"), 0);
    while found {
        assert_eq!(cursor.key(), record_key(writer, number), "a hole in what was recovered");
        assert_eq!(cursor.value(), [writer; 300]);
        let index = get(engine, Space::Index, &index_key(writer, number));
        assert_eq!(index, Some(record_key(writer, number)), "a record without its index key");
        number += 1;
        found = cursor.next().expect("moves");
    }
    number
}

pub(crate) fn run_and_kill(scratch: &Scratch, after_lines: u32) -> [u32; WRITERS as usize] {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["crash::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR, scratch.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut acknowledged = [0; WRITERS as usize];
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut seen = 0;
    for line in lines {
        let line = line.expect("text");
        // The harness prints `test crash::child ... ` before the first line.
        let Some((_, numbers)) = line.split_once("acknowledged ") else { continue };
        let (writer, number) = numbers.split_once(' ').expect("two numbers");
        let writer: usize = writer.parse().expect("a number");
        acknowledged[writer - 1] = number.parse::<u32>().expect("a number") + 1;
        seen += 1;
        if seen == after_lines {
            child.kill().expect("kills");
        }
    }
    child.wait().expect("ends");
    acknowledged
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let scratch = Scratch::new();
    for round in 0..ROUNDS {
        let acknowledged = run_and_kill(&scratch, 20 + round * 37);
        let engine = open_at(scratch.path());
        let mut total = 0;
        for writer in 1..=WRITERS {
            let records = recovered(&engine, writer);
            let known = acknowledged[usize::from(writer) - 1];
            assert!(records >= known, "writer {writer}: {records} of {known} acknowledged");
            let sums = [i64::from(records), i64::from(records) * 300];
            let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            let counter = get(&engine, Space::Counters, &[writer]);
            assert_eq!(counter.unwrap_or(vec![0; 16]), sums, "the counter is exact");
            total += u64::from(records);
        }
        assert_eq!(count(&engine, Space::Index), total);
    }
}
