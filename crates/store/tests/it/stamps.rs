//! One clock: a state at a stamp has exactly the commits up to it, and the change log has them all.
//!
//! Writers, transactions and DDL run at random, with a change log that says what each of them did. The world at
//! a stamp is what the entries up to it make; every state that a reader took must be that world, and so must
//! the end. So a change that does not pass the door, a commit that is visible before or behind its stamp, and a
//! catalog that does not agree with the data would all show.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use nagi_bson::{Doc, DocBuf, Value, doc, text::doc_text};
use nagi_error::{Code, Result};
use nagi_kv::{Engine, Faults, Faulty, Memory, Point, Space};
use nagi_store::{
    BuildOptions, Change, ChangeLog, Client, Collection, CommitStamp, Durability, IndexSelector,
    Lifetime, Namespace, Rename, Statement, Store, StoreOptions, Transaction, WriteOptions,
};

use crate::{random::Random, support::parse};

/// Documents by `_id`, and the names of the indexes that are ready.
#[derive(Clone, Default, PartialEq, Debug)]
struct Contents {
    docs: BTreeMap<String, String>,
    indexes: BTreeSet<String>,
}

type World = BTreeMap<String, Contents>;

/// An entry is a document: what was before and what is after.
struct Log;

impl ChangeLog for Log {
    fn entry(&self, change: &Change<'_>, by: &Client, entry: &mut Vec<u8>) {
        let statement = by.statement().map_or(-2, |statement: Statement| statement.id);
        let indexes = |collection: &Collection| {
            let ready = collection.ready_indexes().map(|index| index.name().to_owned());
            ready.collect::<Vec<_>>().join(",")
        };
        let built = match *change {
            Change::Document { collection, before, after, .. } => DocBuf::build(|w| {
                w.put("ns", collection.namespace.as_str());
                w.put("statement", statement);
                before.into_iter().for_each(|doc| w.put("before", doc));
                after.into_iter().for_each(|doc| w.put("after", doc));
            }),
            Change::Catalog { before, after } => DocBuf::build(|w| {
                before.into_iter().for_each(|c| w.put("from", c.namespace.as_str()));
                after.into_iter().for_each(|c| w.put("to", c.namespace.as_str()));
                after.into_iter().for_each(|c| w.put("indexes", indexes(c).as_str()));
            }),
        };
        entry.extend_from_slice(built.as_doc().as_bytes());
    }
}

fn id(doc: Doc<'_>) -> String {
    doc.get("_id").to_string()
}

/// Adds what an entry says to the world.
fn apply(world: &mut World, entry: Doc<'_>) {
    if let Some(ns) = entry.get("ns").as_str() {
        let docs = &mut world.get_mut(ns).unwrap_or_else(|| panic!("{ns} is there")).docs;
        if let Some(before) = entry.get("before").as_doc() {
            assert_eq!(docs.remove(&id(before)), Some(doc_text(before)), "{entry}");
        }
        if let Some(after) = entry.get("after").as_doc() {
            assert_eq!(docs.insert(id(after), doc_text(after)), None, "{entry}");
        }
        return;
    }
    let before = entry.get("from").as_str().map(|ns| world.remove(ns).expect("it was there"));
    if let Some(ns) = entry.get("to").as_str() {
        let indexes = entry.get("indexes").as_str().unwrap_or_default();
        let indexes = indexes.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        let contents = Contents { indexes: indexes.collect(), ..before.unwrap_or_default() };
        assert!(world.insert(ns.to_owned(), contents).is_none(), "{entry}");
    }
}

/// The log's entries in their order, with their stamps.
fn entries(engine: &dyn Engine) -> Vec<(u64, DocBuf)> {
    let mut cursor = engine.latest().cursor(Space::Changes, &[], &[]).unwrap();
    let mut found = cursor.seek(&[]).unwrap();
    let mut entries = Vec::new();
    while found {
        let stamp = u64::from_be_bytes(*cursor.key().first_chunk().unwrap());
        entries.push((stamp, Doc::parse(cursor.value()).unwrap().to_buf()));
        found = cursor.next().unwrap();
    }
    entries
}

/// What a handle sees. Fails if its transaction has ended meanwhile.
fn seen(store: &Store) -> Result<World> {
    let catalog = store.catalog();
    let snapshot = store.snapshot()?;
    let mut world = World::new();
    for collection in catalog.iter() {
        let Some(collection) = store.collection(&collection.namespace) else { continue };
        let indexes = collection.ready_indexes().map(|index| index.name().to_owned()).collect();
        let mut contents = Contents { indexes, ..Contents::default() };
        let mut cursor = snapshot.reader().scan(&collection, true)?;
        while cursor.advance()? {
            contents.docs.insert(id(cursor.doc()), doc_text(cursor.doc()));
        }
        world.insert(collection.namespace.as_str().to_owned(), contents);
    }
    Ok(world)
}

