//! Clustered collections, whose records are stored under their ids: the behaviour shared with other collections,
//! and the specific one.
//!
//! `Kind::Older` is a clustered collection as created before format 3: numbered records and an index on `_id`. Such
//! collections keep that layout.

use nagi_bson::{Doc, DocBuf, Value, ValueBuf, text::doc_text};
use nagi_error::{Code, Result};
use nagi_kv::{Durability, Engine, Memory, Space, TxnOptions};
use nagi_store::{
    BuildOptions, IndexSelector, RecordBuf, RecordId, RecordKey, Store, WriteOptions, WriteTxn,
    keystring,
};
use std::{cell::RefCell, sync::Arc};

use crate::{
    random::Random,
    support::{Fixture, error, parse, placed},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Plain,
    Clustered,
    Older,
}

const KINDS: [Kind; 3] = [Kind::Plain, Kind::Clustered, Kind::Older];
const OPTIONS: &str = "{clusteredIndex: {key: {_id: 1}, unique: true, name: 'i'}}";

fn fixture(kind: Kind) -> Fixture {
    match kind {
        Kind::Plain => Fixture::new(),
        Kind::Clustered => Fixture::clustered(),
        Kind::Older => {
            let mut f = Fixture::clustered();
            make_older(&mut f);
            f
        }
    }
}

fn with_options(options: &str) -> Fixture {
    let f = Fixture::new();
    f.store.drop_collection(&f.namespace).unwrap();
    f.store.create_collection(&f.namespace, parse(options).as_doc()).unwrap();
    f
}

/// The catalog keys of the collections, and their entries.
fn entries(engine: &dyn Engine) -> Vec<(Vec<u8>, DocBuf)> {
    let mut cursor = engine.latest().cursor(Space::Catalog, &[2], &[3]).unwrap();
    let (mut all, mut found) = (Vec::new(), cursor.seek(&[2]).unwrap());
    while found {
        all.push((cursor.key().to_vec(), Doc::parse(cursor.value()).unwrap().to_buf()));
        found = cursor.next().unwrap();
    }
    all
}

/// Removes the layout from the catalog entry of an empty collection.
fn make_older(f: &mut Fixture) {
    let mut txn = f.engine.begin(TxnOptions::default()).unwrap();
    for (key, doc) in entries(&*f.engine) {
        let older = DocBuf::build(|w| {
            for field in doc.as_doc().iter().filter(|field| field.name() != "layout") {
                w.put(field.name(), field.value());
            }
        });
        txn.put(Space::Catalog, &key, older.as_bytes()).unwrap();
    }
    txn.commit(Durability::Buffered).unwrap();
    f.reopen();
}

/// Number of keys in a space, without session records.
fn key_count(f: &Fixture, space: Space) -> usize {
    let mut cursor = f.engine.latest().cursor(space, &[], &[0xFF]).unwrap();
    let (mut count, mut found) = (0, cursor.seek(&[]).unwrap());
    while found {
        count += 1;
        found = cursor.next().unwrap();
    }
    count
}

fn put_all(f: &Fixture, docs: &[&str]) {
    docs.iter().for_each(|doc| {
        f.insert(doc).unwrap();
    });
}

/// Ids of all types and lengths; some are equal to others.
fn id_of(number: u64) -> ValueBuf {
    let text = |len: usize| "x".repeat(len) + &number.to_string();
    let doc = parse(&format!("{{_id: {{a: {number}, b: 'b'}}}}"));
    match number % 8 {
        0 => ValueBuf::new(Value::Int32(number as i32)),
        1 => ValueBuf::new(Value::Double((number / 8 * 8) as f64)),
        2 => ValueBuf::new(Value::String(&text(3))),
        3 => ValueBuf::new(Value::String(&text(300))),
        4 => ValueBuf::new(Value::DateTime(number as i64 - 50)),
        5 => ValueBuf::new(Value::ObjectId(&[number as u8; 12])),
        6 => ValueBuf::new(Value::Double(-(number as f64) / 3.0)),
        _ => ValueBuf::new(doc.get("_id")),
    }
}

