//! Two nodes that create and insert at once: idents and record numbers are those of one node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_bson::{Doc, DocBuf, Value, doc, number};
use nagi_error::Result;
use nagi_kv::{Engine, Minimal, Space, TxnOptions};
use nagi_store::{
    BuildOptions, Collection, Durability, Lifetime, Namespace, RecordBuf, RecordId, Store,
    Transaction, WriteOptions, WriteTxn,
};

use crate::support::{error, parse, pass};

/// Opens the data as one more node.
pub(crate) fn open(on: &Arc<Minimal>, number: u8) -> Arc<Store> {
    let mut options = crate::options();
    options.node.name = format!("node {number}");
    Store::open(Arc::clone(on) as Arc<dyn Engine>, options).unwrap()
}

fn name(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

fn insert(store: &Store, into: &Collection, doc: &DocBuf) -> Result<RecordId> {
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(into, doc.as_doc());
    Ok(store.write(WriteOptions::default(), insert)?.value)
}

fn put(store: &Store, namespace: &Namespace, id: i32) -> i64 {
    let collection = store.collection(namespace).unwrap();
    match insert(store, &collection, &doc! { "_id": id, "a": id }).unwrap() {
        RecordId::Id(number) => number,
        RecordId::Key(_) => panic!("a number"),
    }
}

/// Entries of the catalog of one kind: idents and values.
fn entries(engine: &Minimal, kind: u8) -> Vec<(u32, Vec<u8>)> {
    let mut cursor = engine.latest().cursor(Space::Catalog, &[kind], &[kind + 1]).unwrap();
    let (mut entries, mut found) = (Vec::new(), cursor.seek(&[kind]).unwrap());
    while found {
        let ident = u32::from_be_bytes(*cursor.key()[1..].first_chunk().unwrap());
        entries.push((ident, cursor.value().to_vec()));
        found = cursor.next().unwrap();
    }
    entries
}

fn int(value: Value<'_>) -> u32 {
    u32::try_from(number::truncate_to_i64(value).unwrap()).unwrap()
}

/// The assigned numbers of the idents of all collections and indexes: those with stripes have them in 28 bits.
fn idents(engine: &Minimal) -> Vec<u32> {
    let mut all = Vec::new();
    for (ident, entry) in entries(engine, 2) {
        all.push(ident);
        let entry = Doc::parse_wrapped(&entry).unwrap();
        let indexes = entry.get("indexes").as_array().unwrap();
        all.extend(indexes.iter().map(|index| int(index.as_doc().unwrap().get("ident"))));
    }
    let assigned = |ident: u32| if ident >> 31 == 1 { ident & 0x0FFF_FFFF } else { ident };
    all.into_iter().map(assigned).collect()
}

fn next_ident(engine: &Minimal) -> u32 {
    u32::from_le_bytes(*entries(engine, 4)[0].1.first_chunk().unwrap())
}

/// The stored next record numbers.
fn next_numbers(engine: &Minimal) -> Vec<i64> {
    let entries = entries(engine, 10);
    entries.iter().map(|(_, next)| i64::from_le_bytes(*next.first_chunk().unwrap())).collect()
}

fn check_valid(store: &Store, collection: &Collection, count: u64) {
    let report = store.validate(collection).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!((report.record_count, collection.count()), (count as i64, count as i64));
}

#[test]
fn nodes_that_create_at_once_get_different_idents() {
    const EACH: usize = 60;
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1)];
    thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..EACH {
                    let namespace = name(&format!("d.n{number}x{n}"));
                    node.create_collection(&namespace, Doc::EMPTY).unwrap();
                    let spec = parse("{key: {a: 1}, name: 'a'}");
                    let options = BuildOptions::default();
                    node.create_indexes(&namespace, &[spec.as_doc()], options).unwrap();
                    assert_eq!(put(node, &namespace, n as i32), 1);
                }
            });
        }
    });
    let all = idents(&engine);
    assert_eq!(all.len(), 2 * EACH * 3);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "an ident is used twice");
    assert!(all.iter().all(|ident| *ident < next_ident(&engine)));
    // Blocks: 180 idents of each node are three of them.
    assert_eq!(next_ident(&engine), 1 + 2 * 3 * 64);
    let third = open(&engine, 2);
    for collection in third.catalog().iter() {
        check_valid(&third, collection, 1);
    }
    // The rest of its block is lost with a node.
    drop(nodes);
    third.create_collection(&name("d.later"), Doc::EMPTY).unwrap();
    assert!(idents(&engine).contains(&(1 + 6 * 64)));
}

