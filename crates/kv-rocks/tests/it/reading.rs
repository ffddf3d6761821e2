//! Reads of files: backward scans are as fast as forward scans and correct, and scans do not evict frequently read
//! blocks from the cache.

use std::{sync::Arc, thread};

use nagi_kv::{Cursor, Engine, Space};
use nagi_kv_rocks::{Options, open};

use crate::Scratch;

const VALUE_BYTES: usize = 900;

fn key(number: u64) -> [u8; 8] {
    (number * 3).to_be_bytes()
}

/// All values differ and do not compress.
fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

fn load(engine: &Arc<dyn Engine>, numbers: std::ops::Range<u64>) {
    let mut numbers = numbers;
    let mut next = |k: &mut Vec<u8>, v: &mut Vec<u8>| {
        let Some(number) = numbers.next() else { return Ok(false) };
        k.clear();
        k.extend_from_slice(&key(number));
        *v = value(number);
        Ok(true)
    };
    engine.load(Space::Records, &mut next).expect("loads");
}

fn options(cache_bytes: u64) -> Options {
    Options { cache_bytes, ..Options::default() }
}

fn gauge(engine: &Arc<dyn Engine>, wanted: &str) -> i64 {
    let mut found = 0;
    engine.stats(&mut |name, value| {
        if name == wanted {
            found = value;
        }
    });
    found
}

fn check(cursor: &dyn Cursor, number: u64) {
    assert_eq!(cursor.key(), key(number), "at {number}");
    assert_eq!(cursor.value(), value(number), "at {number}");
}

/// Reads all of `0..count` backward.
fn check_backward(engine: &Arc<dyn Engine>, count: u64) {
    let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
    let mut there = cursor.seek_back(&[]).expect("reads");
    for number in (0..count).rev() {
        assert!(there);
        check(&*cursor, number);
        there = cursor.prev().expect("reads");
    }
    assert!(!there);
}

/// Backward in one pass, then in short steps among other readers, comparing each value.
#[test]
fn backward_scans_read_what_was_written() {
    const COUNT: u64 = 20_000;
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &options(4 << 20)).expect("opens");
    load(&engine, 0..COUNT);
    let engine = &engine;
    thread::scope(|scope| {
        scope.spawn(move || {
            check_backward(engine, COUNT);
        });
        for part in 1..4 {
            scope.spawn(move || {
                for hop in 0..60 {
                    let from = (hop * 7919 * part) % COUNT;
                    let mut cursor =
                        engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
                    assert!(cursor.seek(&key(from)).expect("reads"));
                    for number in (from.saturating_sub(40)..=from).rev() {
                        check(&*cursor, number);
                        assert_eq!(cursor.prev().expect("reads"), number > 0);
                    }
                }
            });
        }
    });
}

/// Files are replaced while they are read backward: a new file may get the address of an old one.
#[test]
fn backward_scans_stand_files_that_come_and_go() {
    const COUNT: u64 = 3_000;
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &options(4 << 20)).expect("opens");
    load(&engine, 0..COUNT);
    for round in 0..4 {
        load(&engine, 0..COUNT / 2 * (round % 2 + 1));
        engine.compact(Space::Records, &[], &[]).expect("compacts");
        check_backward(&engine, COUNT);
    }
}

fn read_hot(engine: &Arc<dyn Engine>, count: u64) {
    let mut buf = Vec::new();
    for number in 0..count {
        let found = engine.latest().get(Space::Records, &key(number), &mut buf).expect("reads");
        assert!(found.is_some());
    }
}

/// Frequently read blocks stay in the cache during a scan of everything, in both directions.
#[test]
fn a_large_scan_leaves_the_hot_set_in_the_cache() {
    const COUNT: u64 = 60_000;
    const HOT: u64 = 4_000;
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &options(16 << 20)).expect("opens");
    load(&engine, 0..COUNT);
    for _ in 0..3 {
        read_hot(&engine, HOT);
    }
    for forward in [true, false] {
        let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
        let mut there =
            if forward { cursor.seek(&[]) } else { cursor.seek_back(&[]) }.expect("reads");
        let mut count = 0;
        while there {
            count += 1;
            there = if forward { cursor.next() } else { cursor.prev() }.expect("reads");
        }
        assert_eq!(count, COUNT);
        let misses = gauge(&engine, "cache_misses");
        read_hot(&engine, HOT);
        let again = gauge(&engine, "cache_misses") - misses;
        // About four documents share a block.
        assert!(again < HOT as i64 / 4 / 20, "{again} blocks of the hot set are gone");
    }
}

/// Data that fits into the cache is cached by the first scan.
#[test]
fn a_small_scan_fills_the_cache() {
    const COUNT: u64 = 8_000;
    let scratch = Scratch::new();
    let engine = open(scratch.path(), &options(64 << 20)).expect("opens");
    load(&engine, 0..COUNT);
    let scan = || {
        let mut cursor = engine.latest().cursor(Space::Records, &[], &[]).expect("a cursor");
        let mut there = cursor.seek(&[]).expect("reads");
        while there {
            there = cursor.next().expect("reads");
        }
    };
    scan();
    let misses = gauge(&engine, "cache_misses");
    scan();
    assert!(gauge(&engine, "cache_misses") - misses < 20);
}
