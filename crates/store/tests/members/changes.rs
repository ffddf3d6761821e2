//! Changes of the catalog over several nodes: after the answer every node has them, no writer misses one, and none is
//! lost with a node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use nagi_bson::{Doc, DocBuf, Value, doc};
use nagi_error::Result;
use nagi_kv::{Engine, Error, Faults, Faulty, Minimal, Point, Space};
use nagi_store::{
    BuildOptions, CollMod, Collection, IndexSelector, Namespace, NodeMode, OnLost, RecordBuf,
    Rename, Store, StoreOptions, WriteOptions, WriteTxn,
};

use crate::{
    random::Random,
    several::open,
    support::{error, parse, seat_count},
};

fn name(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

pub(crate) fn insert(store: &Store, namespace: &Namespace, doc: &DocBuf) -> Result<()> {
    let collection = store.collection_or_create(namespace)?;
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc()).map(drop);
    store.write(WriteOptions::default(), insert).map(drop)
}

fn index(store: &Store, namespace: &Namespace, spec: &str) -> Result<()> {
    let spec = parse(spec);
    store.create_indexes(namespace, &[spec.as_doc()], BuildOptions::default()).map(drop)
}

fn indexes(store: &Store, namespace: &Namespace) -> String {
    let collection = store.collection(namespace).unwrap();
    let shown = |index: &Arc<nagi_store::Index>| {
        format!("{}{}", index.name(), if index.ready { "" } else { "?" })
    };
    collection.indexes.iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn check_valid(store: &Store, namespace: &Namespace) -> i64 {
    let report = store.validate(&store.collection(namespace).unwrap()).unwrap();
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    report.record_count
}

/// Waits for something that happens in the background.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} has not happened in a minute");
        thread::yield_now();
    }
}

/// A node that can be killed: nothing of it reaches the engine any more.
pub(crate) struct Mortal {
    pub(crate) store: Arc<Store>,
    pub(crate) faults: Faults,
    is_told: Arc<AtomicBool>,
}

impl Mortal {
    pub(crate) fn open(on: &Arc<Minimal>, name: &str) -> Mortal {
        Mortal::with_lease(on, name, 3)
    }

    fn with_lease(on: &Arc<Minimal>, name: &str, seconds: u32) -> Mortal {
        let (faults, is_told) = (Faults::default(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&is_told);
        let mut options: StoreOptions = crate::options();
        options.node.name = name.to_owned();
        options.node.lease_seconds = seconds;
        options.node.on_lost = OnLost::new(move || told.store(true, SeqCst));
        let faulty = Faulty::new(Arc::clone(on) as Arc<dyn Engine>, faults.clone());
        Mortal { store: Store::open(Arc::new(faulty), options).unwrap(), faults, is_told }
    }

    pub(crate) fn kill(&self) {
        for point in [Point::Begin, Point::Get, Point::Commit] {
            self.faults.arm(point, 0, u64::MAX, || Error::other("killed"));
        }
    }

    /// It was paused only.
    fn revive(&self) {
        self.faults.disarm();
    }
}

#[test]
fn a_change_is_seen_by_every_node_when_it_is_answered() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1), open(&engine, 2)];
    let (first, second) = (name("d.c"), name("d.other"));
    nodes[0].create_collection(&first, Doc::EMPTY).unwrap();
    for node in &nodes {
        assert!(node.collection(&first).is_some());
    }
    insert(&nodes[1], &first, &doc! { "_id": 1, "a": 5 }).unwrap();
    index(&nodes[2], &first, "{key: {a: 1}, name: 'a', unique: true}").unwrap();
    for (number, node) in nodes.iter().enumerate() {
        assert_eq!(indexes(node, &first), "_id_ a");
        let twin = insert(node, &first, &doc! { "_id": 100, "a": 5 });
        assert_eq!(error(twin).split(':').next(), Some("11000"));
        insert(node, &first, &doc! { "_id": (10 + number as i32), "a": (10 + number as i32) })
            .unwrap();
    }
    let validator = parse("{a: {$lt: 100}}");
    let changes = CollMod { validator: Some(validator.as_doc()), ..CollMod::default() };
    nodes[0].coll_mod(&first, changes).unwrap();
    for node in &nodes {
        let invalid = insert(node, &first, &doc! { "_id": 7, "a": 100 });
        assert_eq!(error(invalid).split(':').next(), Some("121"));
    }
    let old = nodes[2].collection(&first).unwrap();
    nodes[1].rename_collection(&first, &second, Rename::default(), &|| Ok(())).unwrap();
    for node in &nodes {
        assert!(node.collection(&first).is_none());
        assert_eq!(indexes(node, &second), "_id_ a");
    }
    let write =
        &mut |txn: &mut WriteTxn<'_>| txn.insert(&old, doc! { "_id": 8 }.as_doc()).map(drop);
    let renamed = nodes[2].write(WriteOptions::default(), write).map(drop);
    assert_eq!(error(renamed).split(':').next(), Some("175"), "a handle of the old name");
    nodes[2].drop_indexes(&second, IndexSelector::Name("a")).unwrap();
    for node in &nodes {
        assert_eq!(indexes(node, &second), "_id_");
        insert(node, &second, &doc! { "a": 5 }).unwrap();
        assert_eq!(check_valid(node, &second), check_valid(&nodes[0], &second));
    }
    assert!(nodes[1].drop_database("d").unwrap());
    for node in &nodes {
        assert_eq!(node.catalog().iter().count(), 0);
        assert_eq!(node.drop_collection(&second).unwrap().map(|c| c.uuid), None);
    }
}

