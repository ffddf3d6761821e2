//! The data after closing and reopening; loads, dropped ranges and checkpoints on files.

use std::{fs, sync::Arc};

use nagi_kv::{CommitStamp, Durability, Engine, Space, TxnOptions};

use crate::{Scratch, open_at};

pub(crate) fn put(engine: &Arc<dyn Engine>, space: Space, key: &[u8], value: &[u8]) -> u64 {
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.put(space, key, value).expect("free");
    txn.add(Space::Counters, b"n", &[1, value.len() as i64]).expect("adds");
    txn.append(Space::Changes, value, false).expect("appends");
    txn.commit(Durability::Buffered).expect("commits").0
}

pub(crate) fn get(engine: &Arc<dyn Engine>, space: Space, key: &[u8]) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    engine.latest().get(space, key, &mut buf).expect("reads").map(<[u8]>::to_vec)
}

pub(crate) fn count(engine: &Arc<dyn Engine>, space: Space) -> u64 {
    let mut cursor = engine.latest().cursor(space, b"", b"").expect("a cursor");
    let mut count = 0;
    let mut found = cursor.seek(b"").expect("seeks");
    while found {
        count += 1;
        found = cursor.next().expect("moves");
    }
    count
}

pub(crate) fn gauge(engine: &Arc<dyn Engine>, name: &str) -> i64 {
    let mut value = -1;
    engine.stats(&mut |gauge, number| {
        if gauge == name {
            value = number;
        }
    });
    value
}

#[test]
fn everything_is_there_after_reopening_and_stamps_go_on() {
    let scratch = Scratch::new();
    let mut last = 0;
    for round in 0..4_u8 {
        let engine = open_at(scratch.path());
        // Without an entry in the change log, only the caller that opens the engine knows the newest stamp.
        engine.advance(CommitStamp(last)).expect("it advances");
        assert!(engine.last_stamp().0 >= last, "stamps never go back");
        assert_eq!(count(&engine, Space::Records), u64::from(round) * 50);
        for n in 0..50 {
            let stamp = put(&engine, Space::Records, &[round + 1, n], &[n; 100]);
            assert!(stamp > last);
            last = stamp;
        }
        let total = i64::from(round + 1) * 50;
        let sums = [total.to_le_bytes(), (total * 100).to_le_bytes()].concat();
        assert_eq!(get(&engine, Space::Counters, b"n"), Some(sums));
        assert_eq!(count(&engine, Space::Changes), total as u64);
        put(&engine, Space::Spill, b"scratch", b"");
        drop(engine);
        let engine = open_at(scratch.path());
        assert_eq!(count(&engine, Space::Spill), 0, "scratch does not outlive its process");
        // That commit counts, too.
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.add(Space::Counters, b"n", &[-1]).expect("adds");
        txn.delete(Space::Changes, &nagi_kv::log_key(last + 1, 0)).expect("free");
        last = txn.commit(Durability::Synced).expect("commits").0;
    }
}

#[test]
fn large_loads_become_files() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    put(&engine, Space::Index, &[9], b"before");
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut number = 0_u32;
    engine
        .load(Space::Index, &mut |key, value| {
            key.clear();
            value.clear();
            key.push(1);
            // Not sorted, and each key occurs twice: the second entry wins.
            key.extend_from_slice(&(number / 2).wrapping_mul(2_654_435_761).to_be_bytes());
            value.resize(500, (number % 2) as u8);
            number += 1;
            Ok(number <= 40_000)
        })
        .expect("loads");
    let mut cursor = snapshot.cursor(Space::Index, &[1], &[2]).expect("a cursor");
    assert!(!cursor.seek(&[1]).expect("seeks"), "an older snapshot does not see the load");
    drop((cursor, snapshot));
    let check = |engine: &Arc<dyn Engine>| {
        assert_eq!(count(engine, Space::Index), 20_001);
        let key = [&[1][..], &5_u32.wrapping_mul(2_654_435_761).to_be_bytes()].concat();
        assert_eq!(get(engine, Space::Index, &key), Some(vec![1; 500]));
    };
    check(&engine);
    put(&engine, Space::Index, &[1], b"writable after");
    drop(engine);
    fs::write(scratch.path().join("rocksdb/load-7.piece"), b"left by a crash").expect("writes");
    let engine = open_at(scratch.path());
    assert!(!scratch.path().join("rocksdb/load-7.piece").exists());
    assert_eq!(get(&engine, Space::Index, &[1]).as_deref(), Some(&b"writable after"[..]));
    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
    txn.delete(Space::Index, &[1]).expect("free");
    txn.commit(Durability::Synced).expect("commits");
    check(&engine);
}

