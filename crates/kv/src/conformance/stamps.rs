//! Stamps: the order of commits, and the commits visible at each stamp.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use super::{Check, begin, commit, get, put, scan};
use crate::{CommitStamp, Engine, Error, Read, Space};

const WRITERS: u8 = 3;
const COMMITS: u16 = 300;

pub(super) static POINTS: &[Check] = &[
    a_snapshot_has_exactly_the_commits_up_to_its_stamp,
    a_transaction_tells_what_it_reads,
    a_time_of_the_past_is_exact_or_too_old,
    a_commit_is_after_a_stamp_if_it_has_to_be,
    nothing_comes_before_an_advanced_stamp,
    stamps_follow_the_wall_clock,
];

type Key = Vec<u8>;

fn keys(read: &(impl Read + ?Sized)) -> BTreeSet<Key> {
    scan(read, Space::Records, b"", b"").into_iter().map(|(key, _)| key).collect()
}

/// Writers, transactions, snapshots and a thread that advances the clock; every view is compared with the stamps
/// that the writers received.
fn a_snapshot_has_exactly_the_commits_up_to_its_stamp(engine: &Arc<dyn Engine>) {
    let committed: Mutex<Vec<(u64, Key)>> = Mutex::default();
    let seen: Mutex<Vec<(u64, BTreeSet<Key>)>> = Mutex::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let committed = &committed;
                scope.spawn(move || {
                    for n in 0..COMMITS {
                        let key = [&[writer + 1][..], &n.to_be_bytes()].concat();
                        let stamp = put(engine, Space::Records, &key, b"");
                        committed.lock().expect("no panic").push((stamp, key));
                        assert!(engine.last_stamp().0 >= stamp);
                    }
                })
            })
            .collect();
        for by_transaction in [false, true] {
            let (seen, done) = (&seen, &done);
            scope.spawn(move || {
                while !done.load(SeqCst) {
                    let view = match by_transaction {
                        false => {
                            let snapshot = engine.snapshot().expect("a snapshot");
                            (snapshot.stamp().0, keys(&*snapshot))
                        }
                        true => {
                            let txn = begin(engine);
                            (txn.read_stamp().expect("it reads").0, keys(&*txn))
                        }
                    };
                    assert!(engine.last_stamp().0 >= view.0);
                    let mut seen = seen.lock().expect("no panic");
                    if seen.len() < 2_000 {
                        seen.push(view);
                    }
                }
            });
        }
        scope.spawn(|| {
            while engine.capabilities().one_order && !done.load(SeqCst) {
                let next = engine.clock().next();
                engine.advance(CommitStamp(next)).expect("it advances");
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            while !done.load(SeqCst) {
                load(engine);
            }
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        done.store(true, SeqCst);
    });
    let committed = committed.into_inner().expect("no panic");
    let stamps: BTreeSet<u64> = committed.iter().map(|(stamp, _)| *stamp).collect();
    assert_eq!(stamps.len(), committed.len(), "each commit has a stamp of its own");
    for (stamp, seen) in seen.into_inner().expect("no panic") {
        let upto = committed.iter().filter(|commit| commit.0 <= stamp);
        let expected: BTreeSet<Key> = upto.map(|commit| commit.1.clone()).collect();
        assert_eq!(seen, expected, "at {stamp}");
    }
}

/// Loads enough entries to bypass the log: an engine may number such entries like commits.
fn load(engine: &Arc<dyn Engine>) {
    let mut count = 0_u16;
    let loaded = engine.load(Space::Index, &mut |key, value| {
        count += 1;
        key.clear();
        key.extend_from_slice(&count.to_be_bytes());
        value.resize(1_000, 7);
        Ok(count < 400)
    });
    loaded.expect("it loads");
}

/// A transaction with an older snapshot than the one that its commit must not be visible in.
fn a_commit_is_after_a_stamp_if_it_has_to_be(engine: &Arc<dyn Engine>) {
    put(engine, Space::Records, b"seen", b"1");
    for snapshots in 0..3 {
        let mut txn = begin(engine);
        let read = txn.read_stamp().expect("it reads");
        // They read nothing that the transaction writes.
        let mut told = read;
        for _ in 0..snapshots {
            let snapshot = engine.snapshot().expect("a snapshot");
            assert!(get(&*snapshot, Space::Records, b"seen").is_some());
            told = snapshot.stamp();
        }
        txn.put(Space::Records, b"later", b"1").expect("a put");
        txn.order_after(told);
        assert!(commit(txn) > told.0);
    }
}

