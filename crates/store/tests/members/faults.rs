//! Random faults of the engine, also commits whose outcome is unknown, at nodes that write and change the catalog at
//! once: no acknowledged document is lost, none is there that was refused, and each has its index keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_bson::{Doc, Value, doc};
use nagi_error::Result;
use nagi_kv::{Engine, Error, Faults, Faulty, Minimal, Point};
use nagi_store::{BuildOptions, IndexSelector, Namespace, Store, WriteOptions, WriteTxn};

use crate::{random::Random, several::open, support::parse};

const NODES: usize = 2;
const WRITERS: i32 = 2;
/// So long all of it goes on.
const LASTS: Duration = Duration::from_secs(12);

/// What writers were told: true for success; false if the outcome is unknown; absent if nothing was written.
type Told = Mutex<BTreeMap<i32, bool>>;

fn name() -> Namespace {
    Namespace::parse("d.c").unwrap()
}

fn faulty(on: &Arc<Minimal>, faults: &Faults, number: usize) -> Arc<Store> {
    let mut options = crate::options();
    options.node.name = format!("node {number}");
    let engine = Faulty::new(Arc::clone(on) as Arc<dyn Engine>, faults.clone());
    Store::open(Arc::new(engine), options).unwrap()
}

fn insert(store: &Store, id: i32) -> Result<()> {
    let collection = store.collection_or_create(&name())?;
    let doc = match id % 50 {
        0 => doc! { "_id": id, "a": [id, 1], "b": id },
        _ => doc! { "_id": id, "a": (id % 7), "b": id },
    };
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc()).map(drop);
    store.write(WriteOptions::default(), insert).map(drop)
}

fn write(store: &Store, first: i32, told: &Told, until: Instant) {
    let mut id = first;
    while Instant::now() < until {
        id += NODES as i32 * WRITERS;
        match insert(store, id) {
            Ok(()) => told.lock().unwrap().insert(id, true),
            Err(error) if error.code().0 == 11602 => told.lock().unwrap().insert(id, false),
            Err(error) => {
                assert_ne!(error.code().0, 11000, "{error}");
                None
            }
        };
    }
}

/// Builds and drops indexes, and creates and drops other collections. Any of it may fail.
fn change(store: &Store, seed: u64, until: Instant) -> usize {
    let (mut random, mut done) = (Random::new(seed), 0);
    let index = |spec: &str| {
        let spec = parse(spec);
        store.create_indexes(&name(), &[spec.as_doc()], BuildOptions::default()).map(drop)
    };
    while Instant::now() < until {
        let other = Namespace::parse(&format!("d.other{seed}")).unwrap();
        let result = match random.below(6) {
            0 => index("{key: {a: 1}, name: 'a'}"),
            1 => index("{key: {b: 1}, name: 'b', unique: true}"),
            2 => store.drop_indexes(&name(), IndexSelector::Name("a")).map(drop),
            3 => store.drop_indexes(&name(), IndexSelector::Name("b")).map(drop),
            4 => store.create_collection(&other, Doc::EMPTY).map(drop),
            _ => store.drop_collection(&other).map(drop),
        };
        done += usize::from(result.is_ok());
    }
    done
}

/// Makes the engine of a node fail in the ways of a network.
fn disturb(faults: &Faults, seed: u64, ends: &AtomicBool) {
    let mut random = Random::new(seed);
    while !ends.load(SeqCst) {
        let (point, error): (Point, fn() -> Error) = match random.below(6) {
            0 => (Point::Begin, || Error::other("unreachable")),
            1 => (Point::Get, || Error::other("unreachable")),
            2 => (Point::Committed, || Error::Undetermined),
            3 => (Point::Commit, || Error::Undetermined),
            _ => (Point::Commit, || Error::Conflict),
        };
        faults.arm(point, random.below(20), 1 + random.below(3), error);
        (0..50).for_each(|_| thread::yield_now());
        faults.disarm();
    }
}

#[test]
fn no_write_is_lost_or_missing_in_an_index_whatever_fails() {
    let engine = Arc::new(Minimal::new());
    let faults: [Faults; NODES] = Default::default();
    let nodes: Vec<_> =
        faults.iter().enumerate().map(|(number, faults)| faulty(&engine, faults, number)).collect();
    let (told, ends, until) = (Told::default(), AtomicBool::new(false), Instant::now() + LASTS);
    thread::scope(|scope| {
        let mut at_work = Vec::new();
        let mut changing = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            let (told, ends, faults) = (&told, &ends, &faults[number]);
            scope.spawn(move || disturb(faults, number as u64 + 1, ends));
            for writer in 0..WRITERS {
                let first = number as i32 * WRITERS + writer;
                at_work.push(scope.spawn(move || write(node, first, told, until)));
            }
            changing.push(scope.spawn(move || change(node, number as u64 + 7, until)));
        }
        let ended: Vec<_> = at_work.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let changed: Vec<_> = changing.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ends.store(true, SeqCst);
        assert!(ended.iter().all(|ended| ended.is_ok()));
        assert!(changed.into_iter().all(|changed| changed.unwrap() > 0));
    });
    faults.iter().for_each(Faults::disarm);
    let told = told.into_inner().unwrap();
    assert!(told.values().filter(|told| **told).count() > 20, "{}", told.len());
    let third = open(&engine, 9);
    for store in nodes.iter().chain([&third]) {
        let collection = store.collection(&name()).unwrap();
        let report = store.validate(&collection).unwrap();
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        let mut found = BTreeSet::new();
        let mut cursor = store.latest().scan(&collection, true).unwrap();
        while cursor.advance().unwrap() {
            let Value::Int32(id) = cursor.doc().get("_id") else { panic!("an id") };
            assert!(told.contains_key(&id), "{id} was refused");
            found.insert(id);
        }
        let lost = told.iter().filter(|(id, told)| **told && !found.contains(id));
        assert_eq!(lost.count(), 0);
    }
}