#[test]
fn the_space_of_a_dropped_range_comes_back() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    let mut value = vec![0; 8 << 10];
    for n in 0..4000_u32 {
        value.iter_mut().enumerate().for_each(|(i, byte)| {
            *byte = (n.wrapping_mul(31) ^ (i as u32).wrapping_mul(2_654_435_761) >> 13) as u8;
        });
        let key = [&[(n % 2) as u8 + 1][..], &n.to_be_bytes()].concat();
        let mut txn = engine.begin(TxnOptions::default()).expect("begins");
        txn.put(Space::Records, &key, &value).expect("free");
        txn.commit(Durability::Buffered).expect("commits");
    }
    engine.compact(Space::Records, &[], &[]).expect("compacts");
    let before = gauge(&engine, "disk_live_bytes");
    assert!(engine.approximate_size(Space::Records, &[1], &[2]).expect("a size") > 0);
    engine.drop_range(Space::Records, &[1], &[2]).expect("drops");
    assert_eq!(count(&engine, Space::Records), 2000);
    engine.compact(Space::Records, &[1], &[2]).expect("compacts");
    let after = gauge(&engine, "disk_live_bytes");
    assert!(after < before * 2 / 3, "{before} bytes before the drop, {after} after");
    drop(engine);
    assert_eq!(count(&open_at(scratch.path()), Space::Records), 2000);
}

#[test]
fn a_checkpoint_opens_as_a_store_of_its_own() {
    let (scratch, copy) = (Scratch::new(), Scratch::new());
    let engine = open_at(scratch.path());
    for n in 0..100 {
        put(&engine, Space::Records, &[1, n], b"v");
    }
    engine.checkpoint(copy.path()).expect("copies");
    put(&engine, Space::Records, &[2], b"after");
    let copied = open_at(copy.path());
    assert_eq!(count(&copied, Space::Records), 100);
    put(&copied, Space::Records, &[3], b"independent");
    assert_eq!(get(&engine, Space::Records, &[3]), None);
}

#[test]
fn cursors_and_snapshots_outlive_the_engine() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    put(&engine, Space::Records, b"k", b"v");
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut cursor = engine.latest().cursor(Space::Records, b"", b"").expect("a cursor");
    drop(engine);
    assert!(cursor.seek(b"").expect("seeks"));
    let mut buf = Vec::new();
    assert_eq!(snapshot.get(Space::Records, b"k", &mut buf).expect("reads"), Some(&b"v"[..]));
    drop((cursor, snapshot));
    open_at(scratch.path());
}

#[test]
fn small_ranges_are_dropped_in_passing() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    for ident in 0..200_u8 {
        for n in 0..5 {
            put(&engine, Space::Records, &[1, ident, n], b"v");
        }
        engine.drop_range(Space::Records, &[1, ident], &[1, ident + 1]).expect("drops");
        assert_eq!(gauge(&engine, "ranges_to_reclaim"), 0, "nothing is rewritten for so little");
    }
    assert_eq!(count(&engine, Space::Records), 0);
}

#[test]
fn damaged_files_are_errors_not_wrong_answers() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    let value = |n: u32| -> Vec<u8> {
        (0..2000_u32).map(|i| ((i ^ n).wrapping_mul(2_654_435_761) >> 19) as u8).collect()
    };
    for n in 0..500 {
        put(&engine, Space::Records, &(n + 1_u32).to_be_bytes(), &value(n));
    }
    engine.compact(Space::Records, &[], &[]).expect("compacts");
    drop(engine);
    let files = fs::read_dir(scratch.path().join("rocksdb")).expect("a folder");
    let tables = files.map(|file| file.expect("an entry").path());
    let tables = tables.filter(|path| path.extension().is_some_and(|end| end == "sst"));
    // The tables of records and of the change log; the other spaces have little data.
    for table in tables.filter(|path| fs::metadata(path).is_ok_and(|data| data.len() > 500_000)) {
        let mut bytes = fs::read(&table).expect("reads");
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&table, bytes).expect("writes");
    }
    let engine = open_at(scratch.path());
    let mut damaged = 0;
    for n in 0..500 {
        let mut buf = Vec::new();
        match engine.latest().get(Space::Records, &(n + 1_u32).to_be_bytes(), &mut buf) {
            Ok(stored) => assert_eq!(stored, Some(value(n).as_slice())),
            Err(nagi_kv::Error::Corrupt(_)) => damaged += 1,
            Err(other) => panic!("damage is `Corrupt`, not {other}"),
        }
    }
    assert!((1..10).contains(&damaged), "{damaged} of 500 records are damaged");
}

