//! Creating, changing and dropping collections and indexes; invalid requests fail with MongoDB's messages.

use std::sync::Arc;

use nagi_bson::Doc;
use nagi_kv::{Durability, Faults, Faulty, Memory, Point, Space, TxnOptions};
use nagi_store::{CollMod, IndexSelector, Namespace, Rename, Store, WriteOptions};

use crate::support::{Fixture, error, parse};

fn namespace(text: &str) -> Namespace {
    Namespace::parse(text).unwrap()
}

/// A cursor next to a dropped range must step over its tombstones, which would make the first insert after a drop
/// slow (80 ms). It must need no such cursor.
#[test]
fn the_first_insert_after_a_drop_looks_for_nothing() {
    let faults = Faults::default();
    let engine = Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
    let store = Store::open(engine, crate::options()).unwrap();
    let ns = namespace("d.c");
    let insert = |id: i32| {
        let collection = store.collection_or_create(&ns).unwrap();
        let doc = parse(&format!("{{_id: {id}}}"));
        store.write(WriteOptions::default(), &mut |txn| txn.insert(&collection, doc.as_doc()))
    };
    insert(1).unwrap();
    store.drop_collection(&ns).unwrap();
    faults.arm(Point::Cursor, 0, u64::MAX, || nagi_kv::Error::other("looked"));
    insert(1).unwrap();
    insert(2).unwrap();
    assert!(error(insert(2)).starts_with("11000"));
    faults.disarm();
    assert_eq!(store.collection(&ns).unwrap().count(), 2);
}

/// The greatest idents are the store's own. Data with all others in use can be read and written, and dropped.
#[test]
fn idents_end() {
    let engine = crate::engine();
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    // Over a cluster the greater half is for idents whose keys have stripes.
    let end = if engine.capabilities().only_writer { u32::MAX - 1023 } else { 1 << 31 };
    let next = end - 3;
    txn.put(Space::Catalog, &[4, 0, 0, 0, 0], &next.to_le_bytes()).unwrap();
    txn.commit(Durability::Buffered).unwrap();
    let store = Store::open(engine, crate::options()).unwrap();
    let (last, ns) = (namespace("d.last"), namespace("d.c"));
    store.create_collection(&last, Doc::EMPTY).unwrap();
    for _ in 0..3 {
        assert_eq!(
            error(store.create_collection(&ns, Doc::EMPTY).map(drop)),
            "96: all idents of collections and indexes are used up; dump the data and restore them into an empty \
             server"
        );
    }
    assert!(store.collection(&ns).is_none());
    let (collection, doc) = (store.collection(&last).unwrap(), parse("{_id: 1}"));
    store.write(WriteOptions::default(), &mut |txn| txn.insert(&collection, doc.as_doc())).unwrap();
    assert_eq!(store.validate(&collection).unwrap().errors, Vec::<String>::new());
    store.drop_collection(&last).unwrap();
}

#[test]
fn the_catalog_survives() {
    let mut f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a_1', unique: true}").unwrap();
    f.index("{key: {b: -1, 'c.d': 1}, name: 'bc', sparse: true}").unwrap();
    f.insert("{_id: 1, a: 1, b: [1, 2]}").unwrap();
    let uuid = f.collection().uuid;
    f.reopen();
    assert_eq!(f.collection().uuid, uuid);
    assert_eq!(f.collection().indexes.len(), 3);
    assert!(f.collection().index("bc").unwrap().is_multikey());
    assert!(!f.collection().index("a_1").unwrap().is_multikey());
    assert_eq!((f.collection().count(), f.docs().as_str()), (1, "{ _id: 1, a: 1, b: [ 1, 2 ] }"));
    f.insert("{_id: 2, a: 2}").unwrap();
    assert_eq!(f.docs(), "{ _id: 1, a: 1, b: [ 1, 2 ] } { _id: 2, a: 2 }");
    f.check_valid();
}