/// More than the board lists: the whole catalog is read.
#[test]
fn changes_of_many_collections_are_followed() {
    const COUNT: usize = 300;
    let engine = Arc::new(Minimal::new());
    let first = open(&engine, 0);
    for n in 0..COUNT {
        first.create_collection(&name(&format!("d.c{n}")), Doc::EMPTY).unwrap();
    }
    insert(&first, &name("e.c"), &doc! { "_id": 1 }).unwrap();
    let second = open(&engine, 1);
    assert_eq!(second.catalog().iter().count(), COUNT + 1);
    let kept = second.collection(&name("e.c")).unwrap();
    first.drop_database("d").unwrap();
    assert_eq!(second.catalog().iter().count(), 1);
    assert!(second.is_newest(&kept), "it has not changed");
    insert(&second, &name("d.c1"), &doc! { "_id": 1 }).unwrap();
    assert_eq!(check_valid(&first, &name("d.c1")), 1);
}

#[test]
fn views_and_time_series_are_those_of_all_nodes() {
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1)];
    let (series, view) = (name("d.s"), name("d.v"));
    let options = parse("{timeseries: {timeField: 't', metaField: 'm'}}");
    nodes[0].create_collection(&series, options.as_doc()).unwrap();
    let options = parse("{viewOn: 'c', pipeline: [{$match: {a: 1}}]}");
    nodes[1].create_collection(&view, options.as_doc()).unwrap();
    assert!(nodes[0].collection(&view).unwrap().is_view());
    let pipeline = parse("{p: [{$match: {a: 2}}]}");
    let changes = CollMod { pipeline: pipeline.get("p").as_array(), ..CollMod::default() };
    nodes[0].coll_mod(&view, changes).unwrap();
    let shown = nodes[1].collection(&view).unwrap().options.doc.as_doc().to_string();
    assert!(shown.contains("a: 2"), "{shown}");
    let buckets = nodes[1].buckets_of(&series).unwrap();
    let time = Value::DateTime(5000);
    let bucket = doc! {
        "_id": (Value::ObjectId(&[0; 12])),
        "control": { "version": 2, "min": { "t": time }, "max": { "t": time }, "count": 1 },
        "data": {},
    };
    let facts = || nodes[0].buckets_of(&series).unwrap().bucket_facts();
    assert!(facts().id_range(Some(7), None).is_some());
    let write = &mut |txn: &mut WriteTxn<'_>| txn.insert(&buckets, bucket.as_doc()).map(drop);
    nodes[1].write(WriteOptions::default(), write).unwrap();
    // Its id is not its begin: known to the other node, too.
    assert!(facts().id_range(Some(7), None).is_none());
    nodes[0].drop_collection(&series).unwrap();
    nodes[0].drop_collection(&view).unwrap();
    assert_eq!(nodes[1].catalog().iter().count(), 0);
}