/// An engine that has snapshots of the past reads exactly the commits up to their stamps.
fn a_time_of_the_past_is_exact_or_too_old(engine: &Arc<dyn Engine>) {
    let stamps: Vec<u64> = (0..4_u8).map(|n| put(engine, Space::Records, b"k", &[n])).collect();
    let large = vec![7; 3 << 20];
    let last = put(engine, Space::Records, b"k", &large);
    engine.advance(CommitStamp(last)).expect("it advances");
    let (mut past, mut refused) = (0, 0);
    for (n, stamp) in stamps.iter().enumerate() {
        for (stamp, value) in [(*stamp, Some(n)), (stamp - 1, n.checked_sub(1))] {
            let value = value.map(|n| vec![n as u8]);
            let txn = match engine.begin_at(CommitStamp(stamp)) {
                Ok(txn) => txn,
                Err(Error::SnapshotTooOld) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            past += 1;
            assert_eq!(get(&*txn, Space::Records, b"k"), value, "at {stamp}");
            let snapshot = txn.snapshot().expect("a snapshot");
            assert_eq!(get(&*snapshot, Space::Records, b"k"), value);
            let found = scan(&*txn, Space::Records, b"k", b"l");
            assert_eq!(found.first().map(|(_, found)| found.clone()), value);
            assert!(txn.read_stamp().expect("it reads").0 <= stamp);
        }
    }
    assert!(past == 0 || refused == 0, "{past} were read, {refused} refused");
    if past > 0 {
        let txn = engine.begin_at(CommitStamp(last)).expect("a time");
        assert!(get(&*txn, Space::Records, b"k").as_ref() == Some(&large));
        drop(txn);
        let far = CommitStamp(engine.last_stamp().0 + (1000 << 32));
        assert!(engine.begin_at(far).is_err(), "a time of the future");
    }
}

/// A transaction's stamp is fixed by its first read, and a commit that it sees causes no conflict.
fn a_transaction_tells_what_it_reads(engine: &Arc<dyn Engine>) {
    let first = put(engine, Space::Records, b"k", b"1");
    let mut txn = begin(engine);
    assert!(txn.read_stamp().expect("it reads").0 >= first);
    let read = txn.read_stamp().expect("it reads");
    let second = put(engine, Space::Records, b"other", b"2");
    assert!(read.0 < second && txn.read_stamp().expect("it reads") == read);
    assert_eq!(get(&*txn, Space::Records, b"other"), None);
    txn.put(Space::Records, b"k", b"3").expect("the commit before is no conflict");
    assert!(commit(txn) > second);
}

/// After `advance(t)` a snapshot is not older than `t`, and later commits are newer.
fn nothing_comes_before_an_advanced_stamp(engine: &Arc<dyn Engine>) {
    if !engine.capabilities().one_order {
        return nothing_comes_before_an_awaited_stamp(engine);
    }
    let first = put(engine, Space::Records, b"k", b"1");
    let ahead = engine.clock().greatest().max(first) + (3 << 32);
    engine.advance(CommitStamp(ahead)).expect("it advances");
    assert_eq!(engine.snapshot().expect("a snapshot").stamp(), CommitStamp(ahead));
    assert_eq!(engine.last_stamp(), CommitStamp(ahead));
    engine.advance(CommitStamp(first)).expect("a past stamp changes nothing");
    assert_eq!(engine.last_stamp(), CommitStamp(ahead));
    let second = put(engine, Space::Records, b"k", b"2");
    assert!(second > ahead);
    engine.sync(CommitStamp(second)).expect("it is durable");
    assert_eq!(engine.snapshot().expect("a snapshot").stamp(), CommitStamp(second));
}

/// Stamps of an engine that does not assign them: one of the near future is waited for, one of the far future refused.
fn nothing_comes_before_an_awaited_stamp(engine: &Arc<dyn Engine>) {
    let ahead = put(engine, Space::Records, b"k", b"1") + (1 << 32);
    engine.advance(CommitStamp(ahead)).expect("it waits");
    assert!(engine.last_stamp().0 >= ahead);
    assert!(engine.snapshot().expect("a snapshot").stamp().0 >= ahead);
    assert!(put(engine, Space::Records, b"k", b"2") > ahead);
    assert!(engine.advance(CommitStamp(ahead + (3600 << 32))).is_err());
}

/// Stamps are times, and every later stamp is greater than an observed one.
fn stamps_follow_the_wall_clock(engine: &Arc<dyn Engine>) {
    let seconds = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let stamp = put(engine, Space::Records, b"k", b"1");
    assert!((stamp >> 32).abs_diff(seconds) < 60, "{stamp:#x}");
    if !engine.capabilities().one_order {
        return;
    }
    assert!(engine.clock().committed_ms().unsigned_abs() / 1000 >= seconds);
    engine.clock().observe(stamp + 1_000);
    assert!(engine.last_stamp().0 < stamp + 1_000, "it was only observed");
    assert!(put(engine, Space::Records, b"k", b"2") > stamp + 1_000);
}
