//! The documents of `local.oplog.rs`: what each change is logged as, forward and backward, and how the log is trimmed.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, doc, json};
use nagi_kv::Memory;
use nagi_store::{
    BuildOptions, CommitStamp, Durability, IndexSelector, Lifetime, Namespace, Oplog, Rename,
    Statement, Store, StoreOptions, Transaction, WriteOptions,
};

fn open() -> Arc<Store> {
    let change_log = Some(Arc::new(Oplog::default()) as _);
    let options = StoreOptions { change_log, ..StoreOptions::default() };
    let store = Store::open(Arc::new(Memory::new()), options).unwrap();
    store.begin_term(3);
    store.show_change_log(1 << 20).unwrap();
    store
}

fn parse(text: &str) -> DocBuf {
    json::parse(text).unwrap()
}

/// The documents of the log in its order; read backward they must be the same.
fn logged(store: &Store) -> Vec<DocBuf> {
    let shown = store.shown_change_log().unwrap();
    let read = |forward| {
        let snapshot = store.snapshot().unwrap();
        let mut cursor = snapshot.reader().scan(&shown, forward).unwrap();
        let mut docs = Vec::new();
        while cursor.advance().unwrap() {
            let Value::Timestamp(stamp) = cursor.doc().get("ts") else { panic!("no ts") };
            assert_eq!(cursor.id().number(), Some(stamp as i64));
            docs.push(cursor.doc().to_buf());
        }
        docs
    };
    let (forward, mut backward) = (read(true), read(false));
    backward.reverse();
    assert!(forward == backward, "{forward:?}\n{backward:?}");
    assert_eq!(shown.count(), forward.len() as i64);
    forward
}

/// `op`, `ns`, `o` and `o2` of each document.
fn shown(docs: &[DocBuf]) -> Vec<String> {
    let short = |doc: &DocBuf| {
        let doc = doc.as_doc();
        let text =
            |name: &str| doc.element(name).map_or(String::new(), |e| format!(" {}", e.value()));
        format!("{}{}{}{}", doc.get("op").as_str().unwrap(), text("ns"), text("o"), text("o2"))
    };
    docs.iter().map(short).collect()
}

fn insert(store: &Store, name: &str, docs: &[&str]) {
    let collection = store.collection_or_create(&Namespace::parse(name).unwrap()).unwrap();
    let docs: Vec<DocBuf> = docs.iter().map(|text| parse(text)).collect();
    let written = store.write(WriteOptions::default(), &mut |txn| {
        docs.iter().try_for_each(|doc| txn.insert(&collection, doc.as_doc()).map(drop))
    });
    written.unwrap();
}

/// Replaces or modifies the document of this `_id`, or deletes it if `new` is none.
fn change(store: &Store, name: &str, id: i32, new: Option<&str>, replace: bool) {
    let collection = store.collection(&Namespace::parse(name).unwrap()).unwrap();
    let new = new.map(parse);
    let written = store.write(WriteOptions::default(), &mut |txn| {
        let mut buf = nagi_store::RecordBuf::default();
        let (record, old) =
            txn.reader().record_by_id(&collection, Value::Int32(id), &mut buf)?.unwrap();
        let old = old.to_buf();
        match &new {
            Some(new) if replace => txn.update_by(
                nagi_store::EditKind::Replacement,
                &collection,
                record.key(),
                old.as_doc(),
                new.as_doc(),
            ),
            Some(new) => txn.update(&collection, record.key(), old.as_doc(), new.as_doc()),
            None => txn.delete(&collection, record.key(), old.as_doc()),
        }
    });
    written.unwrap();
}