/// Nodes insert into collections that none of them knows: each is created once.
#[test]
fn a_collection_that_several_nodes_create_at_once_is_one() {
    const NAMES: i32 = 12;
    let engine = Arc::new(Minimal::new());
    let nodes = [open(&engine, 0), open(&engine, 1), open(&engine, 2)];
    thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                for n in 0..NAMES {
                    let doc = doc! { "_id": (number as i32) };
                    insert(node, &name(&format!("d.c{n}")), &doc).unwrap();
                }
            });
        }
    });
    for n in 0..NAMES {
        let namespace = name(&format!("d.c{n}"));
        let uuids = nodes.each_ref().map(|node| node.collection(&namespace).unwrap().uuid);
        assert!(uuids.iter().all(|uuid| *uuid == uuids[0]));
        assert_eq!(check_valid(&nodes[0], &namespace), 3);
    }
    assert_eq!(nodes[0].catalog().iter().count(), NAMES as usize);
    // Names that differ only in case are refused wherever they come from.
    let refused = error(insert(&nodes[1], &name("D.x"), &doc! { "_id": 1 }));
    assert!(refused.starts_with("13297"), "{refused}");
}

/// One writer on a node: inserts, updates and deletes documents of its own.
fn write_on(store: &Store, namespace: &Namespace, writer: i32, ends: &AtomicBool) -> Result<i32> {
    let (mut random, mut count) = (Random::new(writer as u64 + 1), 0);
    while !ends.load(SeqCst) {
        let id = writer * 1000 + random.below(50) as i32;
        let a = random.below(1000) as i32;
        let new = match random.below(3) {
            0 => doc! { "_id": id, "a": a, "b": (id), "t": [1, a] },
            _ => doc! { "_id": id, "a": a, "b": (id) },
        };
        let removes = random.below(4) == 0;
        let Some(collection) = store.collection(namespace) else { continue };
        let write = &mut |txn: &mut WriteTxn<'_>| -> Result<()> {
            let found = txn.reader().find_id(&collection, Value::Int32(id))?;
            let mut buf = RecordBuf::default();
            let old = match &found {
                Some(found) => txn.reader().record(&collection, found.key(), &mut buf)?,
                None => None,
            };
            let old = old.map(|old| old.to_buf());
            match (found, old) {
                (Some(found), Some(old)) if removes => {
                    txn.delete(&collection, found.key(), old.as_doc())
                }
                (Some(found), Some(old)) => {
                    txn.update(&collection, found.key(), old.as_doc(), new.as_doc())
                }
                _ => txn.insert(&collection, new.as_doc()).map(drop),
            }
        };
        match store.write(WriteOptions::default(), write) {
            Ok(_) => count += 1,
            Err(error) if error.code().0 == 175 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Indexes come and go on all nodes while all nodes write: no entry is missing, and none too many.
#[test]
fn writers_of_all_nodes_keep_indexes_that_are_built_and_dropped_beside_them() {
    const ROUNDS: usize = 4;
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let nodes = [open(&engine, 0), open(&engine, 1), open(&engine, 2)];
    nodes[0].create_collection(&namespace, Doc::EMPTY).unwrap();
    // Enough for a build from sorted keys.
    for id in 0..1200 {
        insert(&nodes[0], &namespace, &doc! { "_id": (10_000 + id), "a": id, "b": (10_000 + id) })
            .unwrap();
    }
    until("the count", || nodes[2].collection(&namespace).unwrap().count() == 1200);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (node, namespace, ends) = (&nodes[writer as usize % 3], &namespace, &ends);
                scope.spawn(move || write_on(node, namespace, writer, ends).unwrap())
            })
            .collect();
        let changed = (0..ROUNDS).try_for_each(|round| -> Result<()> {
            let node = &nodes[round % 3];
            index(node, &namespace, "{key: {a: 1}, name: 'a'}")?;
            index(node, &namespace, "{key: {b: 1}, name: 'b', unique: true}")?;
            index(node, &namespace, "{key: {t: 1}, name: 't'}")?;
            check_valid(&nodes[(round + 1) % 3], &namespace);
            let other = &nodes[(round + 2) % 3];
            if round < ROUNDS - 1 {
                other.drop_indexes(&namespace, IndexSelector::Names(vec!["a", "t"]))?;
                other.drop_indexes(&namespace, IndexSelector::Name("b"))?;
            }
            Ok(())
        });
        ends.store(true, SeqCst);
        let counts: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        changed.unwrap();
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    });
    for node in &nodes {
        assert_eq!(indexes(node, &namespace), "_id_ a b t");
        check_valid(node, &namespace);
    }
}

