//! A node that owns the data by a lease: which node gets in, what the former node may still do after a takeover, and
//! what becomes of commits whose outcome is unknown.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    thread,
};

use nagi_bson::{Doc, Value, doc};
use nagi_error::Result;
use nagi_kv::{Engine, Error, Faults, Faulty, Minimal, Point, Space, TxnOptions};
use nagi_store::{
    CommitStamp, Durability, Lifetime, Namespace, NodeOptions, OnLost, RecordBuf, Store,
    StoreOptions, Transaction, WriteOptions, WriteTxn,
};

use crate::support::{Fixture, error, parse, pass};

fn options(name: &str) -> StoreOptions {
    let node = NodeOptions { name: name.to_owned(), waits: false, ..NodeOptions::default() };
    StoreOptions { node, ..StoreOptions::default() }
}

fn put(store: &Store, namespace: &Namespace, id: i32) -> Result<()> {
    let collection = store.collection_or_create(namespace)?;
    let doc = doc! { "_id": id };
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc()).map(drop);
    store.write(WriteOptions::default(), insert).map(drop)
}

fn ids(store: &Store, namespace: &Namespace) -> Vec<i32> {
    let collection = store.collection(namespace).unwrap();
    let mut cursor = store.latest().scan(&collection, true).unwrap();
    let mut ids = Vec::new();
    while cursor.advance().unwrap() {
        ids.extend(match cursor.doc().get("_id") {
            Value::Int32(id) => Some(id),
            _ => None,
        });
    }
    ids
}

/// The number of parts of all counters.
fn parts(engine: &dyn Engine) -> usize {
    let mut cursor = engine.latest().cursor(Space::Counters, &[], &[]).unwrap();
    let (mut count, mut found) = (0, cursor.seek(&[]).unwrap());
    while found {
        let is_fence = cursor.key().starts_with(&(u32::MAX - 3).to_be_bytes());
        count += usize::from(!is_fence);
        found = cursor.next().unwrap();
    }
    count
}

#[test]
fn a_second_node_is_refused_while_the_first_lives_and_let_in_after_it_has_left() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let first = Store::open(Arc::clone(&engine), options("one:27017")).unwrap();
    let second = Store::open(Arc::clone(&engine), options("two:27017"));
    assert_eq!(error(second), "98: another node owns the data: one:27017. It does not share them");
    let name = Namespace::parse("d.c").unwrap();
    put(&first, &name, 1).unwrap();
    first.close().unwrap();
    assert!(put(&first, &name, 2).is_err(), "it has left");
    let second = Store::open(engine, options("two:27017")).unwrap();
    assert_eq!(ids(&second, &name), [1]);
    drop(first);
    put(&second, &name, 2).unwrap();
}

/// It waits for the end of the lease, but not if the lease is renewed meanwhile.
#[test]
fn a_node_that_waits_is_refused_when_it_sees_that_the_other_one_lives() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let waits = |seconds| StoreOptions {
        node: NodeOptions { name: "n".into(), lease_seconds: seconds, ..NodeOptions::default() },
        ..StoreOptions::default()
    };
    let first = Store::open(Arc::clone(&engine), waits(3)).unwrap();
    let second = Store::open(Arc::clone(&engine), waits(3));
    assert!(error(second).starts_with("98: "));
    drop(first);
}

#[test]
fn a_node_that_waits_gets_in_when_the_lease_of_one_that_was_killed_ends() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let killed: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::clone(&engine), faults.clone()));
    let first = Store::open(killed, options("one")).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    put(&first, &name, 1).unwrap();
    // Nothing of it reaches the engine any more, not even that it leaves.
    faults.arm(Point::Begin, 0, u64::MAX, || Error::other("killed"));
    drop(first);
    let waiting = thread::spawn({
        let engine = Arc::clone(&engine);
        move || Store::open(engine, StoreOptions::default()).unwrap()
    });
    while !waiting.is_finished() {
        pass(&*engine, 1);
        thread::yield_now();
    }
    let second = waiting.join().unwrap();
    assert_eq!(ids(&second, &name), [1]);
    assert_eq!(second.collection(&name).unwrap().count(), 1);
    put(&second, &name, 2).unwrap();
}

