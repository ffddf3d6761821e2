//! CPU time and latency of the engine alone: inserts (1 KB document, index key, counter) and point reads.
//!
//! cargo run --release -p nagi-kv-rocks --example put_get -- DIR [documents] [threads] [cache MB] [rounds]
//!
//! `rounds`: number of repetitions of the point reads, for a profiler.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use nagi_kv::{Durability, Engine, Read, Space, TxnOptions};
use nagi_kv_rocks::{Options, open};

const DOCUMENT_BYTES: usize = 1024;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| {
        args.get(index).map_or(default, |arg| arg.parse().expect("a number"))
    };
    let dir = args.first().expect("the first argument is a new folder");
    let (count, threads, cache_mb) = (number(1, 500_000), number(2, 1), number(3, 2048));
    let options = Options { cache_bytes: cache_mb << 20, ..Options::default() };
    let engine = open(Path::new(dir), &options).expect("opens");
    let text: Vec<u8> = random_text();
    run("insert", threads, count, |number| insert(&engine, number, &text, false));
    run("insert checked", threads, count, |number| insert(&engine, count + number, &text, true));
    run("update", threads, count / 4, |number| update(&engine, spread(number) % count, &text));
    let wanted = |number: u64| spread(number) % (2 * count);
    run("get latest", threads, count, |number| get(engine.latest(), wanted(number)));
    engine.compact(Space::Records, &[], &[]).expect("compacts");
    run("get compacted", threads, count, |number| get(engine.latest(), wanted(number)));
    let snapshot = engine.snapshot().expect("a snapshot");
    run("get snapshot", threads, count, |number| get(&*snapshot, wanted(number)));
    for _ in 0..number(4, 0) {
        run("get again", threads, count, |number| get(engine.latest(), wanted(number)));
    }
    run("snapshot", threads, count, |_| drop(engine.snapshot().expect("a snapshot")));
    run("index seek", threads, count, |number| seek(engine.latest(), wanted(number)));
    drop(snapshot);
    run("scan of 1000", threads, count / 1000, |number| scan(engine.latest(), number * 1000));
    let sync = |number: u64| {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Records, &key(3 * count + number), b"v").expect("free");
        txn.commit(Durability::Synced).expect("commits");
    };
    run("synced put", threads, 200 * threads, sync);
    engine.stats(&mut |name, value| println!("  {name} {value}"));
}

fn key(number: u64) -> [u8; 9] {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

fn index_key(number: u64) -> [u8; 17] {
    let mut key = [2; 17];
    key[1..9].copy_from_slice(&spread(number).to_be_bytes());
    key[9..].copy_from_slice(&number.to_be_bytes());
    key
}

fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn random_text() -> Vec<u8> {
    (0..1 << 20_u64).map(|n| b'a' + (spread(n) % 26) as u8).collect()
}

fn document(number: u64, text: &[u8]) -> &[u8] {
    let start = (spread(number) as usize) % (text.len() - DOCUMENT_BYTES);
    &text[start..start + DOCUMENT_BYTES]
}

fn insert(engine: &Arc<dyn Engine>, number: u64, text: &[u8], check: bool) {
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    let index = index_key(number);
    if check {
        let mut buf = Vec::new();
        assert!(txn.get(Space::Index, &index, &mut buf).expect("reads").is_none());
    }
    txn.put(Space::Records, &key(number), document(number, text)).expect("free");
    txn.put(Space::Index, &index, &[]).expect("free");
    txn.add(Space::Counters, b"c", &[1, DOCUMENT_BYTES as i64]).expect("adds");
    txn.commit(Durability::Buffered).expect("commits");
}

fn update(engine: &Arc<dyn Engine>, number: u64, text: &[u8]) {
    loop {
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        let (key, mut buf) = (key(number), Vec::new());
        if txn.lock(Space::Records, &key).is_err() {
            continue;
        }
        assert!(txn.get(Space::Records, &key, &mut buf).expect("reads").is_some());
        txn.put(Space::Records, &key, document(number + 1, text)).expect("locked");
        if txn.commit(Durability::Buffered).is_ok() {
            return;
        }
    }
}

fn get(read: &(impl Read + ?Sized), number: u64) {
    thread_local! {
        static BUF: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    BUF.with_borrow_mut(|buf| {
        let value = read.get(Space::Records, &key(number), buf).expect("reads");
        assert_eq!(value.map(<[u8]>::len), Some(DOCUMENT_BYTES));
    });
}

fn seek(read: &(impl Read + ?Sized), number: u64) {
    let start = index_key(number);
    let mut cursor = read.cursor(Space::Index, &start, &[3]).expect("a cursor");
    assert!(cursor.seek(&start).expect("seeks"));
    assert_eq!(cursor.key(), start);
}

fn scan(read: &(impl Read + ?Sized), number: u64) {
    let mut cursor = read.cursor(Space::Records, &key(number), &[2]).expect("a cursor");
    let mut found = cursor.seek(&key(number)).expect("seeks");
    for _ in 0..1000 {
        assert!(found && cursor.value().len() == DOCUMENT_BYTES);
        found = cursor.next().expect("moves");
    }
}

/// Runs `count` operations on `threads` threads and prints their cost.
fn run(name: &str, threads: u64, count: u64, operation: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    let (cpu, start) = (cpu_ticks(), Instant::now());
    let mut times: Vec<u32> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut times = Vec::with_capacity((count / threads) as usize + 1);
                    loop {
                        let number = next.fetch_add(1, Relaxed);
                        if number >= count {
                            return times;
                        }
                        let start = Instant::now();
                        operation(number);
                        times.push(start.elapsed().as_nanos().min(u32::MAX.into()) as u32);
                    }
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let cpu_us = (cpu_ticks() - cpu) as f64 * 1e4;
    times.sort_unstable();
    let at = |share: f64| f64::from(times[((times.len() - 1) as f64 * share) as usize]) / 1e3;
    println!(
        "{name:<16} {:>9.0}/s  cpu {:>6.2} us  p50 {:>6.1}  p99 {:>7.1}  p99.9 {:>8.1}  max {:>9.1} us",
        count as f64 / seconds,
        cpu_us / count as f64,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// User and system time of the process in hundredths of a second.
fn cpu_ticks() -> u64 {
    nagi_proc::Process::Own.stat().expect("Linux").ticks()
}