#[test]
fn duplicate_keys_are_refused() {
    let f = Fixture::new();
    f.index("{key: {a: 1, b: -1}, name: 'ab', unique: true}").unwrap();
    f.insert("{_id: 1, a: 'x'}").unwrap();
    let failed = f.insert("{_id: 2, a: 'x', b: null}").unwrap_err();
    assert_eq!(
        failed.message(),
        "E11000 duplicate key error collection: d.c index: ab dup key: { a: \"x\", b: null }"
    );
    assert_eq!(
        failed.info().unwrap().as_doc().to_string(),
        "{ keyPattern: { a: 1, b: -1 }, keyValue: { a: \"x\", b: null } }"
    );
    let failed = error(f.insert("{_id: 1.0, a: 3}"));
    assert_eq!(
        failed,
        "11000: E11000 duplicate key error collection: d.c index: _id_ dup key: { _id: 1.0 }"
    );
    assert_eq!(f.collection().count(), 1);
    f.check_valid();
}

#[test]
fn documents_are_checked() {
    let f = Fixture::new();
    let refused = |text: &str| error(f.insert(text));
    assert_eq!(refused("{_id: [1]}"), "2: can't use an array for _id");
    assert_eq!(refused("{_id: /x/}"), "2: can't use a regex for _id");
    assert_eq!(refused("{_id: undefined}"), "2: can't use a undefined for _id");
    let deep = "{a: ".repeat(180) + "1" + &"}".repeat(180);
    assert_eq!(refused(&deep), "ok");
    let deep = "{a: ".repeat(181) + "1" + &"}".repeat(181);
    assert!(refused(&deep).starts_with("15: "));
    let f = Fixture::new();
    f.insert("{a: 1, _id: 5}").unwrap();
    assert_eq!(f.docs(), "{ _id: 5, a: 1 }");
    f.insert("{b: 1}").unwrap();
    assert!(f.docs().contains("{ _id: ObjectId('"));
}

#[test]
fn indexes_clash() {
    let f = Fixture::new();
    let index = |spec: &str| error(f.index(spec)).chars().take(70).collect::<String>();
    assert_eq!(index("{key: {a: 1}, name: 'a_1'}"), "ok");
    assert_eq!(index("{key: {a: 1}, name: 'a_1'}"), "ok");
    assert_eq!(
        index("{key: {a: 1.0}, name: 'b'}"),
        "85: Index already exists with a different name: a_1"
    );
    assert_eq!(
        index("{key: {b: 1}, name: 'a_1'}"),
        "86: An existing index has the same name as the requested index. When i"
    );
    assert_eq!(
        index("{key: {a: 1}, name: 'a_1', unique: true}"),
        "86: An existing index has the same name as the requested index. When i"
    );
    assert_eq!(
        index("{key: {a: 1}, name: 'a_1', expireAfterSeconds: 5}"),
        "85: An equivalent index already exists with the same name but differen"
    );
    assert_eq!(
        index("{key: {a: 0}, name: 'x'}"),
        "67: Values in the index key pattern cannot be 0."
    );
    assert_eq!(index("{key: {a: 'foo'}, name: 'x'}"), "67: Unknown index plugin 'foo'");
    assert_eq!(
        index("{key: {a: 1}, name: 'x', foo: 1}"),
        "197: The field 'foo' is not valid for an index specification. Specific"
    );
    assert_eq!(index("{key: {_id: 1}, name: 'other'}"), "ok");
    assert_eq!(
        index("{key: {_id: -1}, name: 'x'}"),
        "2: The field 'key' for an _id index must be {_id: 1}, but got { _id: -"
    );
    assert_eq!(f.collection().indexes.len(), 2);
    assert_eq!(
        f.collection().index("a_1").unwrap().spec.doc.as_doc().to_string(),
        "{ v: 2, key: { a: 1 }, name: \"a_1\" }"
    );
}