/// The process is told once that another node has taken over; never that it has left in good order.
#[test]
fn a_node_is_told_of_a_takeover() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let told = Arc::new(AtomicI64::new(0));
    let node = |name: &str| {
        let told = Arc::clone(&told);
        let on_lost = OnLost::new(move || {
            told.fetch_add(1, SeqCst);
        });
        let mut options = options(name);
        options.node.on_lost = on_lost;
        Store::open(Arc::clone(&engine), options).unwrap()
    };
    let first = node("one");
    first.close().unwrap();
    let second = node("two");
    pass(&*engine, 20);
    let third = node("three");
    assert_eq!(told.load(SeqCst), 0, "it has not asked yet");
    let name = Namespace::parse("d.c").unwrap();
    for _ in 0..2 {
        assert_eq!(error(put(&second, &name, 1)).split(':').next(), Some("91"));
    }
    assert_eq!(told.load(SeqCst), 1);
    put(&third, &name, 1).unwrap();
    drop((first, second, third));
    assert_eq!(told.load(SeqCst), 1);
}

/// Each write of a node is either seen by the node that takes over, or refused.
#[test]
fn after_a_takeover_the_former_node_commits_nothing() {
    let mut f = Fixture::new();
    f.insert("{_id: 1}").unwrap();
    let in_flight = Transaction::begin(&f.store, Lifetime::Long).unwrap();
    put(in_flight.store(), &f.namespace, 2).unwrap();
    let committed = Transaction::begin(&f.store, Lifetime::Long).unwrap();
    put(committed.store(), &f.namespace, 3).unwrap();
    committed.commit(Durability::Buffered).unwrap();
    let second = f.take_over();
    assert_eq!(ids(&second, &f.namespace), [1, 3]);
    // Its snapshot is within the former lease: the fence refuses it.
    assert_eq!(error(in_flight.commit(Durability::Buffered)).split(':').next(), Some("112"));
    let late = f.insert("{_id: 4}");
    assert_eq!(
        error(late),
        "91: The server is in quiesce mode and will shut down: another node has taken over the data"
    );
    assert_eq!(error(f.store.snapshot().map(drop)).split(':').next(), Some("91"));
    let reads = f.store.find_by_id(&f.collection(), Value::Int32(1), &mut Vec::new()).map(drop);
    assert_eq!(error(reads).split(':').next(), Some("91"));
    assert_eq!(
        error(f.store.drop_collection(&f.namespace).map(drop)).split(':').next(),
        Some("91")
    );
    put(&second, &f.namespace, 5).unwrap();
    assert_eq!(ids(&second, &f.namespace), [1, 3, 5]);
    // It must not end the other node's lease either.
    drop(in_flight);
    drop(committed);
    f.close();
    put(&second, &f.namespace, 6).unwrap();
    f.store = second;
    f.check_valid();
}

/// Writers of a node race with the takeover: what they were told is what the other node finds.
#[test]
fn a_takeover_loses_no_acknowledged_write_and_admits_no_late_one() {
    for round in 0..20 {
        let f = Fixture::new();
        thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|writer| {
                    let f = &f;
                    scope.spawn(move || {
                        let ids = (0..10_000).map(|n| n * 3 + writer);
                        ids.take_while(|id| f.insert(&format!("{{_id: {id}}}")).is_ok())
                            .collect::<Vec<i32>>()
                    })
                })
                .collect();
            // The writers renew the lease when it ends, so it may take several attempts.
            let second = loop {
                (0..round).for_each(|_| thread::yield_now());
                f.engine.advance(CommitStamp(f.engine.last_stamp().0 + (10 << 32))).unwrap();
                f.engine.advance(CommitStamp(f.engine.last_stamp().0 + (10 << 32))).unwrap();
                if let Ok(second) = Store::open(Arc::clone(&f.engine), options("two")) {
                    break second;
                }
            };
            let found: BTreeSet<i32> = ids(&second, &f.namespace).into_iter().collect();
            let all = writers.into_iter().flat_map(|writer| writer.join().unwrap());
            let all: BTreeSet<i32> = all.collect();
            assert_eq!(found, all, "round {round}");
            assert_eq!(ids(&second, &f.namespace).len(), all.len());
            assert_eq!(second.collection(&f.namespace).unwrap().count(), all.len() as i64);
        });
    }
}

