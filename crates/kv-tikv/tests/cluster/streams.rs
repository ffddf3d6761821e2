//! The change log of two stores over the cluster: each change once, in one order, at both; and what it costs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_bson::{Doc, Value, doc, number};
use nagi_kv::Engine;
use nagi_store::{
    ChangeScope, Durability, EditKind, Lifetime, LogPosition, Namespace, NodeMode, NodeOptions,
    Oplog, RecordBuf, Store, StoreOptions, Transaction, WriteOptions, WriteTxn,
};

use crate::{
    cluster::{engine, new_prefix, node},
    trips::counted,
};

fn options(name: &str) -> StoreOptions {
    let node = NodeOptions {
        mode: NodeMode::Member,
        name: name.to_owned(),
        // Its renewals would be counted.
        lease_seconds: 3600,
        ..NodeOptions::default()
    };
    StoreOptions { node, change_log: Some(Arc::new(Oplog::default())), ..StoreOptions::default() }
}

fn name() -> Namespace {
    Namespace::parse("d.c").expect("a name")
}

/// Adds one to a document, which is inserted if it is missing.
fn count(store: &Store, id: i32) {
    let write = &mut |txn: &mut WriteTxn<'_>| {
        let collection = txn.collection(&name()).expect("it is there");
        let Some(record) = txn.reader().find_id(&collection, Value::Int32(id))? else {
            return txn.insert(&collection, doc! { "_id": id, "n": 1 }.as_doc()).map(drop);
        };
        let mut buf = RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?;
        let old = old.map(|old| old.to_buf()).unwrap_or_default();
        let n = number::truncate_to_i64(old.get("n")).expect("a number");
        let new = doc! { "_id": id, "n": (n + 1) };
        let edit = EditKind::Replacement;
        txn.update_by(edit, &collection, record.key(), old.as_doc(), new.as_doc())
    };
    store.write(WriteOptions::default(), write).expect("writes");
}

/// An event of a document: its time, `_id` and number.
type Event = (u64, i64, i64);

struct Follower<'n> {
    store: &'n Store,
    position: LogPosition,
    events: Vec<Event>,
}

impl<'n> Follower<'n> {
    fn open(store: &'n Store) -> Follower<'n> {
        let (first, _) = store.change_log_window().expect("reads").expect("a log");
        let snapshot = store.snapshot().expect("a snapshot");
        let position = store.log_position(&snapshot.reader(), first.0).expect("is there");
        Follower { store, position, events: Vec::new() }
    }

    fn read(&mut self) {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let (tick, check) = (&mut || Ok(()), &mut || Ok(()));
        loop {
            let (reader, position) = (snapshot.reader(), &mut self.position);
            let portion =
                self.store.log_portion(&reader, None, position, tick, check).expect("reads");
            for document in &portion.documents {
                for at in 0..document.op_count() {
                    let op: Doc<'_> = document.op(at);
                    if op.get("ns").as_str() == Some("d.c") {
                        let o = op.get("o").as_doc().expect("a document");
                        let long = |name: &str| number::truncate_to_i64(o.get(name)).expect(name);
                        self.events.push((document.cluster_time, long("_id"), long("n")));
                    }
                }
            }
            if portion.drained {
                return;
            }
        }
    }

    fn read_to(&mut self, id: i32) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.events.iter().any(|event| event.1 == i64::from(id)) {
            assert!(Instant::now() < end, "{id} is not there");
            self.read();
            thread::yield_now();
        }
    }
}

#[test]
fn both_nodes_see_each_change_once_and_in_the_same_order() {
    let prefix = new_prefix();
    let nodes = ["a", "b"].map(|name| Store::open(node(&prefix), options(name)).expect("opens"));
    nodes[0].create_collection(&name(), Doc::EMPTY).expect("creates");
    let _watches = nodes.each_ref().map(|node| node.watch_changes(&ChangeScope::Cluster, None));
    let ends = AtomicBool::new(false);
    let followers = thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            for writer in 0..2_usize {
                let ends = &ends;
                scope.spawn(move || {
                    for round in 0.. {
                        if ends.load(SeqCst) {
                            return;
                        }
                        count(node, ((round * 7 + writer + number) % 5) as i32);
                    }
                });
            }
        }
        // Transactions that are older than what their node has promised meanwhile.
        let (node, ends) = (&nodes[1], &ends);
        scope.spawn(move || {
            for round in 0..6 {
                let txn = Transaction::begin(node, Lifetime::Long).expect("begins");
                count(txn.store(), 100 + round);
                thread::park_timeout(Duration::from_millis(400));
                count(txn.store(), 200 + round);
                txn.commit(Durability::Synced).expect("commits");
            }
            ends.store(true, SeqCst);
        });
        let following = nodes.each_ref().map(|node| {
            scope.spawn(move || {
                let mut follower = Follower::open(node);
                while !ends.load(SeqCst) {
                    follower.read();
                }
                follower
            })
        });
        following.map(|thread| thread.join().expect("follows"))
    });
    count(&nodes[0], 1000);
    let [mut first, mut second] = followers;
    let begun = Instant::now();
    first.read_to(1000);
    println!("seen after {:?}, {} events", begun.elapsed(), first.events.len());
    second.read_to(1000);
    assert_eq!(first.events, second.events);
    assert!(first.events.is_sorted_by_key(|event| event.0));
    let mut numbers = std::collections::BTreeMap::new();
    for (_, id, n) in &first.events {
        assert_eq!(numbers.insert(*id, *n).unwrap_or(0) + 1, *n, "of document {id}");
    }
    for (id, n) in &numbers {
        let collection = nodes[0].collection(&name()).expect("it is there");
        let mut buf = Vec::new();
        let id = Value::Int32(*id as i32);
        let found = nodes[0].find_by_id(&collection, id, &mut buf).expect("reads").expect("found");
        assert_eq!(number::truncate_to_i64(found.get("n")), Some(*n));
    }
    assert_eq!(numbers.len(), 5 + 12 + 1);
}

/// An insert with the log on, between two lists: not a request more.
#[test]
fn the_log_adds_no_round_trip_to_an_insert() {
    let engine = engine(&new_prefix());
    let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, options("a")).expect("opens");
    let collection = store.create_collection(&name(), Doc::EMPTY).expect("creates");
    let insert = |id: i32| {
        let new = doc! { "_id": id, "a": id };
        let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, new.as_doc()).map(drop);
        store.write(WriteOptions::default(), insert).expect("inserts");
    };
    insert(0);
    // Lists are written every tenth of a second, so most inserts are alone.
    let all: Vec<String> = (1..40).map(|id| counted(&engine, || insert(id))).collect();
    let expected = "1 timestamps, KvGet 1, KvPrewrite 1";
    assert!(all.iter().filter(|found| *found == expected).count() > 10, "{all:?}");
}
