//! Spreading a collection that is there.

use std::sync::Arc;

use nagi_bson::{Doc, Value, doc};
use nagi_kv::{Engine, Minimal, Space};
use nagi_store::{
    BuildOptions, Collection, Namespace, NodeMode, NodeOptions, RecordBuf, RecordId, Spread, Store,
    StoreOptions, WriteOptions, WriteTxn,
};

use crate::support::{error, parse};

fn open(engine: &Arc<dyn Engine>) -> Arc<Store> {
    let node = NodeOptions { mode: NodeMode::Member, ..NodeOptions::default() };
    let options = StoreOptions { node, ..StoreOptions::default() };
    Store::open(Arc::clone(engine), options).unwrap()
}

fn names() -> Namespace {
    Namespace::parse("d.c").unwrap()
}

fn insert(store: &Store, id: i32) -> RecordId {
    let collection = store.collection(&names()).unwrap();
    let doc = doc! { "_id": id, "a": (id % 7), "h": id };
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc());
    store.write(WriteOptions::default(), insert).unwrap().value
}

/// The bytes behind the idents of all keys of a space whose idents say that they have stripes, and the counts of them.
fn stripes(engine: &dyn Engine, space: Space) -> Vec<usize> {
    let mut counts = vec![0; 256];
    let (start, end) = ([0x80], [0xFF]);
    let mut cursor = engine.latest().cursor(space, &start, &end).unwrap();
    let mut found = cursor.seek(&start).unwrap();
    while found {
        counts[usize::from(cursor.key()[4])] += 1;
        found = cursor.next().unwrap();
    }
    counts.truncate(counts.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1));
    counts
}

fn ids(store: &Store, forward: bool) -> Vec<i32> {
    let collection = store.collection(&names()).unwrap();
    let snapshot = store.snapshot().unwrap();
    let reader = snapshot.reader();
    let index = collection.id_index().unwrap();
    let mut cursor = reader.index_cursor(index, forward, &[], &[]).unwrap();
    let (mut ids, mut buf) = (Vec::new(), RecordBuf::default());
    while cursor.advance().unwrap() {
        let doc = reader.record(&collection, cursor.record_id(), &mut buf).unwrap().unwrap();
        let Value::Int32(id) = doc.get("_id") else { panic!("{doc:?}") };
        ids.push(id);
    }
    ids
}

fn check(store: &Store, collection: &Arc<Collection>) {
    let report = store.validate(collection).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

#[test]
fn an_empty_collection_is_spread_and_clients_see_the_same() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let store = open(&engine);
    let other = open(&engine);
    let options = parse("{validator: {a: {$gte: 0}}}");
    let before = store.create_collection(&names(), options.as_doc()).unwrap();
    let specs = [parse("{key: {a: 1}, name: 'a'}"), parse("{key: {h: 'hashed'}, name: 'h'}")];
    let specs: Vec<Doc<'_>> = specs.iter().map(|spec| spec.as_doc()).collect();
    store.create_indexes(&names(), &specs, BuildOptions::default()).unwrap();
    assert_eq!(store.spread_collection(&names(), 13, false).unwrap(), Spread::Stripes(16));
    assert_eq!(
        store.spread_collection(&names(), 4, false).unwrap(),
        Spread::Stripes(16),
        "as it is"
    );
    let after = store.collection(&names()).unwrap();
    assert_eq!((after.uuid, after.indexes.len()), (before.uuid, 3));
    assert_eq!(after.options.doc.as_doc(), before.options.doc.as_doc());
    // Both nodes write to it, with blocks of record numbers of their own.
    for id in 0..800 {
        insert(if id % 3 == 0 { &other } else { &store }, id);
    }
    assert_eq!(ids(&store, true), (0..800).collect::<Vec<_>>());
    assert_eq!(ids(&other, false), (0..800).rev().collect::<Vec<_>>());
    for space in [Space::Records, Space::Index] {
        let counts = stripes(&*engine, space);
        assert_eq!(counts.len(), 16, "{space:?} {counts:?}");
        assert!(counts.iter().all(|count| (25..=80).contains(count)), "{space:?} {counts:?}");
    }
    check(&store, &store.collection(&names()).unwrap());
    // The engine has nothing of the old idents but what is dropped in the background.
    store.reindex(&names(), BuildOptions::default()).unwrap();
    assert_eq!(stripes(&*engine, Space::Index).len(), 16, "the rebuilt index has them, too");
    assert_eq!(ids(&other, true), (0..800).collect::<Vec<_>>());
    let again = open(&engine);
    assert_eq!(ids(&again, true), (0..800).collect::<Vec<_>>());
    check(&again, &again.collection(&names()).unwrap());
}

#[test]
fn what_has_documents_is_capped_or_no_collection_stays_as_it_is() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let store = open(&engine);
    assert!(error(store.spread_collection(&names(), 4, false)).starts_with("26: "));
    store.create_collection(&names(), Doc::EMPTY).unwrap();
    insert(&store, 1);
    assert_eq!(store.spread_collection(&names(), 4, false).unwrap(), Spread::HasDocuments);
    assert_eq!(ids(&store, true), [1]);
    let capped = Namespace::parse("d.capped").unwrap();
    store.create_collection(&capped, parse("{capped: true, size: 4096}").as_doc()).unwrap();
    let refused = error(store.spread_collection(&capped, 4, false));
    assert_eq!(refused, "72: can't shard a capped collection");
    let view = Namespace::parse("d.view").unwrap();
    store.create_collection(&view, parse("{viewOn: 'c', pipeline: []}").as_doc()).unwrap();
    assert!(error(store.spread_collection(&view, 4, false)).starts_with("166: "));
    assert!(stripes(&*engine, Space::Records).is_empty());
    // Data without stripes can still be opened by an older server.
    assert_eq!(format(&*engine), 4);
    let embedded: Arc<dyn Engine> = Arc::new(nagi_kv::Memory::new());
    let embedded = Store::open(embedded, StoreOptions::default()).unwrap();
    embedded.create_collection(&names(), Doc::EMPTY).unwrap();
    assert_eq!(embedded.spread_collection(&names(), 4, false).unwrap(), Spread::Impossible);
}