/// A lease that has ended is renewed if no other node has taken over.
#[test]
fn a_node_goes_on_after_its_lease_has_ended_if_it_was_alone() {
    let mut f = Fixture::new();
    let open = Transaction::begin(&f.store, Lifetime::Long).unwrap();
    put(open.store(), &f.namespace, 1).unwrap();
    pass(&*f.engine, 3600);
    open.commit(Durability::Buffered).unwrap();
    f.insert("{_id: 2}").unwrap();
    drop(open);
    f.reopen();
    assert_eq!(f.docs(), "{ _id: 1 } { _id: 2 }");
}

/// Concurrent writers of one collection add to different parts of its counter.
#[test]
fn counts_never_conflict_and_are_exact() {
    let mut f = Fixture::new();
    let conflicts = AtomicI64::new(0);
    thread::scope(|scope| {
        for writer in 0..4 {
            let (f, conflicts) = (&f, &conflicts);
            scope.spawn(move || {
                let collection = f.collection();
                for n in 0..100 {
                    let doc = doc! { "_id": writer * 100 + n };
                    let done = f.store.write_once(WriteOptions::default(), &mut |txn| {
                        txn.insert(&collection, doc.as_doc()).map(drop)
                    });
                    conflicts.fetch_add(i64::from(done.is_err()), SeqCst);
                }
            });
        }
    });
    assert_eq!(conflicts.load(SeqCst), 0);
    // Three transactions that overlap add to three parts.
    let open: Vec<_> = (0..3)
        .map(|n| {
            let txn = Transaction::begin(&f.store, Lifetime::Long).unwrap();
            put(txn.store(), &f.namespace, 1000 + n).unwrap();
            txn
        })
        .collect();
    for txn in &open {
        txn.commit(Durability::Buffered).unwrap();
    }
    drop(open);
    assert!(parts(&*f.engine) >= 3, "{}", parts(&*f.engine));
    f.check_valid();
    f.reopen();
    assert_eq!(f.collection().count(), 403);
    f.check_valid();
    f.store.drop_collection(&f.namespace).unwrap();
    f.close();
    assert_eq!(parts(&*f.engine), 0, "the counter was removed with all its parts");
}

