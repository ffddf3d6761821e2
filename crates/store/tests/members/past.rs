//! Snapshots at times that another node has told: exactly the commits up to them, with the catalog of that time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use nagi_bson::{Doc, DocBuf, Value, doc, number};
use nagi_error::Result;
use nagi_kv::Minimal;
use nagi_store::{
    BuildOptions, CommitStamp, Lifetime, Namespace, RecordBuf, Store, Transaction, WriteOptions,
    WriteTxn,
};

use crate::{random::Random, several::open, support::parse};

fn engine() -> Arc<Minimal> {
    let engine = Minimal::new();
    engine.keep_history();
    Arc::new(engine)
}

fn name(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

fn insert(store: &Store, namespace: &Namespace, doc: &DocBuf) -> CommitStamp {
    let collection = store.collection(namespace).unwrap();
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc()).map(drop);
    store.write(WriteOptions::default(), insert).unwrap().stamp.get().unwrap()
}

fn now(store: &Store) -> CommitStamp {
    Transaction::begin(store, Lifetime::Long).unwrap().read_stamp()
}

fn at(store: &Store, stamp: CommitStamp) -> Result<Transaction> {
    store.advance_to(stamp)?;
    Transaction::begin_at(store, stamp)
}

/// The number of documents at a time, or the error of its reader.
fn count_in(txn: &Transaction, namespace: &Namespace) -> Result<usize> {
    let store = txn.store();
    let Some(collection) = store.collection(namespace) else {
        return txn.check_open().map(|()| 0);
    };
    let snapshot = store.snapshot()?;
    let mut cursor = snapshot.reader().scan(&collection, true)?;
    let mut count = 0;
    while cursor.advance()? {
        count += 1;
    }
    txn.check_open().map(|()| count)
}

fn count(store: &Store, stamp: CommitStamp, namespace: &Namespace) -> Result<usize> {
    count_in(&at(store, stamp)?, namespace)
}

fn code(result: Result<usize>) -> i32 {
    result.unwrap_err().code().0
}

#[test]
fn every_node_reads_what_was_committed_up_to_a_time() {
    let engine = engine();
    let nodes = [0, 1, 2].map(|number| open(&engine, number));
    let namespace = name("d.c");
    nodes[0].create_collection(&namespace, Doc::EMPTY).unwrap();
    let stamps: Vec<_> =
        (0..20).map(|n| insert(&nodes[n % 2], &namespace, &doc! { "_id": (n as i32) })).collect();
    for (n, stamp) in stamps.iter().enumerate() {
        for node in &nodes {
            assert_eq!(count(node, *stamp, &namespace).unwrap(), n + 1);
            assert_eq!(count(node, CommitStamp(stamp.0 - 1), &namespace).unwrap(), n);
        }
    }
}

#[test]
fn what_has_changed_in_the_catalog_since_is_unavailable() {
    let engine = engine();
    let nodes = [open(&engine, 0), open(&engine, 1)];
    let names = ["d.same", "d.indexed", "d.dropped", "d.again", "d.made", "d.never"].map(name);
    let [same, indexed, dropped, again, made, never] = &names;
    for namespace in [same, indexed, dropped, again] {
        nodes[0].create_collection(namespace, Doc::EMPTY).unwrap();
        insert(&nodes[1], namespace, &doc! { "_id": 1, "a": 1 });
    }
    let before = now(&nodes[0]);
    let kept = at(&nodes[1], before).unwrap();
    assert_eq!(count_in(&kept, same).unwrap(), 1);
    let spec = parse("{key: {a: 1}, name: 'a'}");
    nodes[1].create_indexes(indexed, &[spec.as_doc()], BuildOptions::default()).unwrap();
    nodes[0].drop_collection(dropped).unwrap();
    nodes[1].drop_collection(again).unwrap();
    for namespace in [again, made] {
        nodes[0].create_collection(namespace, Doc::EMPTY).unwrap();
        insert(&nodes[1], namespace, &doc! { "_id": 1 });
    }
    insert(&nodes[0], same, &doc! { "_id": 2 });
    let after = now(&nodes[1]);
    for node in &nodes {
        for namespace in [indexed, dropped, again, made] {
            assert_eq!(code(count(node, before, namespace)), 246, "{namespace}");
        }
        // What has not changed is there, in a snapshot of its own: the error ends one.
        assert_eq!(count(node, before, same).unwrap(), 1);
        assert_eq!(count(node, before, never).unwrap(), 0);
        for (namespace, is) in [(same, 2), (indexed, 1), (dropped, 0), (again, 1), (made, 1)] {
            assert_eq!(count(node, after, namespace).unwrap(), is, "{namespace}");
        }
    }
    assert_eq!(count_in(&kept, same).unwrap(), 1, "it was taken before");
}