#[test]
fn nodes_that_insert_at_once_get_different_record_numbers() {
    const EACH: i32 = 1000;
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let first = open(&engine, 0);
    let collection = first.create_collection(&namespace, Doc::EMPTY).unwrap();
    let unique = parse("{key: {a: 1}, name: 'a', unique: true}");
    first.create_indexes(&namespace, &[unique.as_doc()], BuildOptions::default()).unwrap();
    assert_eq!(next_numbers(&engine), [1 + 64]);
    let nodes = [first, open(&engine, 1)];
    let numbers: Vec<Vec<i64>> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (node, namespace) = (&nodes[writer as usize % 2], &namespace);
                let own = move |n| put(node, namespace, 4 * n + writer);
                scope.spawn(move || (0..EACH).map(own).collect())
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    for own in &numbers {
        assert!(own.is_sorted(), "the numbers of one writer on one node ascend");
    }
    let all: Vec<i64> = numbers.into_iter().flatten().collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "a number is used twice");
    assert!(all.iter().all(|number| (1..next_numbers(&engine)[0]).contains(number)));
    // 2000 numbers of each node: blocks of 64, 128, 256, 512, 1024 and 2048 at most.
    assert!(next_numbers(&engine)[0] <= 1 + 64 + 2 * (4096 - 64), "{:?}", next_numbers(&engine));
    drop(collection);
    let third = open(&engine, 2);
    check_valid(&third, &third.collection(&namespace).unwrap(), all.len() as u64);
}

/// Of inserts of one value at two nodes, one is successful.
#[test]
fn unique_values_are_unique_over_all_nodes() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let first = open(&engine, 0);
    first.create_collection(&namespace, Doc::EMPTY).unwrap();
    let unique = parse("{key: {a: 1}, name: 'a', unique: true}");
    first.create_indexes(&namespace, &[unique.as_doc()], BuildOptions::default()).unwrap();
    let nodes = [first, open(&engine, 1)];
    let inserted: Vec<i32> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (node, namespace) = (&nodes[writer as usize % 2], &namespace);
                scope.spawn(move || {
                    let collection = node.collection(namespace).unwrap();
                    let one = |n: i32| {
                        let doc = doc! { "_id": 4 * n + writer, "a": n };
                        match insert(node, &collection, &doc) {
                            Ok(_) => 1,
                            Err(error) if error.code().0 == 11000 => 0,
                            Err(error) => panic!("{error}"),
                        }
                    };
                    (0..100).map(one).sum()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(inserted.iter().sum::<i32>(), 100);
    let third = open(&engine, 2);
    check_valid(&third, &third.collection(&namespace).unwrap(), 100);
}

/// Record numbers of a capped collection become visible in their order, whichever node has inserted: a reader that
/// continues behind the last one that it has seen misses nothing.
#[test]
fn capped_collections_have_one_order_over_all_nodes() {
    const EACH: i32 = 80;
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let first = open(&engine, 0);
    let options = parse("{capped: true, size: 1000000}");
    first.create_collection(&namespace, options.as_doc()).unwrap();
    let nodes = [first, open(&engine, 1)];
    let reader = open(&engine, 2);
    let (mut seen, mut last) = (Vec::new(), None::<RecordId>);
    let mut read_on = || {
        let collection = reader.collection(&namespace).unwrap();
        let mut cursor = reader.latest().scan(&collection, true).unwrap();
        if let Some(last) = &last {
            cursor.resume_after(last.key());
        }
        while cursor.advance().unwrap() {
            seen.push(int(cursor.doc().get("_id")));
            last = Some(cursor.id().to_id());
        }
        seen.len()
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (node, namespace) = (&nodes[writer as usize], &namespace);
                scope.spawn(move || {
                    for n in 0..EACH {
                        put(node, namespace, 2 * n + writer);
                    }
                })
            })
            .collect();
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
            read_on();
        }
    });
    assert_eq!(read_on(), 2 * EACH as usize);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
    for writer in 0..2 {
        let own: Vec<_> = seen.iter().filter(|id| **id % 2 == writer).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
    assert_eq!(next_numbers(&engine), [1 + 2 * i64::from(EACH)], "no numbers are lost");
    // The numbers are not used again, although the last records are gone.
    let collection = nodes[1].collection(&namespace).unwrap();
    nodes[1].truncate_capped_after(&collection, None, &|| Ok(())).unwrap();
    assert_eq!(put(&nodes[0], &namespace, 1000), 1 + 2 * i64::from(EACH));
}