/// A unique index is built while other nodes write keys that are there already, and take them away again.
#[test]
fn a_unique_build_finds_the_duplicates_of_writers_of_other_nodes() {
    let engine = Arc::new(Minimal::new());
    for size in [300, 1500] {
        let namespace = name(&format!("d.c{size}"));
        let nodes = [open(&engine, 0), open(&engine, 1)];
        for id in 0..size {
            insert(&nodes[0], &namespace, &doc! { "_id": id, "u": id }).unwrap();
        }
        for is_kept in [true, false] {
            let once = AtomicI32::new(0);
            let act = |_: &'static str, done: i64, _: i64| {
                // Behind the keys that are in the index.
                if done < 100 || once.fetch_add(1, SeqCst) > 0 {
                    return;
                }
                insert(&nodes[1], &namespace, &doc! { "_id": "twin", "u": 3 }).unwrap();
                if !is_kept {
                    let collection = nodes[1].collection(&namespace).unwrap();
                    let delete = &mut |txn: &mut WriteTxn<'_>| -> Result<()> {
                        let found =
                            txn.reader().find_id(&collection, Value::String("twin"))?.unwrap();
                        let twin = doc! { "_id": "twin", "u": 3 };
                        txn.delete(&collection, found.key(), twin.as_doc())
                    };
                    nodes[1].write(WriteOptions::default(), delete).unwrap();
                }
            };
            let spec = parse("{key: {u: 1}, name: 'u', unique: true}");
            let options = BuildOptions { progress: Some(&act), ..BuildOptions::default() };
            let built = nodes[0].create_indexes(&namespace, &[spec.as_doc()], options).map(drop);
            assert!(once.load(SeqCst) > 0);
            match is_kept {
                true => assert!(error(built).starts_with("11000: Index build failed")),
                false => built.unwrap(),
            }
            check_valid(&nodes[1], &namespace);
            if is_kept {
                assert_eq!(indexes(&nodes[1], &namespace), "_id_");
                let collection = nodes[0].collection(&namespace).unwrap();
                let delete = &mut |txn: &mut WriteTxn<'_>| -> Result<()> {
                    let found = txn.reader().find_id(&collection, Value::String("twin"))?.unwrap();
                    let twin = doc! { "_id": "twin", "u": 3 };
                    txn.delete(&collection, found.key(), twin.as_doc())
                };
                nodes[0].write(WriteOptions::default(), delete).unwrap();
            }
        }
        assert_eq!(indexes(&nodes[1], &namespace), "_id_ u");
        let twin = insert(&nodes[1], &namespace, &doc! { "_id": "twin", "u": 3 });
        assert!(error(twin).starts_with("11000"));
    }
}

