//! Transactions of several statements: isolation, rollback, concurrent DDL, and interleavings.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nagi_bson::{Doc, doc};
use nagi_store::{
    BuildOptions, Durability, End, IndexSelector, Lifetime, Namespace, SessionKey, Store,
    Transaction, WriteOptions, WriteTxn,
};

use crate::{
    random::Random,
    support::{Fixture, error, parse},
};

fn long(f: &Fixture) -> Transaction {
    Transaction::begin(&f.store, Lifetime::Long).unwrap()
}

fn insert(store: &Store, namespace: &Namespace, text: &str) -> nagi_error::Result<()> {
    let collection = store.collection_or_create(namespace)?;
    let doc = parse(text);
    let insert = &mut |txn: &mut WriteTxn<'_>| txn.insert(&collection, doc.as_doc());
    store.write(WriteOptions::default(), insert).map(drop)
}

/// The documents visible through a handle.
fn docs(store: &Store, namespace: &Namespace) -> String {
    let Some(collection) = store.collection(namespace) else { return "none".to_owned() };
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.reader().scan(&collection, true).unwrap();
    let mut docs = Vec::new();
    while cursor.advance().unwrap() {
        docs.push(cursor.doc().get("_id").to_string());
    }
    docs.join(" ")
}

#[test]
fn it_sees_its_own_writes_and_nobody_elses() {
    let f = Fixture::new();
    f.insert("{_id: 1}").unwrap();
    let txn = long(&f);
    insert(txn.store(), &f.namespace, "{_id: 2}").unwrap();
    f.insert("{_id: 3}").unwrap();
    assert_eq!(docs(txn.store(), &f.namespace), "1 2");
    assert_eq!(docs(&f.store, &f.namespace), "1 3");
    let id = nagi_bson::Value::Int32(2);
    let mut buf = Vec::new();
    let collection = f.collection();
    assert!(txn.store().find_by_id(&collection, id, &mut buf).unwrap().is_some());
    assert!(f.store.find_by_id(&collection, id, &mut buf).unwrap().is_none());
    txn.commit(Durability::Buffered).unwrap();
    assert_eq!((docs(&f.store, &f.namespace).as_str(), f.collection().count()), ("1 2 3", 3));
    assert_eq!(error(txn.commit(Durability::Buffered)), "251: Transaction has ended");
    f.check_valid();
}

#[test]
fn the_later_writer_loses_at_once_or_at_its_commit() {
    let f = Fixture::new();
    f.insert("{_id: 1}").unwrap();
    let (a, b) = (long(&f), long(&f));
    insert(a.store(), &f.namespace, "{_id: 2}").unwrap();
    let lost = insert(b.store(), &f.namespace, "{_id: 2}");
    assert_eq!(lost.is_err(), f.engine.capabilities().conflicts_at_once);
    if let Err(lost) = &lost {
        assert_eq!(lost.code().0, 112);
        b.end(End::Aborted);
    }
    a.commit(Durability::Buffered).unwrap();
    if lost.is_ok() {
        assert_eq!(b.commit(Durability::Buffered).unwrap_err().code().0, 112);
    }
    assert_eq!(docs(&f.store, &f.namespace), "1 2");
    f.check_valid();
}

#[test]
fn a_failed_statement_is_undone_alone() {
    let f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a', unique: true}").unwrap();
    f.insert("{_id: 1, a: [1, 2]}").unwrap();
    let txn = long(&f);
    insert(txn.store(), &f.namespace, "{_id: 2, a: 5}").unwrap();
    let refused = insert(txn.store(), &f.namespace, "{_id: 3, a: [7, 2]}").unwrap_err();
    assert_eq!(refused.code().0, 11000);
    txn.commit(Durability::Buffered).unwrap();
    assert_eq!(docs(&f.store, &f.namespace), "1 2");
    f.check_valid();
}

#[test]
fn dropping_it_gives_its_keys_back() {
    let f = Fixture::new();
    let txn = long(&f);
    insert(txn.store(), &f.namespace, "{_id: 1}").unwrap();
    drop(txn);
    f.insert("{_id: 1}").unwrap();
    f.check_valid();
}