#[test]
fn indexes_are_dropped() {
    let f = Fixture::new();
    f.insert("{_id: 1, a: 1}").unwrap();
    f.index("{key: {a: 1}, name: 'a_1'}").unwrap();
    f.index("{key: {b: 1}, name: 'b_1'}").unwrap();
    f.index("{key: {c: 1}, name: 'c_1'}").unwrap();
    let drop = |which| f.store.drop_indexes(&f.namespace, which);
    assert_eq!(error(drop(IndexSelector::Name("x"))), "27: index not found with name [x]");
    assert_eq!(error(drop(IndexSelector::Name("_id_"))), "72: cannot drop _id index");
    let key = parse("{b: 1}");
    assert_eq!(drop(IndexSelector::Key(key.as_doc())).unwrap(), 4);
    assert_eq!(
        error(drop(IndexSelector::Key(key.as_doc()))),
        "27: can't find index with key: { b: 1 }"
    );
    assert_eq!(drop(IndexSelector::All).unwrap(), 3);
    assert_eq!(f.collection().indexes.len(), 1);
    f.insert("{_id: 2, a: 1}").unwrap();
    f.check_valid();
}

#[test]
fn a_dropped_collection_is_gone_and_its_name_free() {
    let mut f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a_1', unique: true}").unwrap();
    f.insert("{_id: 1, a: 1}").unwrap();
    let old = f.collection();
    assert_eq!(f.store.drop_collection(&f.namespace).unwrap().unwrap().indexes.len(), 2);
    assert!(f.store.drop_collection(&f.namespace).unwrap().is_none());
    assert!(f.store.collection(&f.namespace).is_none());
    let doc = parse("{_id: 1}");
    let late = f.store.write(WriteOptions::default(), &mut |t| t.insert(&old, doc.as_doc()));
    assert!(error(late).starts_with("175: collection dropped"));
    f.store.create_collection(&f.namespace, Doc::EMPTY).unwrap();
    assert_eq!(f.collection().count(), 0);
    f.insert("{_id: 1, a: 1}").unwrap();
    f.reopen();
    assert_eq!(f.docs(), "{ _id: 1, a: 1 }");
    assert!(f.store.drop_database("d").unwrap());
    assert!(!f.store.drop_database("d").unwrap());
    assert_eq!(f.store.catalog().iter().count(), 0);
}

#[test]
fn collections_are_renamed() {
    let mut f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a_1'}").unwrap();
    (1..=3).for_each(|id| {
        f.insert(&format!("{{_id: {id}, a: {}}}", -id)).unwrap();
    });
    let uuid = f.collection().uuid;
    let rename = |f: &Fixture, from: &str, to: &str, drop| {
        error(f.store.rename_collection(
            &namespace(from),
            &namespace(to),
            Rename { drop_target: drop, ..Rename::default() },
            &|| Ok(()),
        ))
    };
    assert_eq!(rename(&f, "d.none", "d.x", false), "26: Source collection d.none does not exist");
    assert_eq!(rename(&f, "d.c", "d.x", false), "ok");
    assert_eq!(rename(&f, "d.x", "e.c", false), "ok");
    f.namespace = namespace("e.c");
    assert_ne!(f.collection().uuid, uuid);
    assert_eq!(f.ids("a_1"), "3 2 1");
    f.check_valid();
    f.store.create_collection(&namespace("e.other"), Doc::EMPTY).unwrap();
    assert_eq!(rename(&f, "e.c", "e.other", false), "48: target namespace exists");
    assert_eq!(rename(&f, "e.c", "e.other", true), "ok");
    f.reopen();
    assert_eq!(f.store.catalog().iter().count(), 1);
    f.namespace = namespace("e.other");
    assert_eq!(f.collection().count(), 3);
}

#[test]
fn sparse_and_partial_indexes_leave_documents_out() {
    let f = Fixture::new();
    f.insert("{_id: 1, a: 1, b: 5}").unwrap();
    f.index("{key: {a: 1}, name: 's', sparse: true}").unwrap();
    f.index("{key: {a: 1}, name: 'p', partialFilterExpression: {b: {$gt: 3}}}").unwrap();
    f.insert("{_id: 2, b: 1}").unwrap();
    f.insert("{_id: 3, a: 0, b: 1}").unwrap();
    f.insert("{_id: 4, a: null, b: 9}").unwrap();
    assert_eq!((f.ids("s"), f.ids("p")), ("4 3 1".into(), "4 1".into()));
    let refused = f.index("{key: {a: 1}, name: 'q', partialFilterExpression: {b: {$ne: 3}}}");
    assert!(error(refused).starts_with("67: unsupported expression in partial index"));
    f.check_valid();
}