/// Before the first array is visible, each node knows that there may be one.
#[test]
fn paths_with_arrays_are_known_to_every_node_before_the_write() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let nodes = [open(&engine, 0), open(&engine, 1)];
    index(&nodes[0], &namespace, "{key: {a: 1, 'b.c': 1}, name: 'i'}").unwrap();
    let known = |node: &Store| {
        let collection: Arc<Collection> = node.collection(&namespace).unwrap();
        let index = collection.index("i").unwrap();
        (index.multikey_components(0), index.multikey_components(1))
    };
    insert(&nodes[1], &namespace, &doc! { "_id": 1, "a": 1 }).unwrap();
    assert_eq!((known(&nodes[0]), known(&nodes[1])), ((0, 0), (0, 0)));
    let before = nodes[0].collection(&namespace).unwrap();
    insert(&nodes[1], &namespace, &doc! { "_id": 2, "a": [1, 2] }).unwrap();
    assert_eq!(known(&nodes[0]), (1, 0));
    insert(&nodes[0], &namespace, &parse("{_id: 3, b: [{c: 1}, {c: 2}]}")).unwrap();
    assert_eq!((known(&nodes[0]), known(&nodes[1])), ((1, 1), (1, 1)));
    assert!(nodes[0].is_newest(&before), "plans of the collection stay");
    let third = open(&engine, 2);
    assert_eq!(known(&third), (1, 1));
    check_valid(&third, &namespace);
}

#[test]
fn counts_follow_those_of_other_nodes_and_are_exact_for_the_own() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let nodes = [open(&engine, 0), open(&engine, 1)];
    insert(&nodes[0], &namespace, &doc! { "_id": 0 }).unwrap();
    let [first, second] = nodes.each_ref().map(|node| node.collection(&namespace).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            (1..500).for_each(|id| insert(&nodes[1], &namespace, &doc! { "_id": id }).unwrap());
        });
        // Whatever is read of the other node meanwhile, the own documents are counted once.
        let end = Instant::now() + Duration::from_secs(7);
        let mut own = 1;
        while Instant::now() < end {
            insert(&nodes[0], &namespace, &doc! { "_id": (-own) }).unwrap();
            own += 1;
            assert!((i64::from(own)..i64::from(own) + 500).contains(&first.count()));
        }
    });
    let count = check_valid(&nodes[0], &namespace);
    until("the count", || first.count() == count && second.count() == count);
    until("the size", || first.data_bytes() == second.data_bytes());
    drop(nodes);
    until("the end of the nodes", || seat_count(&*engine) == 0);
    let third = open(&engine, 2);
    assert_eq!(third.collection(&namespace).unwrap().count(), count);
}

/// A node dies with the lock of the catalog, or with an intent on the board: after its lease others go on, and it
/// cannot write any more when it is back.
#[test]
fn a_node_that_dies_in_a_change_of_the_catalog_holds_no_other_up_for_longer_than_its_lease() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let living = open(&engine, 0);
    insert(&living, &namespace, &doc! { "_id": 0, "a": 0 }).unwrap();
    let mut round = 0;
    // Commits of the change: lock, intents and so on. It ends when the change is successful.
    loop {
        let dying = Mortal::open(&engine, "dying");
        dying.faults.arm(Point::Commit, round, u64::MAX, || Error::other("killed"));
        let done = index(&dying.store, &namespace, "{key: {a: 1}, name: 'a'}");
        dying.kill();
        let begun = Instant::now();
        insert(&living, &namespace, &doc! { "_id": (1 + round as i32), "a": 1 }).unwrap();
        living.create_collection(&name(&format!("d.n{round}")), Doc::EMPTY).unwrap();
        index(&living, &namespace, "{key: {b: 1}, name: 'b'}").unwrap();
        living.drop_indexes(&namespace, IndexSelector::Name("b")).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{round}");
        // What it has built is built by the other one, or was not begun.
        until("the build", || !indexes(&living, &namespace).contains('?'));
        check_valid(&living, &namespace);
        dying.revive();
        let late = insert(&dying.store, &namespace, &doc! { "_id": -1 });
        assert_eq!(error(late).split(':').next(), Some("91"), "{round}");
        assert!(dying.is_told.load(SeqCst));
        if indexes(&living, &namespace).contains(" a") {
            living.drop_indexes(&namespace, IndexSelector::Name("a")).unwrap();
        }
        if done.is_ok() {
            break;
        }
        round += 1;
    }
    assert!(round > 3, "{round}");
}

