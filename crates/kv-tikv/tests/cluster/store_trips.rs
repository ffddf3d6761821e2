//! Round trips of the store's operations, as they arrive at TiKV's store and the oracle: counted, so that none is added
//! unnoticed. The table is in docs/scale-out.md.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, doc, json};
use nagi_kv::Engine;
use nagi_kv_tikv::Tikv;
use nagi_store::{
    BuildOptions, Collection, Durability, Lifetime, Namespace, NodeOptions, RecordBuf, RecordId,
    Store, StoreOptions, Transaction, WriteOptions, WriteTxn,
};

use crate::{
    cluster::{calls, engine, new_prefix},
    trips::check,
};

struct World {
    engine: Arc<Tikv>,
    store: Arc<Store>,
}

impl World {
    fn new() -> World {
        let engine = engine(&new_prefix());
        // Its renewals would be counted.
        let node = NodeOptions { lease_seconds: 3600, ..NodeOptions::default() };
        let options = StoreOptions { node, ..StoreOptions::default() };
        let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, options).expect("opens");
        World { engine, store }
    }

    /// A collection with these indexes, which has a block of record numbers and one document.
    fn collection(&self, name: &str, options: &str, indexes: &[&str]) -> Arc<Collection> {
        let namespace = Namespace::parse(name).expect("a name");
        let options = json::parse(options).expect("parses");
        self.store.create_collection(&namespace, options.as_doc()).expect("is created");
        let specs: Vec<DocBuf> =
            indexes.iter().map(|spec| json::parse(spec).expect("parses")).collect();
        let specs: Vec<Doc<'_>> = specs.iter().map(DocBuf::as_doc).collect();
        if !specs.is_empty() {
            let options = BuildOptions::default();
            self.store.create_indexes(&namespace, &specs, options).expect("are built");
        }
        let collection = self.store.collection(&namespace).expect("it is there");
        self.insert(&collection, &[document(0)]);
        collection
    }

    fn insert(&self, into: &Collection, docs: &[DocBuf]) {
        let insert = &mut |txn: &mut WriteTxn<'_>| {
            txn.announce_inserts(into, docs.iter().map(DocBuf::as_doc))?;
            docs.iter().try_for_each(|doc| txn.insert(into, doc.as_doc()).map(drop))
        };
        self.store.write(WriteOptions::default(), insert).expect("inserted");
    }

    /// Waits until the second phases of earlier commits have arrived: until nothing has arrived for a while.
    fn settle(&self) {
        let (mut before, mut quiet) = (calls(), 0);
        while quiet < 200 {
            let now = calls();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
        }
    }

    fn check(&self, what: &str, expected: &str, operation: impl FnOnce()) {
        check(&self.engine, what, expected, operation);
    }
}

fn document(id: i32) -> DocBuf {
    doc! { "_id": id, "a": id, "b": id / 100, "c": 0 }
}

/// Reads a document by its `_id`, and replaces it.
fn replace(txn: &mut WriteTxn<'_>, of: &Collection, new: &DocBuf) {
    let (found, old) = read(txn, of, new.get("_id"));
    txn.update(of, found.key(), old.as_doc(), new.as_doc()).expect("updated");
}

fn read(txn: &WriteTxn<'_>, of: &Collection, id: Value<'_>) -> (RecordId, DocBuf) {
    let found = txn.reader().find_id(of, id).expect("reads").expect("it is there");
    let mut buf = RecordBuf::default();
    let old = txn.reader().record(of, found.key(), &mut buf).expect("reads");
    (found, old.expect("it is there").to_buf())
}