fn document(random: &mut Random, id: &ValueBuf) -> DocBuf {
    let (a, b, c) = (random.below(5) as i32, random.below(200) as i32, random.below(3) as i32);
    let has_unique = random.below(3) > 0;
    DocBuf::build(|w| {
        w.put("_id", id.value());
        w.put("a", a);
        if has_unique {
            w.put("u", b);
        }
        w.array("t", |w| {
            w.push(c);
            w.push(a);
            w.push("text");
        });
    })
}

/// Executes one write; returns the result as text.
fn write(f: &Fixture, action: u64, id: &ValueBuf, new: &DocBuf) -> String {
    let done = f.store.write(WriteOptions::default(), &mut |txn| {
        let collection = txn.collection(&f.namespace).unwrap();
        let Some(record) = txn.reader().find_id(&collection, id.value())?.filter(|_| action > 0)
        else {
            return txn.insert(&collection, new.as_doc()).map(drop);
        };
        let mut buf = RecordBuf::default();
        let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
        let as_stored = DocBuf::build(|w| {
            w.put("_id", old.get("_id"));
            new.as_doc().iter().skip(1).for_each(|field| w.put(field.name(), field.value()));
        });
        match action {
            1 => txn.delete(&collection, record.key(), old.as_doc()),
            2 => {
                // Deletes and inserts it again in one transaction.
                txn.delete(&collection, record.key(), old.as_doc())?;
                txn.insert(&collection, as_stored.as_doc()).map(drop)
            }
            _ => txn.update(&collection, record.key(), old.as_doc(), as_stored.as_doc()),
        }
    });
    // The index named in the error differs.
    match done {
        Ok(_) => String::new(),
        Err(error) if error.code() == Code::DUPLICATE_KEY => {
            let text = error.message();
            text[text.find("dup key").unwrap()..].to_owned()
        }
        Err(error) => error.message().to_owned(),
    }
}

/// Keys and documents of an index range, those of one key in the order of their ids, read in two parts.
fn range(f: &Fixture, index: &str, forward: bool, [start, end]: [&[u8]; 2]) -> Vec<String> {
    let (collection, snapshot) = (f.collection(), f.store.snapshot().unwrap());
    let reader = snapshot.reader();
    let index = match index {
        "_id" => collection.id_index(),
        name => collection.index(name),
    };
    let index = index.unwrap();
    let mut found: Vec<(Vec<u8>, Vec<u8>, String)> = Vec::new();
    let mut cursor = reader.index_cursor(index, forward, start, end).unwrap();
    let mut buf = RecordBuf::default();
    while cursor.advance().unwrap() {
        let (key, id) = (cursor.key().to_vec(), cursor.record_id().to_id());
        let doc = reader.record(&collection, id.key(), &mut buf).unwrap().unwrap();
        assert!(cursor.doc().is_empty() || cursor.doc().as_bytes() == doc.as_bytes());
        let mut id_key = Vec::new();
        keystring::append(doc.get("_id"), false, &mut id_key);
        let parts = index.spec.key.iter().map(|part| (&*part.path, part.descending));
        let shown = DocBuf::build(|w| {
            keystring::decode(&key, cursor.type_bits(), parts, w).unwrap();
        });
        let text = format!("{} {}", doc_text(shown.as_doc()), doc_text(doc));
        found.push((key.clone(), id_key, text));
        if found.len() % 7 == 3 {
            cursor = reader.index_cursor(index, forward, start, end).unwrap();
            cursor.resume_after(&key, id.key());
        }
    }
    assert!(found.is_sorted_by(|a, b| if forward { a.0 <= b.0 } else { a.0 >= b.0 }));
    found.sort();
    found.into_iter().map(|(_, _, text)| text).collect()
}