/// A node that has begun to build an index dies: another one builds it.
#[test]
fn an_index_whose_node_dies_is_built_by_another() {
    let engine = Arc::new(Minimal::new());
    for size in [300, 1500] {
        let namespace = name(&format!("d.c{size}"));
        let living = open(&engine, 0);
        for id in 0..size {
            insert(&living, &namespace, &doc! { "_id": id, "u": id }).unwrap();
        }
        let dying = Mortal::open(&engine, "dying");
        until("the count", || {
            dying.store.collection(&namespace).unwrap().count() == i64::from(size)
        });
        let dies = |_: &'static str, done: i64, _: i64| {
            if done >= 100 {
                dying.kill();
            }
        };
        let spec = parse("{key: {u: 1}, name: 'u', unique: true}");
        let options = BuildOptions { progress: Some(&dies), ..BuildOptions::default() };
        assert!(dying.store.create_indexes(&namespace, &[spec.as_doc()], options).is_err());
        assert_eq!(indexes(&living, &namespace), "_id_ u?");
        insert(&living, &namespace, &doc! { "_id": -1, "u": -1 }).unwrap();
        until("the build", || indexes(&living, &namespace) == "_id_ u");
        assert_eq!(check_valid(&living, &namespace), i64::from(size) + 1);
        dying.revive();
    }
}

/// A node is stopped for longer than its lease, with a write that it has begun with an old version of a collection.
#[test]
fn a_node_that_was_stopped_cannot_write_with_an_old_version() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let living = open(&engine, 0);
    insert(&living, &namespace, &doc! { "_id": 0, "a": 0 }).unwrap();
    let stopped = Mortal::open(&engine, "stopped");
    let collection = stopped.store.collection(&namespace).unwrap();
    let write = &mut |txn: &mut WriteTxn<'_>| -> Result<()> {
        txn.insert(&collection, doc! { "_id": 1, "a": 1 }.as_doc())?;
        // Its keys are staged, without those of the index that the other node builds meanwhile.
        stopped.kill();
        index(&living, &namespace, "{key: {a: 1}, name: 'a'}")?;
        stopped.revive();
        Ok(())
    };
    let late = stopped.store.write_once(WriteOptions::default(), write).map(drop);
    assert_eq!(error(late).split(':').next(), Some("112"), "its fence was written");
    let later = insert(&stopped.store, &namespace, &doc! { "_id": 2 });
    assert_eq!(error(later).split(':').next(), Some("91"));
    assert_eq!(check_valid(&living, &namespace), 1);
}

/// What a node says in its seat: the number of intents on whose collections it has no writers.
fn closed(engine: &Minimal, node: &str) -> usize {
    let mut cursor = engine.latest().cursor(Space::Catalog, &[11], &[12]).unwrap();
    let mut found = cursor.seek(&[11]).unwrap();
    while found {
        let seat = Doc::parse_wrapped(cursor.value()).unwrap();
        if seat.get("name") == Value::String(node) {
            return seat.get("closed").as_array().unwrap().iter().count();
        }
        found = cursor.next().unwrap();
    }
    panic!("no seat of {node}")
}

/// From the moment when a node has said that it has no writers until it has the new version, it lets none in. Here the
/// change takes as long as the lease of a third node, which is dead.
#[test]
fn writers_are_kept_out_until_their_node_has_the_new_version() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let nodes = [open(&engine, 0), open(&engine, 1)];
    insert(&nodes[0], &namespace, &doc! { "_id": 0, "a": 0 }).unwrap();
    // So that the one below does not create it, which waits for the change.
    insert(&nodes[0], &name("d.other"), &doc! { "_id": 0 }).unwrap();
    let dead = Mortal::with_lease(&engine, "dead", 20);
    dead.kill();
    thread::scope(|scope| {
        let changing = scope.spawn(|| index(&nodes[0], &namespace, "{key: {a: 1}, name: 'a'}"));
        until("the answer", || closed(&engine, "node 1") > 0);
        insert(&nodes[1], &name("d.other"), &doc! { "_id": 1 }).unwrap();
        assert_eq!(indexes(&nodes[1], &namespace), "_id_");
        insert(&nodes[1], &namespace, &doc! { "_id": 1, "a": 1 }).unwrap();
        assert!(indexes(&nodes[1], &namespace).starts_with("_id_ a"));
        changing.join().unwrap().unwrap();
    });
    assert_eq!(check_valid(&nodes[0], &namespace), 2);
    assert_eq!(closed(&engine, "node 1"), 0);
}

