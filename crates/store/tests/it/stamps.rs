//! One clock: a snapshot at a stamp contains exactly the commits up to it, and the change log has all of them.
//!
//! Writers, transactions and DDL run at random, with a change log that records their changes. The world at a stamp
//! is the result of the entries up to it; every snapshot that a reader took must equal that world, and so must the
//! final state. So the test detects a change that bypasses the hook, a commit that is visible before or after its
//! stamp, and a catalog that is inconsistent with the data.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use nagi_bson::{Doc, doc};
use nagi_kv::{Engine, Faults, Faulty, Memory, Point, Space};
use nagi_store::{
    CommitStamp, Durability, Lifetime, Namespace, Store, StoreOptions, Transaction, WriteOptions,
};

use crate::{
    history::{Act, Log, World, apply, change_catalog, entries, seen, transact, write},
    random::Random,
};

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
                    // Errors (conflicts, names that exist or are missing) are ignored: the log shows what happened.
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

/// Stamps continue after those of before the restart although the engine forgets them and the wall clock is behind.
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

/// A commit whose outcome is unknown has its own error, and the counters are correct.
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