/// More changes than the board lists, and a node that comes later.
#[test]
fn the_whole_catalog_of_a_time_is_read_if_its_changes_are_not_listed() {
    let engine = engine();
    let node = open(&engine, 0);
    let [old, other] = ["d.old", "d.other"].map(name);
    for namespace in [&old, &other] {
        node.create_collection(namespace, Doc::EMPTY).unwrap();
        insert(&node, namespace, &doc! { "_id": 1 });
    }
    let before = now(&node);
    for n in 0..150 {
        let namespace = name(&format!("d.c{n}"));
        node.create_collection(&namespace, Doc::EMPTY).unwrap();
        node.drop_collection(&namespace).unwrap();
    }
    node.drop_collection(&other).unwrap();
    let late = open(&engine, 1);
    for node in [&node, &late] {
        assert_eq!(count(node, before, &old).unwrap(), 1);
        assert_eq!(code(count(node, before, &other)), 246);
        assert_eq!(count(node, before, &name("d.c7")).unwrap(), 0);
    }
}

#[test]
fn a_time_whose_versions_are_gone_is_too_old() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1)];
    let namespace = name("d.c");
    nodes[0].create_collection(&namespace, Doc::EMPTY).unwrap();
    let stamp = insert(&nodes[0], &namespace, &doc! { "_id": 1 });
    assert_eq!(code(count(&nodes[1], stamp, &namespace)), 239, "no history is kept");
    engine.keep_history();
    let kept = now(&nodes[0]);
    let reader = at(&nodes[1], kept).unwrap();
    insert(&nodes[0], &namespace, &doc! { "_id": 2 });
    assert_eq!(count(&nodes[1], kept, &namespace).unwrap(), 1);
    engine.keep_history();
    assert_eq!(code(count(&nodes[1], kept, &namespace)), 239);
    assert_eq!(code(count(&nodes[0], stamp, &namespace)), 239);
    assert_eq!(count_in(&reader, &namespace).unwrap(), 1, "what an open snapshot reads is kept");
    let far = CommitStamp(now(&nodes[0]).0 + (1000 << 32));
    assert!(Transaction::begin_at(&nodes[0], far).is_err(), "a time of the future");
}

/// Transfers by all nodes: at any time that any node has told, every node sees the same sum.
#[test]
fn sums_are_constant_at_all_times_of_all_nodes() {
    const ACCOUNTS: i32 = 8;
    let engine = engine();
    let nodes = [0, 1, 2].map(|number| open(&engine, number));
    let namespace = name("d.accounts");
    nodes[0].create_collection(&namespace, Doc::EMPTY).unwrap();
    for id in 0..ACCOUNTS {
        insert(&nodes[0], &namespace, &doc! { "_id": id, "sum": 100 });
    }
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            let (namespace, ends) = (&namespace, &ends);
            scope.spawn(move || {
                let mut random = Random::new(number as u64 + 1);
                while !ends.load(SeqCst) {
                    transfer(node, namespace, [0, 0].map(|_| random.below(8) as i32));
                }
            });
        }
        for round in 0..60 {
            let stamp = now(&nodes[round % 3]);
            let seen: Vec<_> =
                nodes.iter().map(|node| accounts(&at(node, stamp).unwrap(), &namespace)).collect();
            assert_eq!(seen[0].iter().sum::<i64>(), 800, "{seen:?}");
            assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
        }
        ends.store(true, SeqCst);
    });
}

fn accounts(txn: &Transaction, namespace: &Namespace) -> Vec<i64> {
    let store = txn.store();
    let collection = store.collection(namespace).unwrap();
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.reader().scan(&collection, true).unwrap();
    let mut sums = Vec::new();
    while cursor.advance().unwrap() {
        sums.push(number::truncate_to_i64(cursor.doc().get("sum")).unwrap());
    }
    sums
}

/// Moves 1 between two accounts, in a transaction that may lose against another one.
fn transfer(store: &Store, namespace: &Namespace, [from, to]: [i32; 2]) {
    let collection = store.collection(namespace).unwrap();
    let change = &mut |txn: &mut WriteTxn<'_>| {
        let mut buf = RecordBuf::default();
        for (id, by) in [(from, -1), (to, 1)] {
            let found = txn.reader().find_id(&collection, Value::Int32(id))?.unwrap();
            let old = txn.reader().record(&collection, found.key(), &mut buf)?.unwrap().to_buf();
            let sum = number::truncate_to_i64(old.get("sum")).unwrap() + by;
            let new = doc! { "_id": id, "sum": sum };
            txn.update(&collection, found.key(), old.as_doc(), new.as_doc())?;
        }
        Ok(())
    };
    match store.write(WriteOptions::default(), change) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.code().0, 112, "{error}"),
    }
}