fn namespace(random: &mut Random) -> Namespace {
    Namespace::new("d", random.pick(&["a", "b", "x", "y"])).unwrap()
}

/// Inserts, replaces or deletes one document.
fn write(store: &Store, random: &mut Random) -> Result<()> {
    let (key, action) = (random.below(20) as i32, random.below(3));
    let name = namespace(random);
    let new = doc! { "_id": key, "v": (random.next() as i64) };
    let written = store.write(WriteOptions::default(), &mut |txn| {
        let Some(collection) = txn.collection(&name) else { return Ok(()) };
        let found = txn.reader().find_id(&collection, Value::Int32(key))?;
        let Some(record) = found else {
            return txn.attempt(|txn| txn.insert(&collection, new.as_doc())).map(drop);
        };
        let mut buf = nagi_store::RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?.map(|doc| doc.to_buf());
        let Some(old) = old else { return Ok(()) };
        match action {
            0 => txn.delete(&collection, record.key(), old.as_doc()),
            1 => txn.update(&collection, record.key(), old.as_doc(), new.as_doc()),
            // A statement that fails leaves nothing in the log either.
            _ => {
                let failed = txn.attempt(|txn| {
                    txn.delete(&collection, record.key(), old.as_doc())?;
                    nagi_error::bail!(Code::BAD_VALUE, "undone");
                    #[allow(unreachable_code)]
                    Ok(())
                });
                match failed {
                    Err(error) if error.code() == Code::BAD_VALUE => Ok(()),
                    other => other,
                }
            }
        }
    })?;
    assert!(written.stamp.get().is_none_or(|stamp| stamp <= store.last_stamp()));
    Ok(())
}

fn transact(store: &Store, random: &mut Random) -> Result<()> {
    let txn = Transaction::begin(store, Lifetime::Long)?;
    for _ in 0..1 + random.below(3) {
        write(txn.store(), random)?;
    }
    if random.below(4) == 0 {
        let name = namespace(random);
        txn.store().create_collection(&name, Doc::EMPTY)?;
        write(txn.store(), random)?;
    }
    match random.below(4) {
        0 => Ok(()),
        _ => txn.commit(Durability::Buffered).map(drop),
    }
}

fn change_catalog(store: &Store, random: &mut Random) -> Result<()> {
    let name = namespace(random);
    match random.below(5) {
        0 => store.create_collection(&name, Doc::EMPTY).map(drop),
        1 => store.drop_collection(&name).map(drop),
        2 => {
            let options = Rename { drop_target: true, ..Rename::default() };
            store.rename_collection(&name, &namespace(random), options, &|| Ok(()))
        }
        3 => {
            let spec = parse("{key: {v: 1}, name: 'v_1'}");
            store.create_indexes(&name, &[spec.as_doc()], BuildOptions::default()).map(drop)
        }
        _ => store.drop_indexes(&name, IndexSelector::All).map(drop),
    }
}

type Act = fn(&Store, &mut Random) -> Result<()>;