#[test]
fn changes_of_documents_are_logged_as_by_mongodb() {
    let store = open();
    insert(&store, "d.c", &["{_id: 1, a: 1}", "{_id: 2}"]);
    change(&store, "d.c", 1, Some("{_id: 1, a: 2, b: 3}"), false);
    change(&store, "d.c", 1, Some("{_id: 1, z: 1}"), true);
    change(&store, "d.c", 2, None, false);
    insert(&store, "local.own", &["{_id: 1}"]);
    store.append_note(doc! { "msg": "hello" }.as_doc()).unwrap();
    let docs = logged(&store);
    let create = r#"c d.$cmd { create: "c", idIndex: { v: 2, key: { _id: 1 }, name: "_id_" } }"#;
    let expected = [
        create.replace("c d.$cmd", r#"c "d.$cmd""#),
        r#"i "d.c" { _id: 1, a: 1 } { _id: 1 }"#.to_owned(),
        r#"i "d.c" { _id: 2 } { _id: 2 }"#.to_owned(),
        r#"u "d.c" { $v: 2, diff: { u: { a: 2 }, i: { b: 3 } } } { _id: 1 }"#.to_owned(),
        r#"u "d.c" { _id: 1, z: 1 } { _id: 1 }"#.to_owned(),
        r#"d "d.c" { _id: 2 }"#.to_owned(),
        r#"n "" { msg: "hello" }"#.to_owned(),
    ];
    assert_eq!(shown(&docs), expected);
    // One commit, two stamps.
    let stamp = |at: usize| match docs[at].get("ts") {
        Value::Timestamp(stamp) => stamp,
        other => panic!("{other}"),
    };
    assert_eq!(stamp(2), stamp(1) + 1);
    assert!(
        docs.iter().all(|doc| doc.get("t") == Value::Int64(3) && doc.get("v") == Value::Int64(2))
    );
    assert!(docs.iter().all(|doc| matches!(doc.get("wall"), Value::DateTime(ms) if ms > 0)));
    assert_eq!(store.last_stamp().0, stamp(6));
}

#[test]
fn changes_of_the_catalog_are_logged_as_commands() {
    let store = open();
    let names = ["d.a", "d.b", "e.c"].map(|name| Namespace::parse(name).unwrap());
    store.create_collection(&names[0], parse("{capped: true, size: 4096}").as_doc()).unwrap();
    store.create_collection(&names[1], Doc::EMPTY).unwrap();
    let spec = |text: &str| parse(text);
    let one = spec("{key: {x: 1}, name: 'x'}");
    store.create_indexes(&names[1], &[one.as_doc()], BuildOptions::default()).unwrap();
    store.drop_indexes(&names[1], IndexSelector::Name("x")).unwrap();
    for (key, name) in [("y", "y1"), ("z", "z1")] {
        let one = spec(&format!("{{key: {{{key}: 1}}, name: '{name}'}}"));
        store.create_indexes(&names[1], &[one.as_doc()], BuildOptions::default()).unwrap();
    }
    // An entry for each: mongorestore reads no list of names.
    store.drop_indexes(&names[1], IndexSelector::All).unwrap();
    let how = Rename { drop_target: true, ..Rename::default() };
    store.rename_collection(&names[1], &names[0], how, &|| Ok(())).unwrap();
    store.create_collection(&names[2], Doc::EMPTY).unwrap();
    store.drop_database("e").unwrap();
    let found = shown(&logged(&store)).join("\n");
    let expected = [
        r#"c "d.$cmd" { create: "a", capped: true, size: 4096, idIndex"#,
        r#"c "d.$cmd" { create: "b", idIndex"#,
        r#"c "d.$cmd" { createIndexes: "b", v: 2, key: { x: 1 }, name: "x" }"#,
        r#"c "d.$cmd" { dropIndexes: "b", index: "x" } { v: 2, key: { x: 1 }, name: "x" }"#,
        r#"c "d.$cmd" { createIndexes: "b", v: 2, key: { y: 1 }, name: "y1" }"#,
        r#"c "d.$cmd" { createIndexes: "b", v: 2, key: { z: 1 }, name: "z1" }"#,
        r#"c "d.$cmd" { dropIndexes: "b", index: "y1" } { v: 2, key: { y: 1 }, name: "y1" }"#,
        r#"c "d.$cmd" { dropIndexes: "b", index: "z1" } { v: 2, key: { z: 1 }, name: "z1" }"#,
        r#"c "d.$cmd" { renameCollection: "d.b", to: "d.a", stayTemp: false, dropTarget: "#,
        r#"c "e.$cmd" { create: "c", idIndex"#,
        r#"c "e.$cmd" { drop: "c" } { numRecords: 0 }"#,
        r#"c "e.$cmd" { dropDatabase: 1 }"#,
    ];
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{found}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
}

/// A transaction of a client with one insert of so many bytes for each of `sizes`.
#[test]
fn a_conversion_is_logged_as_a_copy_that_replaces_the_collection() {
    let store = open();
    let name = Namespace::parse("d.c").unwrap();
    insert(&store, "d.c", &["{_id: 1}", "{_id: 2}"]);
    let before = store.collection(&name).unwrap().uuid;
    let capped = parse("{capped: true, size: 5000}");
    store.convert_to_capped(&name, capped.as_doc(), &|| Ok(())).unwrap();
    let entries = logged(&store).split_off(3);
    let ops: Vec<&str> = entries.iter().map(|entry| entry.get("op").as_str().unwrap()).collect();
    assert_eq!(ops, ["c", "i", "i", "c"]);
    let create = entries[0].get("o").as_doc().unwrap();
    let temporary = create.get("create").as_str().unwrap();
    assert!(temporary.starts_with("tmp") && temporary.ends_with(".convertToCapped.c"));
    assert_eq!(create.get("temp"), Value::Bool(true));
    assert_eq!(create.get("capped"), Value::Bool(true));
    assert_eq!(entries[2].get("ns").as_str(), Some(&*format!("d.{temporary}")));
    let rename = entries[3].get("o").as_doc().unwrap().to_string();
    let uuid =
        nagi_bson::doc! { "id": Value::Binary(nagi_bson::Binary { subtype: 4, bytes: &before.0 }) };
    let uuid = uuid.get("id").to_string();
    let expected = format!(
        "{{ renameCollection: \"d.{temporary}\", to: \"d.c\", stayTemp: false, dropTarget: {uuid} }}"
    );
    assert_eq!(rename, expected);
    let ui = entries[3].get("ui").to_string();
    assert!(entries[..3].iter().all(|entry| entry.get("ui").to_string() == ui) && ui != uuid);
    assert!(!store.collection(&name).unwrap().options.is_temporary());
}

fn transaction(store: &Store, number: i64, sizes: &[usize]) {
    let handle = store.for_client();
    let statement = Statement { session: [7; 16], user: [9; 32], number, id: -1, before: None };
    handle.client().set_statement(Some(statement));
    let txn = Transaction::begin(&handle, Lifetime::Long).unwrap();
    let collection = txn.store().collection(&Namespace::parse("d.c").unwrap()).unwrap();
    for (at, size) in sizes.iter().enumerate() {
        let text = "x".repeat(*size);
        let doc = doc! { "_id": format!("{number}.{at}").as_str(), "s": text.as_str() };
        let written = txn.store().write(WriteOptions::default(), &mut |txn| {
            txn.insert(&collection, doc.as_doc()).map(drop)
        });
        written.unwrap();
    }
    txn.commit(Durability::Buffered).unwrap();
}

#[test]
fn a_transaction_is_one_entry_unless_it_is_larger_than_a_document() {
    let store = open();
    insert(&store, "d.c", &[]);
    transaction(&store, 1, &[10]);
    insert(&store, "d.c", &["{_id: 1}"]);
    transaction(&store, 2, &[10, 20, 30]);
    transaction(&store, 3, &[6 << 20, 6 << 20, 6 << 20, 5]);
    let docs = logged(&store);
    let ops = |at: usize| {
        let object = docs[at].get("o").as_doc().unwrap();
        let count = object.get("applyOps").as_array().unwrap().count();
        (
            count,
            object.get("partialTxn") == Value::Bool(true),
            docs[at].get("txnNumber").to_string(),
        )
    };
    assert_eq!(docs.len(), 6, "{:?}", shown(&docs[..3]));
    assert_eq!(ops(1), (1, false, "1".to_owned()));
    assert_eq!(ops(3), (3, false, "2".to_owned()));
    assert_eq!(ops(4), (2, true, "3".to_owned()));
    assert_eq!(ops(5), (2, false, "3".to_owned()));
    let total = |at: usize| docs[at].get("o").as_doc().unwrap().get("count");
    assert_eq!((total(3), total(4), total(5)), (Value::Missing, Value::Missing, Value::Int64(4)));
    let ops = docs[5].get("o").as_doc().unwrap().get("applyOps").to_string();
    assert!(!ops.contains("opsBefore"));
    let before = |at: usize| docs[at].get("prevOpTime").as_doc().unwrap().get("ts");
    assert_eq!((before(3), before(4)), (Value::Timestamp(0), Value::Timestamp(0)));
    assert_eq!(before(5), docs[4].get("ts"));
    let first = docs[3].get("o").as_doc().unwrap().get("applyOps").as_array().unwrap().get(0);
    let first = first.as_doc().unwrap();
    assert!(first.element("lsid").is_none() && first.get("op").as_str() == Some("i"));
    assert_eq!(docs[3].get("lsid").as_doc().unwrap().iter().count(), 2);
}

#[test]
fn entries_refer_to_those_before_with_their_term() {
    let store = open();
    insert(&store, "d.c", &[]);
    let collection = store.collection(&Namespace::parse("d.c").unwrap()).unwrap();
    let handle = store.for_client();
    let mut before = None;
    for term in [3, 4] {
        store.begin_term(term);
        let statement = Statement { session: [7; 16], user: [9; 32], number: 1, id: 0, before };
        handle.client().set_statement(Some(statement));
        let written = handle.write(WriteOptions::default(), &mut |txn| {
            txn.insert(&collection, doc! { "_id": term }.as_doc()).map(drop)
        });
        written.unwrap();
        let stamp = handle.client().committed().unwrap();
        before = Some((stamp.0, handle.client().logged_term()));
    }
    let docs = logged(&store);
    let [first, second] = &docs[docs.len() - 2..] else { panic!("{docs:?}") };
    assert_eq!((first.get("t"), second.get("t")), (Value::Int64(3), Value::Int64(4)));
    let before = second.get("prevOpTime").as_doc().unwrap();
    assert_eq!((before.get("ts"), before.get("t")), (first.get("ts"), Value::Int64(3)));
}

#[test]
fn the_oldest_entries_are_removed_and_readers_begin_behind_them() {
    let store = open();
    let ever = CommitStamp(u64::MAX);
    let trim = |kept| store.trim_change_log(kept, &mut || Ok(())).unwrap();
    let text = format!("{{s: '{}'}}", "y".repeat(10_000));
    for _ in 0..100 {
        insert(&store, "d.c", &[&text]);
    }
    assert_eq!(trim(ever), None, "it is not full");
    for _ in 0..30 {
        insert(&store, "d.c", &[&text]);
    }
    let docs = logged(&store);
    let Value::Timestamp(kept) = docs[0].get("ts") else { panic!("no ts") };
    assert_eq!(trim(CommitStamp(kept)), None, "it is too young");
    let trimmed = trim(ever).unwrap();
    assert!(trimmed.bytes > 200_000 && trimmed.documents > 20, "{trimmed:?}");
    let docs = logged(&store);
    assert_eq!(docs.len() as i64, 131 - trimmed.documents);
    assert!(store.shown_change_log().unwrap().data_bytes() <= 1 << 20);
    assert_eq!(trim(ever), None);
    // An entry that is larger than the log stays, for it is the newest.
    let text = format!("{{s: '{}'}}", "y".repeat(3 << 20));
    insert(&store, "d.c", &[&text]);
    while trim(ever).is_some() {}
    assert_eq!(logged(&store).len(), 1);
}

/// Pre-images vanish as documents of an ordinary collection do: a reader finds those that are left.
#[test]
fn readers_of_pre_images_continue_behind_what_was_removed() {
    let store = open();
    store.show_pre_images().unwrap();
    let name = Namespace::parse("d.c").unwrap();
    let options = parse("{changeStreamPreAndPostImages: {enabled: true}}");
    let collection = store.create_collection(&name, options.as_doc()).unwrap();
    let change = |count: usize| {
        for id in 0..count {
            let doc = parse(&format!("{{_id: {id}, s: '{}'}}", "y".repeat(10_000)));
            let written = store.write(WriteOptions::default(), &mut |txn| {
                let id = txn.insert(&collection, doc.as_doc())?;
                txn.delete(&collection, id.key(), doc.as_doc()).map(drop)
            });
            written.unwrap();
        }
    };
    change(40);
    let images = store.collection(&Namespace::parse("config.system.preimages").unwrap()).unwrap();
    let left = || {
        let snapshot = store.snapshot().unwrap();
        let mut cursor = snapshot.reader().scan(&images, true).unwrap();
        std::iter::from_fn(|| cursor.advance().unwrap().then(|| cursor.doc().to_buf()))
            .collect::<Vec<_>>()
    };
    let all = left();
    assert_eq!(all.len(), 40);
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.reader().scan(&images, true).unwrap();
    assert!(cursor.advance().unwrap());
    assert!(cursor.doc() == all[0].as_doc());
    change(60);
    while store.trim_change_log(CommitStamp(u64::MAX), &mut || Ok(())).unwrap().is_some() {}
    let kept = left();
    assert!(kept.len() < 100 && kept[0] != all[0], "{}", kept.len());
    let mut rest = 0;
    while cursor.advance().unwrap() {
        rest += 1;
    }
    assert!(rest < 40, "{rest}");
}

#[test]
fn a_trim_is_finished_and_the_counters_hold_after_a_restart() {
    let engine: Arc<dyn nagi_kv::Engine> = Arc::new(Memory::new());
    let open = || {
        let change_log = Some(Arc::new(Oplog::default()) as _);
        let options = StoreOptions { change_log, ..StoreOptions::default() };
        Store::open(Arc::clone(&engine), options).unwrap()
    };
    let store = open();
    store.begin_term(3);
    store.show_change_log(1 << 20).unwrap();
    let text = format!("{{s: '{}'}}", "y".repeat(10_000));
    (0..200).for_each(|_| insert(&store, "d.c", &[&text]));
    while store.trim_change_log(CommitStamp(u64::MAX), &mut || Ok(())).unwrap().is_some() {}
    let before = logged(&store);
    drop(store);
    let store = open();
    assert!(logged(&store) == before);
    assert_eq!(window(&store), ends(&before));
    let shown = store.shown_change_log().unwrap();
    let report = store.validate(&shown).unwrap();
    assert!(report.errors.is_empty() && report.record_count == before.len() as i64, "{report:?}");
    // The term continues until the next one begins.
    insert(&store, "d.c", &["{_id: 1}"]);
    let after = logged(&store);
    assert_eq!(after.last().unwrap().get("t"), Value::Int64(3));
    assert_eq!(window(&store), ends(&after));
    // Without a log it may be dropped, and a later one begins anew.
    drop(store);
    let store = Store::open(Arc::clone(&engine), StoreOptions::default()).unwrap();
    store.drop_collection(&shown.namespace).unwrap();
    drop(store);
    let store = open();
    store.show_change_log(1 << 20).unwrap();
    assert!(logged(&store).is_empty());
    assert_eq!(store.change_log_window().unwrap(), None);
}

fn window(store: &Store) -> (u64, u64) {
    let (first, newest) = store.change_log_window().unwrap().unwrap();
    (first.0, newest.0)
}

/// The stamps of the first and of the last entry.
fn ends(docs: &[DocBuf]) -> (u64, u64) {
    let stamp = |doc: &DocBuf| match doc.get("ts") {
        Value::Timestamp(stamp) => stamp,
        other => panic!("{other:?}"),
    };
    (stamp(&docs[0]), stamp(docs.last().unwrap()))
}

#[test]
fn what_a_failed_statement_logged_is_rolled_back() {
    let store = open();
    insert(&store, "d.c", &[]);
    let collection = store.collection(&Namespace::parse("d.c").unwrap()).unwrap();
    let docs = ["{_id: 1}", "{_id: 2}", "{_id: 3}"].map(parse);
    let written = store.write(WriteOptions::default(), &mut |txn| {
        txn.insert(&collection, docs[0].as_doc())?;
        let failed = txn.attempt(|txn| {
            txn.insert(&collection, docs[1].as_doc())?;
            txn.insert(&collection, docs[0].as_doc()).map(drop)
        });
        assert!(failed.is_err());
        txn.insert(&collection, docs[2].as_doc()).map(drop)
    });
    written.unwrap();
    let ids: Vec<String> = logged(&store)[1..].iter().map(|doc| doc.get("o").to_string()).collect();
    assert_eq!(ids, ["{ _id: 1 }", "{ _id: 3 }"]);
}

#[test]
fn nothing_changes_it_but_the_log() {
    let store = open();
    let shown = store.shown_change_log().unwrap();
    let document = doc! { "_id": 1 };
    let write = store
        .write(WriteOptions::default(), &mut |txn| txn.insert(&shown, document.as_doc()).map(drop));
    assert_eq!(write.err().unwrap().code().0, 73);
    let name = &shown.namespace;
    let (other, elsewhere) =
        (Namespace::parse("local.x").unwrap(), Namespace::parse("d.x").unwrap());
    let capped = parse("{capped: true, size: 5000}");
    let index = parse("{key: {x: 1}, name: 'x'}");
    for refused in [
        store.drop_collection(name).map(drop),
        store.rename_collection(name, &other, Rename::default(), &|| Ok(())),
        store.rename_collection(name, &elsewhere, Rename::default(), &|| Ok(())),
        store.convert_to_capped(name, capped.as_doc(), &|| Ok(())),
        store.create_indexes(name, &[index.as_doc()], BuildOptions::default()).map(drop),
        store.drop_database("local").map(drop),
        store.drop_indexes(name, IndexSelector::All).map(drop),
        store.drop_indexes(name, IndexSelector::Name("x")).map(drop),
    ] {
        assert_eq!(refused.err().unwrap().code().0, 20);
    }
    store.create_collection(&other, Doc::EMPTY).unwrap();
    let how = Rename { drop_target: true, ..Rename::default() };
    assert_eq!(store.rename_collection(&other, name, how, &|| Ok(())).err().unwrap().code().0, 20);
    assert!(logged(&store).is_empty());
    // Its size may change.
    assert_eq!(store.show_change_log(2 << 20).unwrap().options.size_bytes_max, Some(2 << 20));
    insert(&store, "d.c", &["{_id: 1}"]);
    assert_eq!(logged(&store).len(), 2);
}