#[test]
fn a_collection_made_in_it_is_its_own_until_it_commits() {
    let mut f = Fixture::new();
    let new = Namespace::parse("d.new").unwrap();
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    let create = |txn: &Transaction| {
        txn.store().create_collection(&new, Doc::EMPTY).unwrap();
        txn.store().create_indexes(&new, &[index.as_doc()], BuildOptions::default()).unwrap();
        insert(txn.store(), &new, "{_id: 1, a: 1}").unwrap();
    };
    let (first, second, lost) = (long(&f), long(&f), long(&f));
    create(&first);
    assert_eq!((docs(first.store(), &new).as_str(), docs(&f.store, &new).as_str()), ("1", "none"));
    let late = doc! { "key": { "b": 1 }, "name": "b" };
    let late = first.store().create_indexes(&new, &[late.as_doc()], BuildOptions::default());
    assert_eq!(late.unwrap_err().code().0, 263);
    drop(first);
    assert_eq!(docs(&f.store, &new), "none");
    create(&second);
    create(&lost);
    second.commit(Durability::Buffered).unwrap();
    assert_eq!(lost.commit(Durability::Buffered).unwrap_err().code().0, 112);
    drop((second, lost));
    f.reopen();
    assert_eq!(docs(&f.store, &new), "1");
    let collection = f.store.collection(&new).unwrap();
    assert_eq!((collection.indexes.len(), collection.count()), (2, 1));
    assert!(f.store.validate(&collection).unwrap().errors.is_empty());
}

/// A collection and its state reference each other, which must not leak memory.
#[test]
fn nothing_is_left_of_collections_that_nobody_can_reach() {
    let mut f = Fixture::new();
    let new = Namespace::parse("d.new").unwrap();
    let create =
        |store: &Store| Arc::downgrade(&store.create_collection(&new, Doc::EMPTY).unwrap());
    let (dropped, lost, winner) = (long(&f), long(&f), long(&f));
    let mut left = vec![create(dropped.store()), create(lost.store())];
    let kept = create(winner.store());
    drop(dropped);
    winner.commit(Durability::Buffered).unwrap();
    lost.commit(Durability::Buffered).unwrap_err();
    drop(lost);
    assert!(left.iter().all(|collection| collection.upgrade().is_none()));
    assert!(kept.upgrade().is_some());
    drop(winner);
    left.push(kept);
    f.reopen();
    left.push(Arc::downgrade(&f.store.collection(&new).unwrap()));
    f.reopen();
    assert!(left.iter().all(|collection| collection.upgrade().is_none()));
}

#[test]
fn ddl_ends_those_who_used_the_collection_and_waits_for_nobody() {
    let f = Fixture::new();
    f.insert("{_id: 1}").unwrap();
    let other = Namespace::parse("d.other").unwrap();
    f.store.create_collection(&other, Doc::EMPTY).unwrap();
    let (writes, reads, elsewhere) = (long(&f), long(&f), long(&f));
    insert(writes.store(), &f.namespace, "{_id: 2}").unwrap();
    assert_eq!(docs(reads.store(), &f.namespace), "1");
    insert(elsewhere.store(), &other, "{_id: 9}").unwrap();
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    assert_eq!(writes.ended(), Some(End::CatalogChanged));
    assert_eq!(reads.commit(Durability::Buffered).unwrap_err().code().0, 246);
    // The collection was changed after the transaction began and is looked up only here.
    assert_eq!(elsewhere.ended(), None);
    docs(elsewhere.store(), &other);
    let looked = elsewhere.store().collection(&f.namespace);
    assert!(looked.is_some() && elsewhere.ended() == Some(End::CatalogChanged));
    let again = long(&f);
    insert(again.store(), &f.namespace, "{_id: 3}").unwrap();
    f.store.drop_indexes(&f.namespace, IndexSelector::Name("a")).unwrap();
    f.store.drop_collection(&f.namespace).unwrap();
    assert_eq!(again.commit(Durability::Buffered).unwrap_err().code().0, 246);
    assert_eq!(
        (docs(&f.store, &f.namespace).as_str(), docs(&f.store, &other).as_str()),
        ("none", "")
    );
}