fn write(store: &Store, mut statement: impl FnMut(&mut WriteTxn<'_>)) {
    let done = store.write(WriteOptions::default(), &mut |txn| {
        statement(txn);
        Ok(())
    });
    done.expect("written");
}

/// All keys are in one region, so commits are in one phase.
const INSERT: &str = "1 timestamps, KvGet 1, KvPrewrite 1";
const INSERT_LOOKED_UP: &str = "1 timestamps, KvBatchGet 1, KvPrewrite 1";
/// The entry of its `_id` and the record are read, whatever is changed.
const UPDATE: &str = "1 timestamps, KvGet 2, KvPrewrite 1";

const A: &str = "{key: {a: 1}, name: 'a'}";
const B: &str = "{key: {b: 1}, name: 'b'}";

#[test]
fn reads_of_the_store_take_these_round_trips() {
    let world = World::new();
    let collection = world.collection("d.c", "{}", &[A]);
    let clustered = "{clusteredIndex: {key: {_id: 1}, unique: true, name: 'i'}}";
    let clustered = world.collection("d.clustered", clustered, &[]);
    world.insert(&collection, &(1..200).map(document).collect::<Vec<_>>());
    world.settle();
    world.check("find by _id", "1 timestamps, KvGet 2", || {
        let mut buf = Vec::new();
        let found = world.store.find_by_id(&collection, Value::Int32(7), &mut buf).expect("reads");
        assert!(found.is_some());
    });
    world.check("find by _id, clustered", "1 timestamps, KvGet 1", || {
        let mut buf = Vec::new();
        let found = world.store.find_by_id(&clustered, Value::Int32(0), &mut buf).expect("reads");
        assert!(found.is_some());
    });
    let find = |count: usize| {
        let index = collection.index("a").expect("it is there");
        let snapshot = world.store.snapshot().expect("a snapshot");
        let reader = snapshot.reader();
        let mut cursor = reader.index_cursor(index, true, &[], &[]).expect("a cursor");
        let mut ids = Vec::new();
        while ids.len() < count && cursor.advance().expect("moves") {
            ids.push(cursor.record_id().to_id());
        }
        let mut found = 0;
        let mut buf = RecordBuf::default();
        reader
            .records(&collection, &ids, &mut buf, &mut |_, doc| found += usize::from(doc.is_some()))
            .expect("reads");
        assert_eq!(found, count);
    };
    world.check("find by index, 1", "1 timestamps, KvBatchGet 1, KvScan 1", || find(1));
    world.check("find by index, 100", "1 timestamps, KvBatchGet 1, KvScan 1", || find(100));
}

#[test]
fn inserts_of_the_store_take_these_round_trips() {
    let world = World::new();
    let plain = world.collection("d.plain", "{}", &[]);
    let indexed = world.collection("d.indexed", "{}", &[A, B]);
    let unique = "{key: {a: 1}, name: 'a', unique: true}";
    let unique_b = "{key: {b: 1, c: 1, a: 1}, name: 'b', unique: true}";
    let unique = world.collection("d.unique", "{}", &[unique, unique_b]);
    let blocks = world.collection("d.blocks", "{}", &[]);
    let capped = world.collection("d.capped", "{capped: true, size: 100000}", &[]);
    (0..63).for_each(|n| world.insert(&blocks, &[document(1 + n)]));
    world.settle();
    // The block is taken by a transaction of its own, which reads the next number.
    let block = "2 timestamps, KvGet 2, KvPrewrite 2";
    world.check("insert with a new block", block, || world.insert(&blocks, &[document(100)]));
    world.check("insert", INSERT, || world.insert(&plain, &[document(1)]));
    world.check("insert, 2 indexes", INSERT, || world.insert(&indexed, &[document(1)]));
    world.check("insert, 2 unique indexes", INSERT_LOOKED_UP, || {
        world.insert(&unique, &[document(1)])
    });
    let ten: Vec<DocBuf> = (2..12).map(document).collect();
    world.check("insert of 10", INSERT_LOOKED_UP, || world.insert(&plain, &ten));
    world.check("insert of 10, 2 unique indexes", INSERT_LOOKED_UP, || world.insert(&unique, &ten));
    world.check("insert, capped", "1 timestamps, KvGet 2, KvPrewrite 1, KvScan 1", || {
        world.insert(&capped, &[document(1)])
    });
}

#[test]
fn changes_of_the_store_take_these_round_trips() {
    let world = World::new();
    let indexed = world.collection("d.indexed", "{}", &[A, B]);
    world.insert(&indexed, &(1..100).map(document).collect::<Vec<_>>());
    world.settle();
    world.check("update", UPDATE, || {
        let new = doc! { "_id": 1, "a": 1, "b": 0, "c": 1 };
        write(&world.store, |txn| replace(txn, &indexed, &new));
    });
    world.check("update of another size", UPDATE, || {
        let new = doc! { "_id": 1, "a": 1, "b": 0, "c": "text" };
        write(&world.store, |txn| replace(txn, &indexed, &new));
    });
    world.check("update of an indexed field", UPDATE, || {
        let new = doc! { "_id": 2, "a": 1000, "b": 0, "c": 0 };
        write(&world.store, |txn| replace(txn, &indexed, &new));
    });
    world.check("update of 10 by _id", "1 timestamps, KvBatchGet 2, KvPrewrite 1", || {
        write(&world.store, |txn| {
            let ids: Vec<Value<'_>> = (10..20).map(Value::Int32).collect();
            let mut found = Vec::new();
            let locked = txn.lock_by_ids(&indexed, &ids, &mut |_, id, doc| {
                found.push((id.clone(), doc.to_buf()));
            });
            assert_eq!(locked.expect("locked"), 10);
            for (id, old) in &found {
                let Value::Int32(n) = old.get("_id") else { panic!("{old:?}") };
                let new = doc! { "_id": n, "a": n, "b": 0, "c": 1 };
                txn.update(&indexed, id.key(), old.as_doc(), new.as_doc()).expect("updated");
            }
        });
    });
    world.check("delete", UPDATE, || {
        write(&world.store, |txn| {
            let (found, old) = read(txn, &indexed, Value::Int32(3));
            txn.delete(&indexed, found.key(), old.as_doc()).expect("deleted");
        });
    });
    world.check("transaction of two documents", "1 timestamps, KvGet 4, KvPrewrite 1", || {
        let txn = Transaction::begin(&world.store, Lifetime::Long).expect("begins");
        for id in [30, 31] {
            let new = doc! { "_id": id, "a": id, "b": 0, "c": 1 };
            write(txn.store(), |txn| replace(txn, &indexed, &new));
        }
        txn.commit(Durability::Synced).expect("commits");
    });
}