#[test]
fn collmod_changes_indexes_and_validators() {
    let mut f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a_1', expireAfterSeconds: 5}").unwrap();
    let change = parse("{name: 'a_1', expireAfterSeconds: 9, hidden: true}");
    let changes = CollMod { index: Some(change.as_doc()), ..CollMod::default() };
    let reply = f.store.coll_mod(&f.namespace, changes).unwrap();
    assert_eq!(
        reply.as_doc().to_string(),
        "{ expireAfterSeconds_old: 5, expireAfterSeconds_new: 9, hidden_old: false, \
         hidden_new: true }"
    );
    let validator = parse("{a: {$gt: 0}}");
    let changes = CollMod { validator: Some(validator.as_doc()), ..CollMod::default() };
    f.store.coll_mod(&f.namespace, changes).unwrap();
    f.reopen();
    assert!(f.collection().index("a_1").unwrap().spec.hidden);
    assert_eq!(error(f.insert("{_id: 1, a: 0}")), "121: Document failed validation");
    f.insert("{_id: 1, a: 1}").unwrap();
}

#[test]
fn capped_collections_keep_their_size() {
    let mut f = Fixture::new();
    f.namespace = namespace("d.capped");
    let options = parse("{capped: true, size: 100000, max: 3}");
    f.store.create_collection(&f.namespace, options.as_doc()).unwrap();
    (1..=10).for_each(|id| {
        f.insert(&format!("{{_id: {id}}}")).unwrap();
    });
    assert_eq!(f.docs(), "{ _id: 8 } { _id: 9 } { _id: 10 }");
    f.check_valid();
    let refused = f.store.create_collection(&namespace("d.x"), parse("{capped: true}").as_doc());
    assert_eq!(error(refused), "72: the 'size' field is required when 'capped' is true");
}

#[test]
fn expired_documents_are_deleted() {
    for key in ["{t: 1}", "{t: -1}"] {
        let f = Fixture::new();
        f.index(&format!("{{key: {key}, name: 't', expireAfterSeconds: 10}}")).unwrap();
        let second = |s: i64| format!("{{$date: {{$numberLong: '{}'}}}}", s * 1000);
        for (id, t) in [second(1), second(89), second(90), second(91)].iter().enumerate() {
            f.insert(&format!("{{_id: {id}, t: {t}}}")).unwrap();
        }
        f.insert(&format!("{{_id: 4, t: [{}, {}]}}", second(200), second(5))).unwrap();
        f.insert("{_id: 5, t: 'x'}").unwrap();
        f.insert("{_id: 6}").unwrap();
        assert_eq!(f.store.expire(100_000, &|| Ok(())).unwrap(), 4);
        assert_eq!(f.docs(), "{ _id: 3, t: new Date(91000) } { _id: 5, t: \"x\" } { _id: 6 }");
        f.check_valid();
    }
}

#[test]
fn a_clustered_collection_lists_and_expires_by_its_ids() {
    let mut f = Fixture::new();
    f.store.drop_collection(&f.namespace).unwrap();
    let options =
        "{clusteredIndex: {key: {_id: 1}, unique: true, name: 'i'}, expireAfterSeconds: 10}";
    f.store.create_collection(&f.namespace, parse(options).as_doc()).unwrap();
    for seconds in [91, 1, 89, 90] {
        f.insert(&format!("{{_id: {{$date: {{$numberLong: '{}'}}}}}}", seconds * 1000)).unwrap();
    }
    f.insert("{_id: 5}").unwrap();
    f.reopen();
    let index = f.collection().id_index().cloned().unwrap();
    assert!(index.spec.is_clustered() && index.name() == "i");
    assert_eq!(f.store.expire(100_000, &|| Ok(())).unwrap(), 3);
    assert_eq!(f.ids("i"), "5 new Date(91000)");
    f.check_valid();
    let refused = f.store.drop_indexes(&f.namespace, nagi_store::IndexSelector::Name("i"));
    assert_eq!(error(refused), "5979800: It is illegal to drop the clusteredIndex");
}