const INDEXES: [(&str, &str); 5] = [
    ("a", "{key: {a: -1}, name: 'a'}"),
    ("t", "{key: {t: 1, a: 1}, name: 't'}"),
    ("u", "{key: {u: 1}, name: 'u', unique: true, sparse: true}"),
    ("s", "{key: {a: 1}, name: 's', partialFilterExpression: {a: {$gt: 2}}}"),
    ("h", "{key: {u: 'hashed'}, name: 'h'}"),
];

/// One step that all fixtures execute; returns the observations.
fn step(f: &Fixture, seed: u64, indexes: &[&str]) -> Vec<String> {
    let mut random = Random::new(seed);
    let choice = random.below(100);
    let mut shown = Vec::new();
    match choice {
        0..=79 => {
            let id = id_of(random.below(120));
            let action = random.below(5);
            let new = document(&mut random, &id);
            shown.push(write(f, action, &id, &new));
            let mut buf = Vec::new();
            let found = f.store.find_by_id(&f.collection(), id.value(), &mut buf).unwrap();
            shown.extend(found.map(doc_text));
        }
        80..=89 => {
            let (low, high) = (id_of(random.below(120)), id_of(random.below(120)));
            let [mut start, mut end] = [Vec::new(), Vec::new()];
            keystring::append(low.value(), false, &mut start);
            keystring::append(high.value(), false, &mut end);
            shown = range(f, "_id", random.below(2) == 0, [&start, &end]);
        }
        90..=95 if !indexes.is_empty() => {
            let name = random.pick(indexes);
            shown = range(f, name, random.below(2) == 0, [&[], &[]]);
        }
        _ => {}
    }
    shown
}

/// The names of the indexes without the one on `_id`, whose name varies.
fn names(f: &Fixture) -> Vec<String> {
    f.collection().indexes.iter().skip(1).map(|index| index.name().to_owned()).collect()
}

#[test]
fn all_kinds_do_the_same() {
    let cases = std::env::var("NAGI_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    for seed in 0..cases {
        let mut all = KINDS.map(fixture);
        let mut random = Random::new(seed);
        for round in 0..6 {
            for _ in 0..120 {
                let there = names(&all[0]);
                let there: Vec<&str> = there.iter().map(String::as_str).collect();
                let seed = random.next();
                let shown = all.each_ref().map(|f| step(f, seed, &there));
                assert_eq!(shown[0], shown[1]);
                assert_eq!(shown[0], shown[2]);
            }
            let (name, spec) = random.pick(&INDEXES);
            let changed = all.each_ref().map(|f| match f.collection().index(name) {
                Some(_) => f.store.drop_indexes(&f.namespace, IndexSelector::Name(name)).is_ok(),
                None => f.index(spec).is_ok(),
            });
            assert!(changed.iter().all(|done| *done == changed[0]), "{name} {changed:?}");
            for (kind, f) in KINDS.iter().zip(&mut all) {
                f.check_valid();
                if round % 2 == 1 {
                    f.store.reindex(&f.namespace, BuildOptions::default()).unwrap();
                    f.reopen();
                    f.check_valid();
                }
                let is_of_records = f.collection().id_index().unwrap().is_of_records();
                assert_eq!(is_of_records, *kind == Kind::Clustered, "{kind:?}");
            }
        }
    }
}