#[test]
fn one_of_many_inserts_of_a_key_succeeds() {
    let f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a', unique: true}").unwrap();
    let inserted = AtomicI64::new(0);
    thread::scope(|scope| {
        for writer in 0..4 {
            let (f, inserted) = (&f, &inserted);
            scope.spawn(move || {
                for n in 0..60 {
                    // Ascending ids, each of two writers; ascending values, each of four.
                    let text = format!("{{_id: {}, a: {n}}}", 2 * n + writer % 2);
                    match f.insert(&text) {
                        Ok(_) => drop(inserted.fetch_add(1, SeqCst)),
                        Err(error) => assert_eq!(error.code().0, 11000, "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(inserted.load(SeqCst), 60);
    f.check_valid();
}

/// Money moves between accounts; the sum is constant in every snapshot.
#[test]
fn transfers_keep_the_sum() {
    const ACCOUNTS: i32 = 5;
    let f = Fixture::new();
    (0..ACCOUNTS).for_each(|id| drop(f.insert(&format!("{{_id: {id}, v: 100}}")).unwrap()));
    let collection = f.collection();
    let change = |txn: &mut WriteTxn<'_>, id: i32, by: i32| -> Result<()> {
        let found = txn.reader().find_id(&collection, Value::Int32(id))?.unwrap();
        let mut buf = RecordBuf::default();
        let old = txn.reader().record(&collection, found.key(), &mut buf)?.unwrap().to_buf();
        let Value::Int32(value) = old.get("v") else { panic!("{old:?}") };
        let new = doc! { "_id": id, "v": value + by };
        txn.update(&collection, found.key(), old.as_doc(), new.as_doc())
    };
    let sum = || {
        let snapshot = f.store.snapshot().unwrap();
        let mut cursor = snapshot.reader().scan(&collection, true).unwrap();
        let mut sum = 0;
        while cursor.advance().unwrap() {
            let Value::Int32(value) = cursor.doc().get("v") else { panic!() };
            sum += value;
        }
        sum
    };
    thread::scope(|scope| {
        for writer in 0..3 {
            let (f, change) = (&f, &change);
            scope.spawn(move || {
                for n in 0..100 {
                    let (from, to) = ((writer + n) % ACCOUNTS, (writer * 2 + n * 3 + 1) % ACCOUNTS);
                    let transfer = &mut |txn: &mut WriteTxn<'_>| {
                        change(txn, from, -1)?;
                        change(txn, to, 1)
                    };
                    f.store.write(WriteOptions::default(), transfer).unwrap();
                }
            });
        }
        (0..50).for_each(|_| assert_eq!(sum(), ACCOUNTS * 100));
    });
    assert_eq!(sum(), ACCOUNTS * 100);
    f.check_valid();
}

/// What became of a commit without an answer is found out: the caller learns of success, and repeats what had none.
#[test]
fn commits_without_an_answer_are_decided() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Minimal::new()), faults.clone()));
    let store = Store::open(Arc::clone(&engine), options("n")).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    let collection = store.create_collection(&name, Doc::EMPTY).unwrap();
    for (id, point) in (0..).zip([Point::Committed, Point::Commit, Point::Committed]) {
        faults.arm(point, 0, 1, || Error::Undetermined);
        put(&store, &name, id).unwrap();
        assert_eq!(
            (collection.count(), ids(&store, &name).len()),
            (i64::from(id) + 1, id as usize + 1)
        );
    }
    // The stored counters are those, too.
    drop((collection, store));
    let store = Store::open(engine, options("n")).unwrap();
    let collection = store.collection(&name).unwrap();
    assert_eq!(collection.count(), 3);
    assert_eq!(store.validate(&collection).unwrap().errors, Vec::<String>::new());
}

/// If that cannot be found out, the error says so, the count is read again, and the fence is not used before the next
/// renewal of the lease.
#[test]
fn commits_with_unknown_outcome_are_counted() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Minimal::new()), faults.clone()));
    let store = Store::open(Arc::clone(&engine), options("n")).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    // Clustered: its inserts take no blocks of record numbers, whose transactions would fail in their place.
    let options = parse("{clusteredIndex: {key: {_id: 1}, unique: true, name: 'i'}}");
    let collection = store.create_collection(&name, options.as_doc()).unwrap();
    let unknown = |point, id| {
        faults.arm(point, 0, 1, || Error::Undetermined);
        // The transaction begins, the snapshot afterwards is not to be had.
        faults.arm(Point::Begin, 1, 1, || Error::other("unreachable"));
        assert_eq!(error(put(&store, &name, id)).split(':').next(), Some("11602"), "{id}");
    };
    let cases = [(Point::Committed, 1), (Point::Commit, 1), (Point::Committed, 2)];
    for (id, (point, count)) in (0..).zip(cases) {
        unknown(point, id);
        assert_eq!((collection.count(), ids(&store, &name).len() as i64), (count, count));
    }
    // More of them than there are fences.
    for n in 0..600 {
        if n % 100 == 0 {
            // The next commit is behind the lease, so it renews the lease.
            pass(&*engine, 20);
            put(&store, &name, 1000 + n).unwrap();
        }
        unknown(Point::Commit, 10 + n);
    }
    assert_eq!(collection.count(), 2 + 6);
}