fn run(seed: u64) {
    let engine: Arc<dyn Engine> = Arc::new(Memory::new());
    let options = StoreOptions { change_log: Some(Arc::new(Log)), ..StoreOptions::default() };
    let store = Store::open(Arc::clone(&engine), options).unwrap();
    let views: Mutex<Vec<(CommitStamp, World)>> = Mutex::default();
    let done = AtomicBool::new(false);
    let acts: [(Act, u64); 5] =
        [(write, 300), (write, 300), (transact, 150), (change_catalog, 60), (change_catalog, 60)];
    thread::scope(|scope| {
        let writers: Vec<_> = acts
            .iter()
            .zip(1..)
            .map(|(&(act, count), number)| {
                let store = store.for_client();
                scope.spawn(move || {
                    let mut random = Random::new(seed * 10 + number);
                    // Conflicts, names that are taken or gone: what happens is in the log.
                    (0..count).for_each(|_| drop(act(&store, &mut random)));
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            while !done.load(SeqCst) {
                let state = Transaction::begin(&store, Lifetime::Long).unwrap();
                let world = seen(state.store());
                if let (Ok(world), None) = (world, state.ended()) {
                    views.lock().unwrap().push((state.read_stamp(), world));
                }
            }
        });
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
        reader.join().unwrap();
    });
    let entries = entries(&*engine);
    assert!(entries.iter().is_sorted_by_key(|entry| entry.0));
    let mut views = views.into_inner().unwrap();
    views.push((store.last_stamp(), seen(&store).unwrap()));
    let (mut world, mut rest) = (World::new(), entries.as_slice());
    assert!(views.is_sorted_by_key(|view| view.0));
    for (stamp, seen) in views {
        while let Some(((at, entry), behind)) = rest.split_first()
            && *at <= stamp.0
        {
            apply(&mut world, entry.as_doc());
            rest = behind;
        }
        assert_eq!(seen, world, "seed {seed} at {stamp}");
    }
    assert!(rest.is_empty());
}

#[test]
fn a_state_has_exactly_the_commits_up_to_its_stamp_and_the_log_has_them_all() {
    let cases = std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    (1..=cases).for_each(run);
}

#[test]
fn a_write_tells_its_stamp_also_in_a_transaction() {
    let store = Store::open(Arc::new(Memory::new()), StoreOptions::default()).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    let collection = store.create_collection(&name, Doc::EMPTY).unwrap();
    let created = store.client().committed().expect("DDL commits, too");
    let insert = |store: &Store, id: i32| {
        let doc = doc! { "_id": id };
        let insert = &mut |txn: &mut nagi_store::WriteTxn<'_>| {
            txn.insert(&collection, doc.as_doc()).map(drop)
        };
        store.write(WriteOptions::default(), insert).unwrap().stamp
    };
    let first = insert(&store, 1).get().expect("it is committed");
    assert!(first > created && store.client().committed() == Some(first));
    let txn = Transaction::begin(&store, Lifetime::Long).unwrap();
    assert_eq!(txn.read_stamp(), store.last_stamp());
    let second = insert(txn.store(), 2);
    assert_eq!(second.get(), None);
    let other = store.for_client();
    let third = insert(&other, 3).get().expect("it is committed");
    assert_eq!(
        (other.client().committed(), store.client().committed()),
        (Some(third), Some(first))
    );
    let committed = txn.commit(Durability::Buffered).unwrap();
    assert_eq!((second.get(), committed > third), (Some(committed), true));
    let gone = Transaction::begin(&store, Lifetime::Long).unwrap();
    let never = insert(gone.store(), 4);
    drop(gone);
    assert_eq!(never.get(), None);
}

/// Stamps continue behind those of before although the engine forgets them and the wall clock is behind.
#[test]
fn stamps_grow_across_restarts() {
    let engine: Arc<dyn Engine> = Arc::new(Memory::new());
    let open = || Store::open(Arc::clone(&engine), StoreOptions::default()).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    let store = open();
    store.observe_stamp(CommitStamp(store.greatest_stamp().0 + (1_000 << 32))).unwrap();
    store.create_collection(&name, Doc::EMPTY).unwrap();
    let newest = store.last_stamp();
    drop(store);
    let mut key = [0; 5];
    key[0] = 6;
    let mut buf = Vec::new();
    let limit = engine.latest().get(Space::Catalog, &key, &mut buf).unwrap().unwrap();
    let limit = u64::from_le_bytes(limit.try_into().unwrap());
    assert!(limit > newest.0, "a crash now would lose no stamp");
    let store = open();
    assert!(store.last_stamp().0 >= limit);
    store.close().unwrap();
    let exact = engine.latest().get(Space::Catalog, &key, &mut buf).unwrap().unwrap();
    assert!(u64::from_le_bytes(exact.try_into().unwrap()) < limit + (1 << 32));
}

/// A commit of which no one knows whether it happened has an error of its own, and the counters are right.
#[test]
fn an_undetermined_commit_is_told_and_counted() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
    let store = Store::open(engine, StoreOptions::default()).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    let collection = store.create_collection(&name, Doc::EMPTY).unwrap();
    for (point, count) in [(Point::Committed, 1), (Point::Commit, 1), (Point::Committed, 2)] {
        faults.arm(point, 0, 1, || nagi_kv::Error::Undetermined);
        let doc = doc! { "v": 1 };
        let error = store.write(WriteOptions::default(), &mut |txn| {
            txn.insert(&collection, doc.as_doc()).map(drop)
        });
        let error = error.map(drop).unwrap_err();
        assert_eq!((error.code().0, collection.count()), (11602, count), "{error}");
        let mut cursor = store.latest().scan(&collection, true).unwrap();
        let mut found = 0;
        while cursor.advance().unwrap() {
            found += 1;
        }
        assert_eq!(found, count);
    }
}
