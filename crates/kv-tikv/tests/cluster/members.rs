//! Stores that share the data, each with an engine of its own: what `crates/store/tests/members` tests over an engine
//! in memory, against the cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use nagi_bson::{Doc, DocBuf, Value, doc};
use nagi_store::{
    BuildOptions, CommitStamp, IndexSelector, Lifetime, Namespace, NodeMode, NodeOptions,
    RecordBuf, Store, StoreOptions, Transaction, WriteOptions, WriteTxn,
};

use crate::cluster::{new_prefix, node};

fn open(prefix: &str, number: usize) -> Arc<Store> {
    let name = format!("node {number}");
    let node_options = NodeOptions { mode: NodeMode::Member, name, ..NodeOptions::default() };
    let options = StoreOptions { node: node_options, ..StoreOptions::default() };
    Store::open(node(prefix), options).expect("opens")
}

fn insert(store: &Store, namespace: &Namespace, doc: &DocBuf) {
    let collection = store.collection_or_create(namespace).expect("creates");
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc()).map(drop);
    store.write(WriteOptions::default(), insert).expect("inserts");
}

fn index(store: &Store, namespace: &Namespace, key: &str, unique: bool) {
    let spec = doc! { "key": { (key): 1 }, "name": key, "unique": unique };
    store.create_indexes(namespace, &[spec.as_doc()], BuildOptions::default()).expect("builds");
}

/// Puts and deletes documents of one writer.
fn write(store: &Store, namespace: &Namespace, writer: i32, ends: &AtomicBool) -> i32 {
    let mut count = 0;
    while !ends.load(SeqCst) {
        let id = writer * 1000 + count % 10;
        let new = doc! { "_id": id, "a": (count % 7), "b": id };
        let collection = store.collection(namespace).expect("it is there");
        let change = &mut |txn: &mut WriteTxn<'_>| {
            let mut buf = RecordBuf::default();
            match txn.reader().find_id(&collection, Value::Int32(id))? {
                Some(found) => {
                    let old = txn.reader().record(&collection, found.key(), &mut buf)?;
                    let old = old.map(|old| old.to_buf()).unwrap_or_default();
                    txn.delete(&collection, found.key(), old.as_doc())
                }
                None => txn.insert(&collection, new.as_doc()).map(drop),
            }
        };
        store.write(WriteOptions::default(), change).expect("writes");
        count += 1;
    }
    count
}

#[test]
fn nodes_change_the_catalog_while_all_of_them_write() {
    let prefix = new_prefix();
    let nodes = [open(&prefix, 0), open(&prefix, 1)];
    let namespace = Namespace::parse("d.c").expect("a name");
    nodes[0].create_collection(&namespace, Doc::EMPTY).expect("creates");
    assert!(nodes[1].collection(&namespace).is_some());
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (node, namespace, ends) = (&nodes[writer as usize], &namespace, &ends);
                scope.spawn(move || write(node, namespace, writer, ends))
            })
            .collect();
        for round in 0..3 {
            let [one, other] = [&nodes[round % 2], &nodes[(round + 1) % 2]];
            index(one, &namespace, "a", false);
            index(other, &namespace, "b", true);
            for name in ["a", "b"] {
                other.drop_indexes(&namespace, IndexSelector::Name(name)).expect("drops");
            }
        }
        index(&nodes[0], &namespace, "a", false);
        index(&nodes[1], &namespace, "b", true);
        ends.store(true, SeqCst);
        for writer in writers {
            assert!(writer.join().expect("no panic") > 0);
        }
    });
    for node in &nodes {
        let report = node.validate(&node.collection(&namespace).expect("it is there"));
        let report = report.expect("validates");
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
    nodes[1].drop_collection(&namespace).expect("drops");
    assert!(nodes[0].collection(&namespace).is_none());
}

#[test]
fn nodes_that_insert_at_once_create_one_collection() {
    let prefix = new_prefix();
    let nodes = [open(&prefix, 0), open(&prefix, 1)];
    thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..5 {
                    let namespace = Namespace::parse(&format!("d.c{n}")).expect("a name");
                    insert(node, &namespace, &doc! { "_id": (number as i32), "a": [1, 2] });
                }
            });
        }
    });
    for n in 0..5 {
        let namespace = Namespace::parse(&format!("d.c{n}")).expect("a name");
        let of = nodes.each_ref().map(|node| node.collection(&namespace).expect("it is there"));
        assert_eq!(of[0].uuid, of[1].uuid);
        let report = nodes[0].validate(&of[0]).expect("validates");
        assert_eq!((report.errors.len(), report.record_count), (0, 2), "{:?}", report.errors);
    }
    // A node that leaves is waited for by none.
    nodes[0].close().expect("closes");
    nodes[1].drop_database("d").expect("drops");
    let third = open(&prefix, 2);
    assert_eq!(third.catalog().iter().count(), 0);
}

/// The number of documents at a time that a node has told, or the code of the error.
fn count_at(node: &Store, stamp: CommitStamp, namespace: &Namespace) -> Result<usize, i32> {
    node.advance_to(stamp).map_err(|error| error.code().0)?;
    let txn = Transaction::begin_at(node, stamp).map_err(|error| error.code().0)?;
    let collection = txn.store().collection(namespace).expect("it is there");
    let snapshot = txn.store().snapshot().map_err(|error| error.code().0)?;
    let cursor = snapshot.reader().scan(&collection, true);
    let mut cursor = cursor.map_err(|error| error.code().0)?;
    let mut count = 0;
    while cursor.advance().map_err(|error| error.code().0)? {
        count += 1;
    }
    txn.check_open().map(|()| count).map_err(|error| error.code().0)
}

#[test]
fn every_node_reads_what_was_committed_up_to_a_time() {
    let prefix = new_prefix();
    let nodes = [open(&prefix, 0), open(&prefix, 1)];
    let namespace = Namespace::parse("d.c").expect("a name");
    nodes[0].create_collection(&namespace, Doc::EMPTY).expect("creates");
    let now = |node: &Store| Transaction::begin(node, Lifetime::Long).expect("begins").read_stamp();
    let mut told = vec![now(&nodes[0])];
    for n in 0..10 {
        insert(&nodes[n % 2], &namespace, &doc! { "_id": (n as i32) });
        told.push(now(&nodes[(n + 1) % 2]));
    }
    for (count, stamp) in told.iter().enumerate() {
        for node in &nodes {
            assert_eq!(count_at(node, *stamp, &namespace), Ok(count));
        }
    }
    index(&nodes[1], &namespace, "a", false);
    let old = CommitStamp(told[0].0 - (600 << 32));
    for node in &nodes {
        assert_eq!(count_at(node, told[9], &namespace), Err(246), "it has an index since");
        assert_eq!(count_at(node, old, &namespace), Err(239));
        assert_eq!(count_at(node, now(node), &namespace), Ok(10));
    }
}