/// Both nodes delete the oldest documents; the limit holds.
#[test]
fn capped_collections_stay_within_their_limit() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let first = open(&engine, 0);
    let options = parse("{capped: true, size: 1000000, max: 5}");
    first.create_collection(&namespace, options.as_doc()).unwrap();
    let nodes = [first, open(&engine, 1)];
    thread::scope(|scope| {
        for writer in 0..2 {
            let (node, namespace) = (&nodes[writer as usize], &namespace);
            scope.spawn(move || {
                for n in 0..60 {
                    put(node, namespace, 2 * n + writer);
                }
            });
        }
    });
    let third = open(&engine, 2);
    check_valid(&third, &third.collection(&namespace).unwrap(), 5);
}

#[test]
fn numbers_go_on_behind_the_blocks_of_an_earlier_process() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let first = open(&engine, 0);
    first.create_collection(&namespace, Doc::EMPTY).unwrap();
    assert_eq!((put(&first, &namespace, 1), put(&first, &namespace, 2)), (1, 2));
    drop(first);
    let second = open(&engine, 0);
    assert_eq!(put(&second, &namespace, 3), 65);
    assert_eq!(next_numbers(&engine), [65 + 64]);
    // Data of a time before the number was stored: behind the last record.
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    let ident = entries(&engine, 10)[0].0;
    txn.delete(Space::Catalog, &[&[10][..], &ident.to_be_bytes()].concat()).unwrap();
    txn.commit(Durability::Buffered).unwrap();
    drop(second);
    let third = open(&engine, 0);
    assert_eq!((put(&third, &namespace, 4), put(&third, &namespace, 5)), (66, 67));
    assert_eq!(next_numbers(&engine), [66 + 64]);
    // It is removed with the collection.
    third.drop_collection(&namespace).unwrap();
    drop(third);
    pass(&*engine, 1);
    // An exit waits two seconds for that; what a busy machine has not done by then is done after the next start.
    let fourth = open(&engine, 0);
    let until = Instant::now() + Duration::from_secs(60);
    while !next_numbers(&engine).is_empty() {
        assert!(Instant::now() < until, "{:?}", next_numbers(&engine));
        thread::yield_now();
    }
    drop(fourth);
}

