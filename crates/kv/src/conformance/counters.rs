//! Counters and logs.

use std::{sync::Arc, thread};

use super::{Check, begin, commit, get, scan};
use crate::{Durability, Engine, Error, Read, Space, log_key};

pub(super) static POINTS: &[Check] =
    &[adds_never_conflict, adds_are_transactional, counters_can_be_put, logs_are_in_commit_order];

fn count(read: &(impl Read + ?Sized), key: &[u8]) -> Vec<i64> {
    let value = get(read, Space::Counters, key).unwrap_or_default();
    value.as_chunks().0.iter().map(|element| i64::from_le_bytes(*element)).collect()
}

/// Adds to the counter; again at a conflict, if there may be one.
fn add(engine: &Arc<dyn Engine>, deltas: &[i64]) {
    loop {
        let mut txn = begin(engine);
        txn.add(Space::Counters, b"c", deltas).expect("adds");
        match txn.commit(Durability::Buffered) {
            Err(Error::Conflict) if !engine.capabilities().adds_commute => {}
            committed => {
                committed.expect("adds commute");
                return;
            }
        }
    }
}

fn adds_never_conflict(engine: &Arc<dyn Engine>) {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..250 {
                    add(engine, &[1, n]);
                }
            });
        }
    });
    assert_eq!(count(engine.latest(), b"c"), [1000, 4 * 250 * 249 / 2]);
}

fn adds_are_transactional(engine: &Arc<dyn Engine>) {
    let mut first = begin(engine);
    first.add(Space::Counters, b"c", &[1]).expect("adds");
    first.add(Space::Counters, b"c", &[2, -7]).expect("adds");
    assert_eq!(count(engine.latest(), b"c"), []);
    assert_eq!(count(&*first, b"c"), [3, -7]);
    let mut second = begin(engine);
    second.add(Space::Counters, b"c", &[10]).expect("adds");
    commit(second);
    let snapshot = engine.snapshot().expect("a snapshot");
    if engine.capabilities().adds_commute {
        commit(first);
    } else {
        assert!(matches!(first.commit(Durability::Buffered), Err(Error::Conflict)));
        add(engine, &[3, -7]);
    }
    assert_eq!(count(&*snapshot, b"c"), [10]);
    assert_eq!(count(engine.latest(), b"c"), [13, -7]);
    let mut txn = begin(engine);
    txn.add(Space::Counters, b"c", &[0, 7]).expect("adds");
    assert_eq!(count(&*txn, b"c"), [13, 0]);
    let pairs = scan(&*txn, Space::Counters, b"", b"");
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0].1, [13_i64.to_le_bytes(), 0_i64.to_le_bytes()].concat());
}

fn counters_can_be_put(engine: &Arc<dyn Engine>) {
    for round in 0..2 {
        let mut txn = begin(engine);
        txn.put(Space::Counters, b"c", &5_i64.to_le_bytes()).expect("free");
        txn.add(Space::Counters, b"c", &[round]).expect("adds");
        commit(txn);
        assert_eq!(count(engine.latest(), b"c"), [5 + round]);
        let mut txn = begin(engine);
        txn.delete(Space::Counters, b"c").expect("free");
        commit(txn);
        assert_eq!(count(engine.latest(), b"c"), []);
        let mut txn = begin(engine);
        txn.add(Space::Counters, b"c", &[1]).expect("adds");
        commit(txn);
        assert_eq!(count(engine.latest(), b"c"), [1]);
    }
}

fn logs_are_in_commit_order(engine: &Arc<dyn Engine>) {
    if !engine.capabilities().appends_by_stamp {
        let mut txn = begin(engine);
        txn.put(Space::Records, b"k", b"with it").expect("free");
        txn.append(Space::Changes, b"entry", false).expect("it is staged");
        assert!(matches!(txn.commit(Durability::Buffered), Err(Error::Io(_))));
        assert_eq!(get(engine.latest(), Space::Records, b"k"), None, "nothing of it");
        return;
    }
    let mut early = begin(engine);
    early.append(Space::Changes, b"early 1", false).expect("appends");
    early.append(Space::Changes, b"early 2", true).expect("appends");
    let savepoint = early.savepoint();
    early.append(Space::Changes, b"not", false).expect("appends");
    early.rollback_to(savepoint);
    early.append(Space::Changes, b"early 3", false).expect("appends");
    early.append(Space::Changes, b"early 4", true).expect("appends");
    let mut late = begin(engine);
    // There is none before it.
    late.append(Space::Changes, b"late", true).expect("appends");
    assert!(scan(&*late, Space::Changes, b"", b"").is_empty());
    let first = commit(late);
    let second = commit(early);
    let expected = [
        (log_key(first, 0).to_vec(), b"late".to_vec()),
        (log_key(second - 1, 0).to_vec(), b"early 1".to_vec()),
        (log_key(second - 1, 1).to_vec(), b"early 2".to_vec()),
        (log_key(second, 0).to_vec(), b"early 3".to_vec()),
        (log_key(second, 1).to_vec(), b"early 4".to_vec()),
    ];
    assert!(second - 1 > first);
    assert_eq!(scan(engine.latest(), Space::Changes, b"", b""), expected);
    assert_eq!(engine.last_stamp().0, second);
    assert_eq!(engine.snapshot().expect("a snapshot").stamp().0, second);
}