#[test]
fn runs_are_spilled_and_read_back() {
    let f = Fixture::new();
    let mut spill = f.store.spill();
    for run in 0..3u8 {
        let mut left = 5u8;
        let next = &mut |key: &mut Vec<u8>, value: &mut Vec<u8>| {
            left = left.saturating_sub(1);
            key.extend_from_slice(&[9 - left]);
            value.extend_from_slice(&[run]);
            Ok(left > 0)
        };
        spill.write_run(next).unwrap();
    }
    let mut cursor = spill.read_run(1).unwrap();
    let mut seen = Vec::new();
    while cursor.advance().unwrap() {
        let (key, value) = cursor.entry().unwrap();
        seen.push((key[0], value[0]));
    }
    assert_eq!(seen, [(5, 1), (6, 1), (7, 1), (8, 1)]);
    let figures = f.store.spill_figures();
    // An entry consists of the four-byte length of the key, the key and the value.
    assert_eq!((figures.open, figures.open_bytes, figures.runs), (1, 3 * 4 * 6, 3));
    let failed = spill.write_run(&mut |_, _| {
        nagi_error::bail!(nagi_error::Code::INTERRUPTED, "operation was interrupted")
    });
    assert_eq!(error(failed), "11601: operation was interrupted");
    drop((cursor, spill));
    let figures = f.store.spill_figures();
    assert_eq!((figures.open, figures.open_bytes, figures.disk_bytes), (0, 0, 0));
    assert_eq!((figures.runs, figures.written_bytes), (4, 3 * 4 * 6));
}

#[test]
fn an_index_is_made_unique() {
    Fixture::each().into_iter().for_each(make_unique);
}

fn make_unique(mut f: Fixture) {
    f.index("{key: {a: 1}, name: 'a_1'}").unwrap();
    f.insert("{_id: 1, a: 1}").unwrap();
    f.insert("{_id: 2, a: 1}").unwrap();
    let change = |f: &Fixture, text: &str| {
        let change = parse(text);
        let changes = CollMod { index: Some(change.as_doc()), ..CollMod::default() };
        f.store.coll_mod(&f.namespace, changes)
    };
    assert!(error(change(&f, "{name: 'a_1', unique: true}")).starts_with("72: "));
    change(&f, "{name: 'a_1', prepareUnique: true}").unwrap();
    assert!(error(f.insert("{_id: 3, a: 1}")).starts_with("11000: "));
    let failed = change(&f, "{name: 'a_1', unique: true}").unwrap_err();
    assert_eq!(
        (failed.code().0, failed.info().unwrap().as_doc().to_string().as_str()),
        (359, "{ violations: [ { ids: [ 1, 2 ] } ] }")
    );
    let collection = f.collection();
    let gone = f.store.write(WriteOptions::default(), &mut |txn| {
        let id = txn.reader().find_id(&collection, 2.into())?.unwrap();
        txn.delete(&collection, id.key(), parse("{_id: 2, a: 1}").as_doc())
    });
    gone.unwrap();
    let reply = change(&f, "{name: 'a_1', unique: true}").unwrap();
    assert_eq!(reply.as_doc().to_string(), "{ unique_new: true }");
    f.reopen();
    assert!(f.collection().index("a_1").unwrap().spec.unique);
    assert!(error(f.insert("{_id: 3, a: 1}")).starts_with("11000: "));
    f.insert("{_id: 3, a: 2}").unwrap();
    assert_eq!(f.ids("a_1"), "1 3");
    f.check_valid();
}