/// A change waits for a writer that another node has let in before.
#[test]
fn a_change_waits_for_the_writers_of_other_nodes() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let nodes = [open(&engine, 0), open(&engine, 1)];
    insert(&nodes[0], &namespace, &doc! { "_id": 0 }).unwrap();
    let collection = nodes[1].collection(&namespace).unwrap();
    thread::scope(|scope| {
        let mut dropping = None;
        let write = &mut |txn: &mut WriteTxn<'_>| -> Result<()> {
            txn.insert(&collection, doc! { "_id": 1 }.as_doc())?;
            dropping = Some(
                scope.spawn(|| nodes[0].drop_collection(&namespace).map(|gone| gone.is_some())),
            );
            // New writers are kept out already, and the change is not made.
            let other = doc! { "_id": 2 };
            until("the intent", || {
                let refused = nodes[1].write_once(WriteOptions::default(), &mut |txn| {
                    txn.insert(&collection, other.as_doc()).map(drop)
                });
                refused.is_err_and(|error| error.code().0 == 112)
            });
            assert!(nodes[0].collection(&namespace).is_some());
            Ok(())
        };
        nodes[1].write_once(WriteOptions::default(), write).unwrap();
        assert!(dropping.unwrap().join().unwrap().unwrap());
    });
    assert!(nodes[1].collection(&namespace).is_none());
}

/// The data are one node's alone, or those of several; what is refused says so.
#[test]
fn modes_are_not_mixed() {
    let engine = Arc::new(Minimal::new());
    let with = |mode, name: &str| {
        let mut options = crate::options();
        (options.node.mode, options.node.waits) = (mode, false);
        options.node.name = name.to_owned();
        Store::open(Arc::clone(&engine) as Arc<dyn Engine>, options)
    };
    let alone = with(NodeMode::Sole, "one:1").unwrap();
    insert(&alone, &name("d.c"), &doc! { "_id": 1 }).unwrap();
    assert_eq!(
        error(with(NodeMode::Member, "two:2")),
        "98: another node owns the data: one:1. It does not share them"
    );
    alone.close().unwrap();
    let member = with(NodeMode::Member, "two:2").unwrap();
    assert!(insert(&alone, &name("d.c"), &doc! { "_id": 2 }).is_err());
    insert(&member, &name("d.c"), &doc! { "_id": 3 }).unwrap();
    assert_eq!(
        error(with(NodeMode::Sole, "three:3")),
        "98: several nodes share the data, one of them is two:2: this one would own them alone"
    );
    let other = with(NodeMode::Member, "four:4").unwrap();
    assert_eq!(seat_count(&*engine), 2);
    member.close().unwrap();
    other.close().unwrap();
    let alone = with(NodeMode::Sole, "three:3").unwrap();
    assert_eq!(check_valid(&alone, &name("d.c")), 2);
    assert_eq!(alone.collection(&name("d.c")).unwrap().count(), 2);
}

#[test]
fn one_node_deletes_what_has_expired() {
    let engine = Arc::new(Minimal::new());
    let namespace = name("d.c");
    let nodes = [open(&engine, 0), open(&engine, 1)];
    index(&nodes[1], &namespace, "{key: {at: 1}, name: 'at', expireAfterSeconds: 1}").unwrap();
    insert(&nodes[1], &namespace, &doc! { "_id": 1, "at": (Value::DateTime(0)) }).unwrap();
    let go_on = || Ok(());
    until("the election", || nodes[0].expire(1_000_000, &go_on).unwrap() == 1);
    insert(&nodes[1], &namespace, &doc! { "_id": 2, "at": (Value::DateTime(0)) }).unwrap();
    assert_eq!(nodes[1].expire(1_000_000, &go_on).unwrap(), 0);
    // The next one takes over.
    nodes[0].close().unwrap();
    until("the election", || nodes[1].expire(1_000_000, &go_on).unwrap() == 1);
}
