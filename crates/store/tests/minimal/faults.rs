//! Random faults, takeovers and unknown commits under writers that append to lists: no acknowledged element is lost,
//! and none is there twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use nagi_bson::{Array, Doc, DocBuf, Value};
use nagi_error::Result;
use nagi_kv::{Engine, Error, Faults, Faulty, Minimal, Point};
use nagi_store::{
    CommitStamp, Namespace, NodeOptions, RecordBuf, Store, StoreOptions, WriteOptions, WriteTxn,
};

use crate::random::Random;

const LISTS: i32 = 3;
const WRITERS: i64 = 3;
const NODES: usize = 4;
/// Attempts of each writer on one node.
const APPENDS: usize = 400;

/// What the writers were told about their elements: true for success; absent after an error that says that nothing was
/// written.
type Told = Mutex<BTreeMap<i64, bool>>;

fn list(doc: Doc<'_>) -> Vec<i64> {
    let items = doc.get("l").as_array().unwrap_or(Array::EMPTY);
    items
        .iter()
        .map(|item| if let Value::Int64(n) = item { n } else { panic!("{item:?}") })
        .collect()
}

/// Appends an element to a list, which is created with its first element.
fn append(store: &Store, namespace: &Namespace, id: i32, element: i64) -> Result<()> {
    let collection = store.collection_or_create(namespace)?;
    let write = &mut |txn: &mut WriteTxn<'_>| -> Result<()> {
        let mut buf = RecordBuf::default();
        let found = txn.reader().find_id(&collection, Value::Int32(id))?;
        let old = match &found {
            Some(found) => txn.reader().record(&collection, found.key(), &mut buf)?,
            None => None,
        };
        let old = old.map(|old| old.to_buf());
        let mut all = old.as_ref().map(|old| list(old.as_doc())).unwrap_or_default();
        all.push(element);
        let new = DocBuf::build(|w| {
            w.put("_id", id);
            w.array("l", |w| all.iter().for_each(|element| w.push(*element)));
        });
        match (found, old) {
            (Some(found), Some(old)) => {
                txn.update(&collection, found.key(), old.as_doc(), new.as_doc())
            }
            _ => txn.insert(&collection, new.as_doc()).map(drop),
        }
    };
    store.write(WriteOptions::default(), write).map(drop)
}

fn work(store: &Store, namespace: &Namespace, (node, writer): (usize, i64), told: &Told) {
    let mut random = Random::new(node as u64 * 100 + writer as u64 + 1);
    for n in 0..APPENDS {
        let element = ((node * APPENDS + n) as i64) * WRITERS + writer;
        match append(store, namespace, random.below(LISTS as u64) as i32, element) {
            Ok(()) => {
                told.lock().unwrap().insert(element, true);
            }
            Err(error) if error.code().0 == 11602 => {
                told.lock().unwrap().insert(element, false);
            }
            Err(error) if error.code().0 == 91 => return,
            Err(_) => {}
        }
    }
}

/// Makes the engine fail in the ways of a network until the work is done.
fn disturb(faults: &Faults, seed: u64, done: &AtomicBool) {
    let mut random = Random::new(seed);
    while !done.load(SeqCst) {
        let (point, error): (Point, fn() -> Error) = match random.below(6) {
            0 => (Point::Begin, || Error::other("unreachable")),
            1 => (Point::Get, || Error::other("unreachable")),
            2 => (Point::Committed, || Error::Undetermined),
            3 => (Point::Commit, || Error::Undetermined),
            _ => (Point::Commit, || Error::Conflict),
        };
        faults.arm(point, random.below(8), 1 + random.below(2), error);
        (0..20).for_each(|_| thread::yield_now());
        faults.disarm();
    }
}

fn open(engine: &Arc<dyn Engine>, faults: &Faults, name: usize) -> Result<Arc<Store>> {
    let node = NodeOptions { name: format!("node {name}"), waits: false, ..NodeOptions::default() };
    let faulty = Arc::new(Faulty::new(Arc::clone(engine), faults.clone()));
    Store::open(faulty, StoreOptions { node, ..StoreOptions::default() })
}

/// Opens a node. The one before goes on, so it takes attempts until the lease has ended before it is renewed.
fn take_over(engine: &Arc<dyn Engine>, faults: &Faults, node: usize) -> Arc<Store> {
    loop {
        for _ in 0..2 {
            let ahead = engine.last_stamp().0 + (10 << 32);
            engine.advance(CommitStamp(ahead)).unwrap();
        }
        match open(engine, faults, node) {
            Ok(store) => return store,
            Err(error) => assert!([98, 112].contains(&error.code().0), "{error}"),
        }
    }
}

#[test]
fn appends_survive_faults_and_takeovers_once() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let (namespace, told) = (Namespace::parse("d.c").unwrap(), Told::default());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for node in 0..NODES {
            let faults = Faults::default();
            let store = take_over(&engine, &faults, node);
            for writer in 0..WRITERS {
                let (store, namespace, told) = (Arc::clone(&store), &namespace, &told);
                workers.push(scope.spawn(move || work(&store, namespace, (node, writer), told)));
            }
            let done = &done;
            scope.spawn(move || disturb(&faults, node as u64 + 1, done));
            while told.lock().unwrap().len() < (node + 1) * APPENDS / 2
                && !workers.iter().all(thread::ScopedJoinHandle::is_finished)
            {
                thread::yield_now();
            }
        }
        let ended: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let last = take_over(&engine, &Faults::default(), NODES);
    let collection = last.collection(&namespace).unwrap();
    let mut found: Vec<i64> = Vec::new();
    let mut cursor = last.latest().scan(&collection, true).unwrap();
    while cursor.advance().unwrap() {
        found.extend(list(cursor.doc()));
    }
    drop(cursor);
    found.sort_unstable();
    assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "an element is there twice");
    let told = told.into_inner().unwrap();
    let lost: Vec<_> = told
        .iter()
        .filter(|(element, sure)| **sure && found.binary_search(element).is_err())
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    let unsaid: Vec<_> = found.iter().filter(|element| !told.contains_key(element)).collect();
    assert!(unsaid.is_empty(), "written, but an error said that it was not: {unsaid:?}");
    assert!(found.len() > APPENDS, "{}", found.len());
    let report = last.validate(&collection).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!((report.record_count, collection.count()), (LISTS.into(), LISTS.into()));
    assert_eq!(report.data_bytes, collection.data_bytes());
}