#[test]
fn nothing_is_spread_while_servers_of_two_versions_share_the_data() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let (store, other) = (open(&engine), open(&engine));
    store.create_collection(&names(), Doc::EMPTY).unwrap();
    store.describe_node(doc! { "version": "2" }.as_doc()).unwrap();
    assert_eq!(store.spread_collection(&names(), 4, false).unwrap(), Spread::OtherVersions);
    other.describe_node(doc! { "version": "1" }.as_doc()).unwrap();
    assert_eq!(store.spread_collection(&names(), 4, false).unwrap(), Spread::OtherVersions);
    assert_eq!(format(&*engine), 4);
    other.describe_node(doc! { "version": "2" }.as_doc()).unwrap();
    assert_eq!(store.spread_collection(&names(), 4, false).unwrap(), Spread::Stripes(4));
}

#[test]
fn data_with_stripes_say_so() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let store = open(&engine);
    store.create_collection(&names(), Doc::EMPTY).unwrap();
    assert_eq!(store.spread_collection(&names(), 1, false).unwrap(), Spread::Stripes(2));
    assert_eq!(format(&*engine), 5);
    assert_eq!(store.spread_collection(&names(), 1, false).unwrap(), Spread::Stripes(2));
    store.drop_collection(&names()).unwrap();
    store.create_collection(&names(), Doc::EMPTY).unwrap();
    assert_eq!(
        store.spread_collection(&names(), 1000, false).unwrap(),
        Spread::Stripes(32),
        "the most"
    );
}

#[test]
fn ids_stay_in_order_if_that_is_asked_for() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let store = open(&engine);
    store.create_collection(&names(), Doc::EMPTY).unwrap();
    assert_eq!(store.spread_collection(&names(), 4, true).unwrap(), Spread::Stripes(4));
    (0..100).for_each(|id| drop(insert(&store, id)));
    assert_eq!(stripes(&*engine, Space::Records).len(), 4);
    assert!(stripes(&*engine, Space::Index).is_empty());
    assert_eq!(ids(&store, false), (0..100).rev().collect::<Vec<_>>());
    check(&store, &store.collection(&names()).unwrap());
    store.drop_collection(&names()).unwrap();
    let clustered = parse("{clusteredIndex: {key: {_id: 1}, unique: true, name: 'i'}}");
    store.create_collection(&names(), clustered.as_doc()).unwrap();
    assert_eq!(store.spread_collection(&names(), 4, true).unwrap(), Spread::Clustered);
    assert_eq!(store.spread_collection(&names(), 4, false).unwrap(), Spread::Stripes(4));
    (0..100).for_each(|id| drop(insert(&store, id)));
    assert_eq!(ids(&store, true), (0..100).collect::<Vec<_>>());
    check(&store, &store.collection(&names()).unwrap());
}

/// Entries of single values, some of which are missing, in both directions.
#[test]
fn values_are_found_one_by_one() {
    for options in ["{}", "{clusteredIndex: {key: {_id: 1}, unique: true, name: 'i'}}"] {
        let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
        let store = open(&engine);
        store.create_collection(&names(), parse(options).as_doc()).unwrap();
        store.spread_collection(&names(), 8, false).unwrap();
        (0..400).filter(|id| id % 3 != 0).for_each(|id| drop(insert(&store, id)));
        let collection = store.collection(&names()).unwrap();
        let index = collection.id_index().unwrap();
        let key = |id: i32| {
            let mut key = Vec::new();
            nagi_store::keystring::append(Value::Int32(id), false, &mut key);
            key
        };
        let keys: Vec<Vec<u8>> = (100..300).step_by(2).map(key).collect();
        let values: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let expected: Vec<_> = (100..300).step_by(2).filter(|id| id % 3 != 0).map(key).collect();
        let snapshot = store.snapshot().unwrap();
        for forward in [true, false] {
            let found = snapshot.reader().index_cursor_at(index, forward, &values).unwrap();
            let (mut cursor, mut seen) = (found.unwrap(), Vec::new());
            while cursor.advance().unwrap() {
                seen.push(cursor.key().to_vec());
            }
            if !forward {
                seen.reverse();
            }
            assert_eq!(seen, expected, "{options}");
            // Behind the value, and to one that is not there.
            cursor.seek(&key(201));
            assert!(cursor.advance().unwrap());
            assert_eq!(cursor.key(), if forward { key(202) } else { key(200) });
        }
        let many: Vec<&[u8]> = vec![values[0]; 2000];
        assert!(snapshot.reader().index_cursor_at(index, true, &many).unwrap().is_none());
    }
}

fn format(engine: &dyn Engine) -> u32 {
    let mut buf = Vec::new();
    let found = engine.latest().get(Space::Catalog, &[1, 0, 0, 0, 0], &mut buf).unwrap().unwrap();
    u32::from_le_bytes(found.try_into().unwrap())
}