/// A transaction that creates a collection is the only one that knows it, so it needs no blocks.
#[test]
fn a_collection_of_a_transaction_has_numbers_beyond_a_block() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let first = open(&engine, 0);
    let fill = |txn: &Transaction, ids: std::ops::Range<i32>| {
        let collection = txn.store().collection_or_create(&namespace).unwrap();
        ids.for_each(|id| {
            insert(txn.store(), &collection, &doc! { "_id": id }).unwrap();
        });
    };
    let aborted = Transaction::begin(&first, Lifetime::Long).unwrap();
    fill(&aborted, 0..100);
    drop(aborted);
    let txn = Transaction::begin(&first, Lifetime::Long).unwrap();
    fill(&txn, 0..200);
    assert_eq!(next_numbers(&engine), [0; 0], "nothing is stored before the commit");
    txn.commit(Durability::Buffered).unwrap();
    drop(txn);
    assert_eq!(next_numbers(&engine), [201 + 64]);
    let second = open(&engine, 1);
    let numbers = [put(&first, &namespace, 200), put(&second, &namespace, 201)];
    assert_eq!(numbers, [201, 265]);
    let third = open(&engine, 2);
    check_valid(&third, &third.collection(&namespace).unwrap(), 202);
}

#[test]
fn a_damaged_next_number_is_refused() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let store = open(&engine, 0);
    store.create_collection(&namespace, Doc::EMPTY).unwrap();
    drop(store);
    let ident = entries(&engine, 10)[0].0;
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    txn.put(Space::Catalog, &[&[10][..], &ident.to_be_bytes()].concat(), &[0xFF; 8]).unwrap();
    txn.commit(Durability::Buffered).unwrap();
    let store = open(&engine, 0);
    let collection = store.collection(&namespace).unwrap();
    let refused = error(insert(&store, &collection, &doc! { "_id": 1 }));
    assert!(refused.contains("the stored next record number is damaged"), "{refused}");
}

/// In the natural order, documents of one block are in the order of their insertion, and blocks in the order in which
/// they were taken.
#[test]
fn the_natural_order_is_by_block() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let first = open(&engine, 0);
    first.create_collection(&namespace, Doc::EMPTY).unwrap();
    let nodes = [first, open(&engine, 1)];
    let numbers: BTreeMap<i64, i32> =
        (0..6).map(|id| (put(&nodes[id as usize % 2], &namespace, id), id)).collect();
    assert_eq!(numbers.into_values().collect::<Vec<_>>(), [0, 2, 4, 1, 3, 5]);
}

/// A build record by record reads many records in one transaction, and one of them is written all the time.
#[test]
fn an_index_is_built_beside_writers_of_one_record() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1)];
    let namespace = name("d.c");
    let collection = nodes[0].create_collection(&namespace, Doc::EMPTY).unwrap();
    (0..500)
        .for_each(|id| drop(insert(&nodes[0], &collection, &doc! { "_id": id, "n": 0 }).unwrap()));
    let ends = AtomicBool::new(false);
    let written: i64 = thread::scope(|scope| {
        let writers = nodes.each_ref().map(|node| {
            let (ends, namespace) = (&ends, &namespace);
            scope.spawn(move || {
                let mut count = 0;
                while !ends.load(SeqCst) {
                    increment(node, namespace);
                    count += 1;
                }
                count
            })
        });
        let spec = parse("{key: {n: 1}, name: 'n'}");
        let built = nodes[1].create_indexes(&namespace, &[spec.as_doc()], BuildOptions::default());
        ends.store(true, SeqCst);
        built.unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert!(written > 0);
    for node in &nodes {
        let report = node.validate(&node.collection(&namespace).unwrap()).unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
}

/// Adds 1 to `n` of the document 250.
fn increment(node: &Store, namespace: &Namespace) {
    let increment = &mut |txn: &mut WriteTxn<'_>| {
        let collection = txn.collection(namespace).unwrap();
        let record = txn.reader().find_id(&collection, Value::Int32(250))?.unwrap();
        txn.lock(&collection, record.key())?;
        let mut buf = RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
        let new = doc! { "_id": 250, "n": (int(old.get("n")) as i32 + 1) };
        txn.update(&collection, record.key(), old.as_doc(), new.as_doc()).map(drop)
    };
    node.write(WriteOptions::default(), increment).unwrap();
}
