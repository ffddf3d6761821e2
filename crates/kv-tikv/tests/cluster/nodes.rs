//! Two engines on one prefix are two nodes: neither knows of the other except by the store.

use std::{sync::Arc, thread};

use nagi_kv::{Capabilities, Durability, Engine, Error, Space, Txn, TxnOptions};

use crate::cluster::{get, new_prefix, node, put, stat};

fn two() -> (Arc<dyn Engine>, Arc<dyn Engine>) {
    let prefix = new_prefix();
    (node(&prefix), node(&prefix))
}

fn begin(engine: &Arc<dyn Engine>) -> Box<dyn Txn> {
    engine.begin(TxnOptions { lock_wait_ms: 0, ..TxnOptions::default() }).expect("begins")
}

#[test]
fn a_commit_of_one_node_is_seen_by_the_other_at_once() {
    let (one, other) = two();
    let has = Capabilities { splits_ranges: true, ..Capabilities::NONE };
    assert_eq!(one.capabilities(), has, "what a distributed engine cannot promise");
    for n in 0..50_u8 {
        put(&*one, Space::Records, b"k", &[n]);
        assert_eq!(get(other.latest(), Space::Records, b"k"), Some(vec![n]));
        let before = other.snapshot().expect("a snapshot").stamp();
        put(&*one, Space::Index, b"k", &[n]);
        assert!(one.last_stamp() > before, "stamps are in the order of commits");
    }
}

#[test]
fn of_two_updates_from_the_same_value_one_commits() {
    let (one, other) = two();
    put(&*one, Space::Records, b"k", b"0");
    let (mut first, mut second) = (begin(&one), begin(&other));
    for txn in [&mut first, &mut second] {
        assert_eq!(get(&**txn, Space::Records, b"k").as_deref(), Some(&b"0"[..]));
    }
    first.put(Space::Records, b"k", b"1").expect("staged");
    second.put(Space::Records, b"k", b"2").expect("staged");
    first.commit(Durability::Buffered).expect("the first");
    assert!(matches!(second.commit(Durability::Buffered), Err(Error::Conflict)));
    assert_eq!(get(other.latest(), Space::Records, b"k").as_deref(), Some(&b"1"[..]));
    assert_eq!((stat(&*other, "conflicts"), stat(&*other, "undetermined_commits")), (1, 0));
}

/// Each reads the key that the other one writes. Snapshots alone would let both commit.
#[test]
fn locks_prevent_write_skew_between_nodes() {
    let (one, other) = two();
    for locks in [false, true] {
        put(&*one, Space::Records, b"a", b"on call");
        put(&*one, Space::Records, b"b", b"on call");
        let (mut first, mut second) = (begin(&one), begin(&other));
        for (txn, read, written) in [(&mut first, b"a", b"b"), (&mut second, b"b", b"a")] {
            get(&**txn, Space::Records, read);
            if locks {
                txn.lock(Space::Records, read).expect("it is noted");
            }
            txn.put(Space::Records, written, b"off").expect("staged");
        }
        first.commit(Durability::Buffered).expect("the first");
        assert_eq!(matches!(second.commit(Durability::Buffered), Err(Error::Conflict)), locks);
    }
}

/// What was read under a lock was true at the commit, also if nothing was written.
#[test]
fn a_lock_without_a_write_is_tested_by_the_commit() {
    let (one, other) = two();
    for is_changed in [false, true] {
        put(&*one, Space::Records, b"k", b"0");
        let mut txn = begin(&one);
        txn.lock(Space::Records, b"k").expect("it is noted");
        assert_eq!(get(&*txn, Space::Records, b"k").as_deref(), Some(&b"0"[..]));
        if is_changed {
            put(&*other, Space::Records, b"k", b"1");
        }
        let committed = txn.commit(Durability::Buffered);
        assert_eq!(matches!(committed, Err(Error::Conflict)), is_changed, "{committed:?}");
    }
}

#[test]
fn a_unique_key_is_inserted_by_one_node() {
    let (one, other) = two();
    let insert = |engine: &Arc<dyn Engine>, n: u8| {
        let mut txn = begin(engine);
        let is_free = get(&*txn, Space::Index, &[n]).is_none();
        let staged = is_free.then(|| txn.put(Space::Index, &[n], b"").expect("staged"));
        staged.is_some_and(|()| txn.commit(Durability::Buffered).is_ok())
    };
    let winners: usize = thread::scope(|scope| {
        let nodes = [&one, &other]
            .map(|engine| scope.spawn(|| (1..=60).filter(|n| insert(engine, *n)).count()));
        nodes.into_iter().map(|node| node.join().expect("no panic")).sum()
    });
    assert!(winners <= 60, "{winners} of 60");
    let present = (1..=60).filter(|n| get(one.latest(), Space::Index, &[*n]).is_some()).count();
    assert_eq!(present, winners);
}

/// A transaction that reads nothing and may wait is committed after the one that was first.
#[test]
fn writes_without_reads_are_repeated() {
    let (one, other) = two();
    let mut blind =
        one.begin(TxnOptions { lock_wait_ms: 5_000, ..TxnOptions::default() }).expect("begins");
    blind.put(Space::Records, b"k", b"blind").expect("staged");
    put(&*other, Space::Records, b"k", b"first");
    blind.commit(Durability::Buffered).expect("it is repeated");
    assert_eq!(get(other.latest(), Space::Records, b"k").as_deref(), Some(&b"blind"[..]));
    assert_eq!(stat(&*one, "retries_write"), 1);
}

#[test]
fn spills_are_of_one_node_and_end_with_it() {
    let (one, other) = two();
    put(&*one, Space::Spill, b"k", b"run");
    assert_eq!(get(other.latest(), Space::Spill, b"k"), None);
    one.close().expect("closes");
    assert_eq!(get(one.latest(), Space::Spill, b"k"), None);
}
