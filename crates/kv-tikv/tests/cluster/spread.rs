//! Collections that are spread over the store: which regions are written to, and what operations cost then.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, doc};
use nagi_kv::{Engine, Space};
use nagi_kv_tikv::Tikv;
use nagi_store::{
    Collection, Namespace, NodeOptions, RecordBuf, RecordId, Spread, Store, StoreOptions,
    WriteOptions, WriteTxn,
};

use crate::{
    cluster::{calls, engine, new_prefix, region_starts, stat},
    trips::check,
};

const DOCUMENTS: i32 = 10_000;
/// Documents of a statement.
const AT_ONCE: i32 = 100;
const STRIPES: u32 = 16;
/// With 15 degrees of freedom, one distribution in a hundred thousand is beyond it.
const CHI_MAX: f64 = 50.0;

struct World {
    prefix: String,
    engine: Arc<Tikv>,
    store: Arc<Store>,
}

impl World {
    fn new() -> World {
        let prefix = new_prefix();
        let engine = engine(&prefix);
        // Its renewals would be counted.
        let node = NodeOptions { lease_seconds: 3600, ..NodeOptions::default() };
        let options = StoreOptions { node, ..StoreOptions::default() };
        let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, options).expect("opens");
        World { prefix, engine, store }
    }

    fn collection(&self, name: &str, spread: bool) -> Arc<Collection> {
        let namespace = Namespace::parse(name).expect("a name");
        self.store.create_collection(&namespace, Doc::EMPTY).expect("is created");
        if spread {
            let done = self.store.spread_collection(&namespace, STRIPES, false).expect("is spread");
            assert_eq!(done, Spread::Stripes(STRIPES));
        }
        self.store.collection(&namespace).expect("it is there")
    }

    fn insert(&self, into: &Collection, ids: std::ops::Range<i32>) {
        let docs: Vec<DocBuf> = ids.map(|id| doc! { "_id": id, "a": (id % 10) }).collect();
        let insert = &mut |txn: &mut WriteTxn<'_>| {
            txn.announce_inserts(into, docs.iter().map(DocBuf::as_doc))?;
            docs.iter().try_for_each(|doc| txn.insert(into, doc.as_doc()).map(drop))
        };
        self.store.write(WriteOptions::default(), insert).expect("inserted");
    }

    fn fill(&self, into: &Collection, count: i32) {
        for first in (0..count).step_by(AT_ONCE as usize) {
            self.insert(into, first..first + AT_ONCE);
        }
    }

    /// How many keys of the present entries of a space, with or without stripes, are in each region that has any.
    fn regions_of(&self, space: Space, striped: bool) -> Vec<f64> {
        let starts = region_starts();
        let (from, to) = if striped { ([0x80], [0xF0]) } else { ([0], [0x80]) };
        let snapshot = self.engine.snapshot().expect("a snapshot");
        let mut cursor = snapshot.cursor(space, &from, &to).expect("a cursor");
        let mut counts = vec![0.0; starts.len()];
        let mut found = cursor.seek(&from).expect("seeks");
        while found {
            let stored = [self.prefix.as_bytes(), &[0, 1, space as u8], cursor.key()].concat();
            let key = ordered(&stored);
            counts[starts.partition_point(|start| *start <= key) - 1] += 1.0;
            found = cursor.next().expect("moves");
        }
        counts.retain(|count| *count > 0.0);
        counts
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
}

/// The form of keys in the bounds of regions.
fn ordered(key: &[u8]) -> Vec<u8> {
    let mut into = Vec::new();
    for at in (0..=key.len()).step_by(8) {
        let group = &key[at..key.len().min(at + 8)];
        into.extend_from_slice(group);
        into.resize(into.len() + 8 - group.len(), 0);
        into.push(u8::MAX - (8 - group.len()) as u8);
    }
    into
}

/// Ten thousand ascending ids: without stripes their records, and their entries of the index, are written to one region
/// each at any time; with stripes to all of sixteen, evenly.
#[test]
fn ascending_ids_are_written_to_all_regions_of_a_spread_collection() {
    let world = World::new();
    let plain = world.collection("d.plain", false);
    world.fill(&plain, DOCUMENTS);
    for space in [Space::Records, Space::Index] {
        let counts = world.regions_of(space, false);
        assert!(counts.len() <= 2, "{space:?}: {counts:?}");
    }
    let spread = world.collection("d.spread", true);
    assert!(stat(&*world.engine, "splits") >= 2 * i64::from(STRIPES));
    world.fill(&spread, DOCUMENTS);
    for space in [Space::Records, Space::Index] {
        let counts = world.regions_of(space, true);
        assert_eq!(counts.iter().sum::<f64>(), f64::from(DOCUMENTS));
        assert_eq!(counts.len(), STRIPES as usize, "{space:?}: {counts:?}");
        let expected = f64::from(DOCUMENTS) / f64::from(STRIPES);
        let chi: f64 = counts.iter().map(|n| (n - expected).powi(2) / expected).sum();
        assert!(chi < CHI_MAX, "{space:?}: {chi}: {counts:?}");
    }
    // The same documents, in the same orders.
    let ids = |of: &Collection| {
        let snapshot = world.store.snapshot().expect("a snapshot");
        let index = of.id_index().expect("it has one");
        let mut cursor = snapshot.reader().index_cursor(index, false, &[], &[]).expect("a cursor");
        let mut keys = Vec::new();
        while cursor.advance().expect("moves") {
            keys.push(cursor.key().to_vec());
        }
        keys
    };
    assert_eq!(ids(&plain), ids(&spread));
    assert_eq!(ids(&spread).len(), DOCUMENTS as usize);
}