#[test]
fn one_that_stages_too_much_ends() {
    let f = Fixture::new();
    let txn = long(&f);
    let text = "x".repeat(8 << 20);
    let mut ended = None;
    for n in 0..40 {
        let doc = doc! { "_id": n, "text": &text };
        let collection = f.collection();
        let done = txn.store().write(WriteOptions::default(), &mut |txn| {
            txn.insert(&collection, doc.as_doc()).map(drop)
        });
        if let Err(error) = done {
            ended = Some((n, error.code().0));
            break;
        }
    }
    let (count, code) = ended.unwrap();
    assert!((10..20).contains(&count) && code == 388, "{count} {code}");
    f.insert("{_id: 0}").unwrap();
    f.check_valid();
}

#[test]
fn session_records_go_with_their_writes() {
    let mut f = Fixture::new();
    // User 0 stands for a record of an earlier version, which knew no users.
    let key = |session: u8, user: u8, number, statement| SessionKey {
        session: [session; 16],
        user: Some([user; 32]).filter(|_| user > 0),
        number,
        statement,
    };
    let text = parse("{n: 1}");
    let written =
        [(1, 1, 5, 0), (1, 1, 5, 3), (2, 1, 7, -1), (4, 1, 1, 0), (4, 2, 2, 0), (4, 0, 3, 0)];
    for (session, user, number, statement) in written {
        let together = f.store.write_together(WriteOptions::default(), &mut |txn| {
            insert(
                txn.store(),
                &f.namespace,
                &format!(
                    "{{_id: {}}}",
                    number * 10 + i64::from(statement) + i64::from(session) * 100
                ),
            )?;
            txn.store().write(WriteOptions::default(), &mut |txn| {
                txn.put_session_record(&key(session, user, number, statement), text.as_doc())
            })
        });
        together.unwrap();
    }
    f.reopen();
    let of_user = |f: &Fixture, session: u8, user: u8| -> Vec<_> {
        let all = f.store.session_records(&[session; 16], &[user; 32]).unwrap();
        all.iter().map(|record| (record.key.number, record.key.statement)).collect()
    };
    let records = |f: &Fixture, session: u8| of_user(f, session, 1);
    assert_eq!((records(&f, 1), records(&f, 2)), (vec![(5, 0), (5, 3)], vec![(7, -1)]));
    assert_eq!(of_user(&f, 1, 2), [], "another user's session with the same UUID");
    assert_eq!(
        (of_user(&f, 4, 1), of_user(&f, 4, 2)),
        (vec![(1, 0), (3, 0)], vec![(2, 0), (3, 0)])
    );
    assert_eq!(records(&f, 3), []);
    let gone = f.store.delete_session_records(&mut |key, _| key.session == [1; 16]).unwrap();
    assert_eq!((gone, records(&f, 1).len(), records(&f, 2).len()), (2, 0, 1));
    // Each record is deleted by the key under which it was read.
    let old = f.store.session_records(&[4; 16], &[2; 32]).unwrap();
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            old.iter().try_for_each(|record| txn.delete_session_record(&record.key))
        })
        .unwrap();
    assert_eq!((of_user(&f, 4, 1), of_user(&f, 4, 2)), (vec![(1, 0)], vec![]));
    assert_eq!(f.collection().count(), 6);
    f.check_valid();
}

/// Several transactions and plain writes, interleaved at random: each reads what was committed when it began plus
/// its own writes; each committed one behaves as if no other writer had touched its keys meanwhile.
#[test]
fn interleavings_are_isolated() {
    for seed in 0..200 {
        interleave(&mut Random::new(seed));
    }
}

struct Open {
    txn: Transaction,
    sees: BTreeMap<i32, i32>,
    wrote: Vec<i32>,
    /// Keys that others have committed since it began.
    missed: BTreeSet<i32>,
}