#[test]
fn records_lie_in_the_order_of_their_ids_and_nothing_beside() {
    let f = fixture(Kind::Clustered);
    put_all(&f, &["{_id: 3}", "{_id: 'a'}", "{_id: 1}", "{_id: 2.5}"]);
    assert_eq!(f.docs(), r#"{ _id: 1 } { _id: 2.5 } { _id: 3 } { _id: "a" }"#);
    assert_eq!(f.ids("i"), r#"1 2.5 3 "a""#);
    assert_eq!((key_count(&f, Space::Records), key_count(&f, Space::Index)), (4, 0));
    let twice = error(f.insert("{_id: {$numberLong: '3'}}"));
    assert_eq!(
        twice,
        "11000: E11000 duplicate key error collection: d.c index: i dup key: { _id: 3 }"
    );
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    assert_eq!(key_count(&f, Space::Index), 4);
    f.check_valid();
    let stats = f.store.stats(&f.collection()).unwrap();
    assert_eq!(stats.count, 4);
}

#[test]
fn a_scan_goes_on_behind_any_id() {
    let f = fixture(Kind::Clustered);
    (0..100).for_each(|number| {
        let id = id_of(number * 8 % 97 + number);
        write(&f, 0, &id, &DocBuf::build(|w| w.put("_id", id.value())));
    });
    let collection = f.collection();
    for forward in [true, false] {
        let mut all: Vec<RecordId> = Vec::new();
        let mut scan = f.store.latest().scan(&collection, forward).unwrap();
        while scan.advance().unwrap() {
            all.push(scan.id().to_id());
        }
        assert_eq!(all.len() as i64, collection.count());
        for (at, id) in all.iter().enumerate() {
            let mut scan = f.store.latest().scan(&collection, forward).unwrap();
            scan.resume_after(id.key());
            let more = scan.advance().unwrap();
            assert_eq!(more.then(|| scan.id().to_id()).as_ref(), all.get(at + 1));
        }
    }
}

#[test]
fn strings_lie_in_the_order_of_the_collation() {
    let f = with_options(
        "{clusteredIndex: {key: {_id: 1}, unique: true}, collation: {locale: 'en', strength: 2}}",
    );
    put_all(&f, &["{_id: 'b', n: 1}", "{_id: 'A', n: 2}", "{_id: 'c', n: 3}"]);
    assert!(error(f.insert("{_id: 'B'}")).starts_with("11000"));
    assert_eq!(f.docs(), r#"{ _id: "A", n: 2 } { _id: "b", n: 1 } { _id: "c", n: 3 }"#);
    let mut buf = Vec::new();
    let found = f.store.find_by_id(&f.collection(), "C".into(), &mut buf).unwrap();
    assert_eq!(found.map(|doc| doc.get("n").to_string()), Some("3".to_owned()));
    f.index("{key: {n: 1}, name: 'n'}").unwrap();
    assert_eq!(f.ids("n"), r#""b" "A" "c""#);
    f.check_valid();
}

#[test]
fn ids_have_a_greatest_length() {
    let f = fixture(Kind::Clustered);
    let insert = |len: usize| {
        let id = "x".repeat(len);
        let doc = DocBuf::build(|w| w.put("_id", id.as_str()));
        let write = &mut |txn: &mut WriteTxn<'_>| txn.insert(&f.collection(), doc.as_doc());
        error(f.store.write(WriteOptions::default(), write))
    };
    assert_eq!(insert(1 << 20), "ok");
    assert_eq!(insert(8 << 20), "5894900: Size of RecordId is above limit of 8388608 bytes");
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    f.check_valid();
}

/// Builds indexes over many records with concurrent writers; `each` runs at every step of the build.
fn build_beside(f: &Fixture, specs: &[&str], each: &dyn Fn()) -> Result<()> {
    let specs: Vec<_> = specs.iter().map(|spec| parse(spec)).collect();
    let specs: Vec<_> = specs.iter().map(DocBuf::as_doc).collect();
    let progress = |_: &'static str, _: i64, _: i64| each();
    let (progress, memory_bytes) = (Some(&progress as _), Some(1));
    let options = BuildOptions { progress, memory_bytes, ..BuildOptions::default() };
    f.store.create_indexes(&f.namespace, &specs, options).map(drop)
}

#[test]
fn indexes_are_built_beside_writers() {
    for (kind, count) in [(Kind::Clustered, 1500), (Kind::Older, 1500), (Kind::Clustered, 300)] {
        let f = fixture(kind);
        let collection = f.collection();
        let mut random = Random::new(count);
        let docs: Vec<DocBuf> = (0..count)
            .map(|n| ValueBuf::new(Value::String(&format!("{}{n}", "id".repeat(n as usize % 200)))))
            .map(|id| document(&mut random, &id))
            .collect();
        let fill = &mut |txn: &mut WriteTxn<'_>| {
            docs.iter().try_for_each(|doc| txn.insert(&collection, doc.as_doc()).map(drop))
        };
        f.store.write(WriteOptions::default(), fill).unwrap();
        let random = RefCell::new(random);
        let each = || {
            let mut random = random.borrow_mut();
            for _ in 0..20 {
                let number = random.below(2 * count);
                let id = format!("{}{number}", "id".repeat(number as usize % 200));
                let id = ValueBuf::new(Value::String(&id));
                let (action, new) = (random.below(4), document(&mut random, &id));
                write(&f, action, &id, &new);
            }
        };
        let specs = INDEXES.map(|(_, spec)| spec);
        build_beside(&f, &[specs[0], specs[1], specs[3], specs[4]], &each).unwrap();
        f.check_valid();
        let refused = error(build_beside(&f, &[specs[2]], &|| {}));
        assert!(refused.contains("E11000 duplicate key error"), "{refused}");
        f.check_valid();
    }
}

/// During the build of a unique index two records have one key, and one of them loses it before the end.
#[test]
fn a_unique_build_judges_what_is_there_at_its_end() {
    for count in [300, 1500] {
        for stays in [true, false] {
            let f = fixture(Kind::Clustered);
            (0..count).for_each(|n| drop(f.insert(&format!("{{_id: 'k{n}', u: {n}}}")).unwrap()));
            let once = RefCell::new(true);
            let act = || {
                if once.replace(false) {
                    let id = ValueBuf::new(Value::String("new"));
                    write(&f, 0, &id, &parse("{_id: 'new', u: 5}"));
                    if !stays {
                        write(&f, 1, &id, &parse("{_id: 'new'}"));
                    }
                }
            };
            let built = build_beside(&f, &["{key: {u: 1}, name: 'u', unique: true}"], &act);
            assert_eq!(built.is_err(), stays, "{count}");
            f.check_valid();
        }
    }
}

#[test]
fn validate_finds_records_under_another_id_and_repair_moves_them() {
    let f = fixture(Kind::Clustered);
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    put_all(&f, &["{_id: 1, a: 1}", "{_id: 2, a: 2}", "{_id: 3, a: 3}"]);
    let mut cursor = f.engine.latest().cursor(Space::Records, &[], &[0xFF]).unwrap();
    assert!(cursor.seek(&[]).unwrap());
    let (first, value) = (cursor.key().to_vec(), cursor.value().to_vec());
    // The first record moves to another key, and a copy of it to a third.
    let moved = |id: i32| {
        let mut key = first[..4].to_vec();
        keystring::append(Value::Int32(id), false, &mut key);
        placed(key)
    };
    let mut txn = f.engine.begin(TxnOptions::default()).unwrap();
    txn.delete(Space::Records, &first).unwrap();
    txn.put(Space::Records, &moved(7), &value).unwrap();
    txn.put(Space::Records, &moved(8), &value).unwrap();
    txn.commit(Durability::Buffered).unwrap();
    let report = f.store.validate(&f.collection()).unwrap();
    assert_eq!((report.misplaced_count, report.count_off), (2, -1), "{:?}", report.errors);
    f.store.repair(&f.collection(), &report, BuildOptions::default()).unwrap();
    f.check_valid();
    assert_eq!(f.docs(), "{ _id: 1, a: 1 } { _id: 2, a: 2 } { _id: 3, a: 3 }");
    assert_eq!(f.ids("a"), "1 2 3");
}

#[test]
fn records_whose_entry_is_lost_are_found_again() {
    for (options, kind) in [
        (OPTIONS, Kind::Clustered),
        (
            "{clusteredIndex: {key: {_id: 1}, unique: true}, collation: {locale: 'de'}}",
            Kind::Clustered,
        ),
        ("{}", Kind::Plain),
    ] {
        let f = with_options(options);
        put_all(&f, &["{_id: 'b'}", "{_id: 'A'}", "{_id: 2}"]);
        let mut txn = f.engine.begin(TxnOptions::default()).unwrap();
        for (key, _) in entries(&*f.engine) {
            txn.delete(Space::Catalog, &key).unwrap();
        }
        txn.commit(Durability::Buffered).unwrap();
        let Fixture { engine, store, .. } = f;
        drop(store);
        let (store, salvaged) = Store::salvage(engine, crate::options(), true).unwrap();
        let [name] = &salvaged.orphans[..] else { panic!("{salvaged:?}") };
        let collection = store.collection(&nagi_store::Namespace::parse(name).unwrap()).unwrap();
        assert_eq!(collection.options.clustered.is_some(), kind == Kind::Clustered);
        let report = store.validate(&collection).unwrap();
        assert_eq!((report.record_count, report.errors), (3, Vec::new()));
        assert_eq!(collection.count(), 3);
        let mut buf = Vec::new();
        for id in [Value::from("b"), "A".into(), Value::Int32(2)] {
            assert!(store.find_by_id(&collection, id, &mut buf).unwrap().is_some());
        }
    }
}

#[test]
fn a_rename_to_another_database_copies_it() {
    let f = fixture(Kind::Clustered);
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    (0..1200)
        .for_each(|n| drop(f.insert(&format!("{{_id: 'k{}', a: {n}}}", n * 7 % 1200)).unwrap()));
    let to = nagi_store::Namespace::parse("e.c").unwrap();
    f.store.rename_collection(&f.namespace, &to, Default::default(), &|| Ok(())).unwrap();
    let copy = f.store.collection(&to).unwrap();
    assert!(copy.id_index().unwrap().is_of_records());
    let report = f.store.validate(&copy).unwrap();
    assert_eq!((report.record_count, report.errors), (1200, Vec::new()));
}

#[test]
fn a_transaction_reads_and_undoes_its_own_writes() {
    let f = fixture(Kind::Clustered);
    put_all(&f, &["{_id: 1}", "{_id: 2}"]);
    let collection = f.collection();
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            txn.insert(&collection, parse("{_id: 1.5}").as_doc())?;
            let twice = txn.attempt(|txn| txn.insert(&collection, parse("{_id: 1.5}").as_doc()));
            assert_eq!(twice.unwrap_err().code(), Code::DUPLICATE_KEY);
            let undone = txn.attempt(|txn| {
                txn.insert(&collection, parse("{_id: 9}").as_doc())?;
                txn.insert(&collection, parse("{_id: 2}").as_doc())
            });
            assert_eq!(undone.unwrap_err().code(), Code::DUPLICATE_KEY);
            let mut scan = txn.reader().scan(&collection, true)?;
            let mut ids = Vec::new();
            while scan.advance()? {
                ids.push(scan.doc().get("_id").to_string());
            }
            assert_eq!(ids, ["1", "1.5", "2"]);
            assert!(matches!(scan.id(), RecordKey::Key(_) | RecordKey::Id(0)));
            Ok(())
        })
        .unwrap();
    f.check_valid();
    assert_eq!(f.collection().count(), 3);
}

#[test]
fn two_writers_of_one_id_do_not_both_succeed() {
    let f = fixture(Kind::Clustered);
    let won: usize = std::thread::scope(|scope| {
        let one = || (0..200).filter(|n| f.insert(&format!("{{_id: 'k{n}'}}")).is_ok()).count();
        let all: Vec<_> = (0..3).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((won, f.collection().count()), (200, 200));
    f.check_valid();
}

#[test]
fn a_layout_of_a_later_version_is_refused() {
    let f = fixture(Kind::Clustered);
    let mut txn = f.engine.begin(TxnOptions::default()).unwrap();
    for (key, doc) in entries(&*f.engine) {
        let later = DocBuf::build(|w| {
            doc.as_doc()
                .iter()
                .filter(|e| e.name() != "layout")
                .for_each(|e| w.put(e.name(), e.value()));
            w.put("layout", 4);
        });
        txn.put(Space::Catalog, &key, later.as_bytes()).unwrap();
    }
    txn.commit(Durability::Buffered).unwrap();
    let engine: Arc<dyn Engine> = Arc::clone(&f.engine);
    assert!(Store::open(engine, crate::options()).is_err());
}

#[test]
fn a_folder_of_an_earlier_format_is_read_and_marked() {
    let mut f = fixture(Kind::Older);
    put_all(&f, &["{_id: 2}", "{_id: 1}"]);
    let mark = |f: &Fixture, format: u32| {
        let mut txn = f.engine.begin(TxnOptions::default()).unwrap();
        txn.put(Space::Catalog, &[1, 0, 0, 0, 0], &format.to_le_bytes()).unwrap();
        txn.commit(Durability::Buffered).unwrap();
    };
    for earlier in [1, 2, 3] {
        mark(&f, earlier);
        f.reopen();
        let mut buf = Vec::new();
        let found = f.engine.latest().get(Space::Catalog, &[1, 0, 0, 0, 0], &mut buf).unwrap();
        assert_eq!(found, Some(&4_u32.to_le_bytes()[..]));
    }
    assert_eq!(f.docs(), "{ _id: 2 } { _id: 1 }", "its records stay where they are");
    assert_eq!(f.ids("i"), "1 2");
    f.insert("{_id: 0}").unwrap();
    assert_eq!((f.ids("i").as_str(), key_count(&f, Space::Index)), ("0 1 2", 3));
    f.check_valid();
    // The version after that of data with stripes, which there are over a cluster only.
    mark(&f, if f.engine.capabilities().only_writer { 5 } else { 6 });
    f.close();
    let later = Store::open(Arc::clone(&f.engine), crate::options());
    assert!(error(later).starts_with("12: "));
}

#[test]
fn packed_records_are_unpacked_for_who_wants_them() {
    let mut f = Fixture::on(Memory::saying_compressed());
    f.store.drop_collection(&f.namespace).unwrap();
    let engine = "storageEngine: {wiredTiger: {configString: 'block_compressor=zstd'}}";
    let options = OPTIONS.replacen('{', &format!("{{{engine}, "), 1);
    f.store.create_collection(&f.namespace, parse(&options).as_doc()).unwrap();
    let text = "compressible ".repeat(5000);
    put_all(&f, &["{_id: 3.5}", &format!("{{_id: {{$numberLong: '2'}}, t: '{text}'}}")]);
    put_all(&f, &[&format!("{{_id: 1.0, t: '{text}'}}")]);
    f.reopen();
    f.check_valid();
    assert_eq!(key_count(&f, Space::RecordsZstd), 3);
    let collection = f.collection();
    let index = collection.id_index().unwrap();
    for lends in [false, true] {
        let mut cursor = f.store.latest().index_cursor(index, true, &[], &[]).unwrap();
        if lends {
            cursor.lend_docs();
        }
        let mut shown = Vec::new();
        while cursor.advance().unwrap() {
            let id = DocBuf::build(|w| {
                let parts = [("_id", false)].into_iter();
                keystring::decode(cursor.key(), cursor.type_bits(), parts, w).unwrap();
            });
            shown.push((id.get("_id").kind().name(), !cursor.doc().is_empty()));
        }
        assert_eq!(shown, [("double", lends), ("long", lends), ("double", true)]);
    }
    let mut buf = Vec::new();
    let found = f.store.find_by_id(&collection, Value::Int32(2), &mut buf).unwrap();
    assert_eq!(found.unwrap().get("t").as_str(), Some(&*text));
}