/// Fences, records of sessions and the change log are not in one region with each other once something is spread.
#[test]
fn small_keys_of_all_commits_are_divided_with_the_first_collection() {
    let world = World::new();
    let begins = |rest: &[&[u8]]| {
        let key = ordered(&[world.prefix.as_bytes(), &[0, 1], &rest.concat()].concat());
        region_starts().contains(&key)
    };
    let fences = (u32::MAX - 3).to_be_bytes();
    let sessions = (u32::MAX - 1).to_be_bytes();
    let expected = |is_divided: bool| {
        assert_eq!(begins(&[&[Space::Counters as u8], &fences, &[0, 0]]), is_divided);
        assert_eq!(begins(&[&[Space::Counters as u8], &fences, &[2, 0]]), is_divided);
        assert_eq!(begins(&[&[Space::Records as u8], &sessions, &[0x80]]), is_divided);
        assert_eq!(begins(&[&[Space::Changes as u8], &[7]]), is_divided);
    };
    // The counters of a collection whose ident has stripes.
    let counters = || {
        let of =
            |ident: u8| [world.prefix.as_bytes(), &[0, 1, Space::Counters as u8, ident]].concat();
        let (from, to) = (ordered(&of(0x80)), ordered(&of(0xD0)));
        region_starts().iter().filter(|start| **start >= from && **start < to).count()
    };
    world.collection("d.plain", false);
    expected(false);
    assert_eq!(counters(), 0);
    world.collection("d.spread", true);
    expected(true);
    assert_eq!(counters(), 1, "there is one node");
}

#[test]
fn operations_on_a_spread_collection_take_these_round_trips() {
    let world = World::new();
    let plain = world.collection("d.plain", false);
    world.fill(&plain, 3000);
    let spread = world.collection("d.spread", true);
    world.fill(&spread, 3000);
    world.settle();
    let engine = &world.engine;
    check(engine, "find by _id", "1 timestamps, KvGet 2", || {
        let mut buf = Vec::new();
        assert!(
            world.store.find_by_id(&spread, Value::Int32(7), &mut buf).expect("reads").is_some()
        );
    });
    check(engine, "a range of one _id", "1 timestamps, KvScan 1", || {
        let key = key_of(7);
        assert_eq!(scan(&world, &spread, &key, &[&key[..], &[0xFF]].concat(), usize::MAX).len(), 1);
    });
    check(engine, "entries of 100 ids", "1 timestamps, KvBatchGet 16", || {
        let keys: Vec<Vec<u8>> = (0..100).map(|n| key_of(n * 7)).collect();
        let values: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let snapshot = world.store.snapshot().expect("a snapshot");
        let index = spread.id_index().expect("it has one");
        let cursor = snapshot.reader().index_cursor_at(index, true, &values).expect("reads");
        let mut cursor = cursor.expect("it has stripes");
        let mut count = 0;
        while cursor.advance().expect("moves") {
            count += 1;
        }
        assert_eq!(count, 100);
    });
    check(engine, "first of the order of _id", "1 timestamps, KvScan 16", || {
        assert_eq!(scan(&world, &spread, &key_of(500), &key_of(2500), 1).len(), 1);
    });
    check(engine, "1,000 in the order of _id", "1 timestamps, KvScan 32", || {
        assert_eq!(scan(&world, &spread, &key_of(500), &key_of(2500), 1000).len(), 1000);
    });
    check(engine, "1,000 in the order of _id without stripes", "1 timestamps, KvScan 3", || {
        assert_eq!(scan(&world, &plain, &key_of(500), &key_of(2500), 1000).len(), 1000);
    });
    check(engine, "1,000 with their records", "2 timestamps, KvBatchGet 64, KvScan 32", || {
        let ids = scan(&world, &spread, &key_of(500), &key_of(2500), 1000);
        let (mut buf, mut found) = (RecordBuf::default(), 0);
        let snapshot = world.store.snapshot().expect("a snapshot");
        let visit = &mut |_, doc: Option<Doc<'_>>| found += usize::from(doc.is_some());
        snapshot.reader().records(&spread, &ids, &mut buf, visit).expect("reads");
        assert_eq!(found, 1000);
    });
}

/// The number of regions of a commit: those of its records, index entries, its fence, and its counter.
#[test]
fn commits_of_a_spread_collection_take_these_round_trips() {
    let world = World::new();
    let spread = world.collection("d.spread", true);
    world.insert(&spread, 0..1);
    world.settle();
    let engine = &world.engine;
    check(engine, "insert", "1 timestamps, KvCommit 4, KvGet 1, KvPrewrite 4", || {
        world.insert(&spread, 1..2)
    });
    world.settle();
    check(engine, "insert of 10", "1 timestamps, KvBatchGet 8, KvCommit 17, KvPrewrite 17", || {
        world.insert(&spread, 2..12)
    });
}

fn key_of(id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    nagi_store::keystring::append(Value::Int32(id), false, &mut key);
    key
}

/// The records of the first entries of a range of ids.
fn scan(world: &World, of: &Collection, start: &[u8], end: &[u8], most: usize) -> Vec<RecordId> {
    let snapshot = world.store.snapshot().expect("a snapshot");
    let index = of.id_index().expect("it has one");
    let mut cursor = snapshot.reader().index_cursor(index, true, start, end).expect("a cursor");
    let mut ids = Vec::new();
    while ids.len() < most && cursor.advance().expect("moves") {
        ids.push(cursor.record_id().to_id());
    }
    ids
}