fn interleave(random: &mut Random) {
    let f = Fixture::new();
    let mut committed: BTreeMap<i32, i32> = BTreeMap::new();
    let mut open: Vec<Open> = Vec::new();
    for step in 0..60 {
        let key = random.below(6) as i32;
        match random.below(8) {
            0 if open.len() < 4 => {
                open.push(Open {
                    txn: long(&f),
                    sees: committed.clone(),
                    wrote: Vec::new(),
                    missed: BTreeSet::new(),
                });
            }
            1 | 2 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                let done = open.swap_remove(at);
                if random.below(3) > 0 {
                    let is_late = done.wrote.iter().any(|key| done.missed.contains(key));
                    let ended = done.txn.commit(Durability::Buffered);
                    assert!(!is_late || !f.engine.capabilities().conflicts_at_once);
                    assert_eq!(ended.map_err(|e| e.code().0).err(), is_late.then_some(112));
                    if is_late {
                        continue;
                    }
                    for key in done.wrote {
                        open.iter_mut().for_each(|one| one.missed.extend([key]));
                        match done.sees.get(&key) {
                            Some(value) => committed.insert(key, *value),
                            None => committed.remove(&key),
                        };
                    }
                }
            }
            3..=6 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                let one = &mut open[at];
                assert_eq!(state(one.txn.store(), &f.namespace), one.sees);
                let value = (random.below(3) > 0).then_some(step);
                match set(one.txn.store(), &f.namespace, key, value) {
                    Ok(()) => {
                        if value.is_some() || one.sees.contains_key(&key) {
                            one.wrote.push(key);
                        }
                        apply(&mut one.sees, key, value);
                    }
                    Err(error) => {
                        assert_eq!(error.code().0, 112);
                        open.swap_remove(at);
                    }
                }
            }
            _ if open.iter().all(|one| !one.wrote.contains(&key)) => {
                set(&f.store, &f.namespace, key, Some(step)).unwrap();
                open.iter_mut().for_each(|one| one.missed.extend([key]));
                apply(&mut committed, key, Some(step));
            }
            _ => {}
        }
        assert_eq!(state(&f.store, &f.namespace), committed);
    }
    drop(open);
    f.check_valid();
}

fn apply(map: &mut BTreeMap<i32, i32>, key: i32, value: Option<i32>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn state(store: &Store, namespace: &Namespace) -> BTreeMap<i32, i32> {
    let collection = store.collection(namespace).unwrap();
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.reader().scan(&collection, true).unwrap();
    let mut map = BTreeMap::new();
    while cursor.advance().unwrap() {
        let number = |name: &str| match cursor.doc().get(name) {
            nagi_bson::Value::Int32(n) => n,
            other => panic!("{other}"),
        };
        map.insert(number("_id"), number("v"));
    }
    map
}

/// Inserts, changes or deletes the document of a key.
fn set(
    store: &Store,
    namespace: &Namespace,
    key: i32,
    value: Option<i32>,
) -> nagi_error::Result<()> {
    let collection = store.collection(namespace).unwrap();
    let written = store.write(WriteOptions::default(), &mut |txn| {
        let id = txn.reader().find_id(&collection, nagi_bson::Value::Int32(key))?;
        let mut buf = nagi_store::RecordBuf::default();
        let old = match &id {
            Some(id) => {
                txn.reader().record(&collection, id.key(), &mut buf)?.map(|doc| doc.to_buf())
            }
            None => None,
        };
        let new = value.map(|value| doc! { "_id": key, "v": value });
        match (id, old, new) {
            (None, _, Some(new)) => txn.insert(&collection, new.as_doc()).map(drop),
            (Some(id), Some(old), Some(new)) => {
                txn.update(&collection, id.key(), old.as_doc(), new.as_doc())
            }
            (Some(id), Some(old), None) => txn.delete(&collection, id.key(), old.as_doc()),
            _ => Ok(()),
        }
    });
    written.map(drop)
}