/// Version `n` of a record: a number, and a part that grows each fifth time.
fn version(n: u32) -> Vec<u8> {
    let mut value = vec![7; 600 + n as usize / 5];
    value[300..304].copy_from_slice(&n.to_le_bytes());
    value
}

#[test]
fn records_of_differences_are_read_from_memtables_tables_and_the_log() {
    const KEYS: u8 = 20;
    let scratch = Scratch::new();
    let mut engine = open_at(scratch.path());
    for key in 0..KEYS {
        put(&engine, Space::Records, &[1, key], &version(0));
    }
    let mut snapshots = Vec::new();
    for n in 1..=120_u32 {
        if n % 10 == 0 {
            snapshots.push((n - 1, engine.snapshot().expect("a snapshot")));
        }
        for key in 0..KEYS {
            let mut txn = engine.begin(TxnOptions::default()).expect("begins");
            txn.put_over(Space::Records, &[1, key], &version(n - 1), &version(n)).expect("free");
            txn.commit(Durability::Buffered).expect("commits");
        }
        match n % 40 {
            13 => engine.flush().expect("flushes"),
            26 => engine.compact(Space::Records, &[1], &[2]).expect("compacts"),
            39 => {
                // Snapshots do not outlive their engine.
                snapshots.clear();
                drop(engine);
                engine = open_at(scratch.path());
            }
            _ => {}
        }
        for key in 0..KEYS {
            assert_eq!(get(&engine, Space::Records, &[1, key]), Some(version(n)));
        }
        for (n, snapshot) in &snapshots {
            let mut buf = Vec::new();
            let seen = snapshot.get(Space::Records, &[1, 3], &mut buf).expect("reads");
            assert_eq!(seen, Some(&*version(*n)));
        }
    }
    let mut cursor = engine.latest().cursor(Space::Records, &[1], &[2]).expect("a cursor");
    let mut found = cursor.seek_back(&[2]).expect("seeks");
    for key in (0..KEYS).rev() {
        assert!(found);
        assert_eq!((cursor.key(), cursor.value()), (&[1, key][..], &*version(120)));
        found = cursor.prev().expect("moves");
    }
}

#[test]
fn a_difference_to_a_value_that_is_lost_reads_as_that() {
    let scratch = Scratch::new();
    let engine = open_at(scratch.path());
    put(&engine, Space::Records, &[1], &version(0));
    // As if damage had brought an earlier version back: the difference is to version 1.
    for key in [1, 2] {
        loop {
            let mut txn = engine.begin(TxnOptions::default()).expect("begins");
            txn.put_over(Space::Records, &[key], &version(1), &version(2)).expect("free");
            txn.commit(Durability::Buffered).expect("commits");
            // One in some changes is written whole, and hides the damage.
            match get(&engine, Space::Records, &[key]) {
                Some(value) if value == version(2) => {
                    let mut txn = engine.begin(TxnOptions::default()).expect("begins");
                    txn.delete(Space::Records, &[key]).expect("free");
                    txn.commit(Durability::Buffered).expect("commits");
                }
                value => {
                    assert_eq!(value.as_deref(), Some(nagi_kv::difference::LOST));
                    break;
                }
            }
        }
    }
    put(&engine, Space::Records, &[3], b"next");
    assert_eq!(count(&engine, Space::Records), 3, "a scan passes it");
    engine.compact(Space::Records, b"", b"").expect("compacts");
    assert_eq!(count(&engine, Space::Records), 3);
}