/// A block of record numbers whose transaction has no answer is lost; the insert does not learn of it.
#[test]
fn a_block_with_unknown_outcome_is_lost() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Minimal::new()), faults.clone()));
    let store = Store::open(engine, options("n")).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    let collection = store.create_collection(&name, Doc::EMPTY).unwrap();
    let insert = || {
        let doc = doc! { "x": 1 };
        let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc());
        let written = store.write(WriteOptions::default(), insert).unwrap();
        written.value.key().number().unwrap()
    };
    // The second commit has no effect.
    for (point, next) in [(Point::Committed, 65 + 64), (Point::Commit, 129 + 64)] {
        while insert() % 64 != 0 {}
        faults.arm(point, 0, 1, || Error::Undetermined);
        // The transactions of the insert and of the block begin, the snapshot that decides is not to be had.
        faults.arm(Point::Begin, 2, 1, || Error::other("unreachable"));
        assert_eq!(insert(), next, "{point:?}");
    }
    assert_eq!(collection.count(), 64 + 64 + 1);
}

/// While the engine cannot be reached, a node whose lease has ended answers nothing; afterwards it goes on.
#[test]
fn a_lease_that_cannot_be_renewed_stops_commits_until_it_can() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Minimal::new()), faults.clone()));
    let store = Store::open(Arc::clone(&engine), options("n")).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    put(&store, &name, 1).unwrap();
    pass(&*engine, 20);
    faults.arm(Point::Commit, 0, 1, || Error::Unreachable("a commit failed: no answer".into()));
    assert_eq!(error(put(&store, &name, 2)), "6: a commit failed: no answer");
    put(&store, &name, 3).unwrap();
    assert_eq!(ids(&store, &name), [1, 3]);
}

/// What a node has dropped and not removed, the next one removes in the background.
#[test]
fn a_removal_is_continued_by_the_next_node() {
    let faults = Faults::default();
    let inner: Arc<dyn Engine> = Arc::new(Minimal::new());
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::clone(&inner), faults.clone()));
    let store = Store::open(engine, options("one")).unwrap();
    let name = Namespace::parse("d.c").unwrap();
    (0..10).for_each(|id| put(&store, &name, id).unwrap());
    faults.arm(Point::Maintain, 1, u64::MAX, || Error::other("killed"));
    store.drop_collection(&name).unwrap();
    drop(store);
    faults.disarm();
    let keys = |space| {
        let mut cursor = inner.latest().cursor(space, &[], &[]).unwrap();
        cursor.seek(&[]).unwrap()
    };
    assert!(keys(Space::Records));
    let store = Store::open(Arc::clone(&inner), options("two")).unwrap();
    drop(store);
    assert!(!keys(Space::Records) && !keys(Space::Index));
    assert_eq!(parts(&*inner), 0);
}

/// A lease of a later version, or a damaged one, is not overwritten.
#[test]
fn a_lease_that_is_not_understood_is_left_alone() {
    let engine: Arc<dyn Engine> = Arc::new(Minimal::new());
    let write = |value: &[u8]| {
        let mut txn = engine.begin(TxnOptions::default()).unwrap();
        txn.put(Space::Catalog, &[9, 0, 0, 0, 0], value).unwrap();
        txn.commit(Durability::Buffered).unwrap();
    };
    write(doc! { "v": 7 }.as_bytes());
    let refused = error(Store::open(Arc::clone(&engine), options("n")));
    assert!(refused.contains("the lease of the data has version 7"), "{refused}");
    write(b"no document");
    let refused = error(Store::open(Arc::clone(&engine), options("n")));
    assert_eq!(refused, "301: Data corruption detected: the lease of the data is damaged");
}
