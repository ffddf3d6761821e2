//! Index builds with concurrent writers.

use nagi_store::{BuildOptions, WriteOptions};

use crate::{
    random::Random,
    support::{Done, Fixture, error, parse},
};

#[test]
fn a_unique_build_over_duplicates_leaves_nothing_behind() {
    let mut f = Fixture::new();
    (0..600).for_each(|id| {
        f.insert(&format!("{{_id: {id}, a: {}}}", id % 500)).unwrap();
    });
    let failed = error(f.index("{key: {a: 1}, name: 'a_1', unique: true}"));
    let (build, cause) = failed.split_once(": Collection d.c ( ").expect(&failed);
    assert!(build.starts_with("11000: Index build failed: "), "{failed}");
    assert_eq!(
        cause.split_once(' ').expect("a UUID").1,
        ") :: caused by :: E11000 duplicate key error collection: d.c index: a_1 dup key: { a: 0 }"
    );
    assert_eq!(f.collection().indexes.len(), 1);
    f.reopen();
    assert_eq!(f.collection().indexes.len(), 1);
    f.index("{key: {a: 1}, name: 'a_1'}").unwrap();
    f.check_valid();
}

#[test]
fn an_interrupted_build_is_undone() {
    let f = Fixture::new();
    (0..1000).for_each(|id| {
        f.insert(&format!("{{_id: {id}, a: {id}}}")).unwrap();
    });
    let stop = || nagi_error::bail!(nagi_error::Code::INTERRUPTED, "operation was interrupted");
    let spec = parse("{key: {a: 1}, name: 'a_1'}");
    let options = BuildOptions { interrupt: Some(&stop), ..BuildOptions::default() };
    let failed = f.store.create_indexes(&f.namespace, &[spec.as_doc()], options);
    assert_eq!(error(failed), "11601: operation was interrupted");
    assert_eq!(f.collection().indexes.len(), 1);
    f.check_valid();
}

/// Counts the interrupt checks of each operation, and interrupts it at the first, the middle and the last one: the
/// number of records handled between two checks is limited.
#[test]
fn long_operations_look_at_the_interrupt() {
    const RECORDS: u64 = 1600;
    type Go<'a> = &'a dyn Fn() -> nagi_error::Result<()>;
    type Run = fn(&Fixture, Go<'_>) -> nagi_error::Result<()>;
    fn build(f: &Fixture, spec: &str, go_on: Go<'_>) -> nagi_error::Result<()> {
        let spec = parse(spec);
        let options = BuildOptions { interrupt: Some(go_on), ..BuildOptions::default() };
        f.store.create_indexes(&f.namespace, &[spec.as_doc()], options).map(drop)
    }
    let rows: [(&str, u64, Run); 4] = [
        ("createIndexes", 32, |f, go| build(f, "{key: {a: 1}, name: 'a'}", go)),
        ("createIndexes, multikey", 32, |f, go| build(f, "{key: {t: 1}, name: 't'}", go)),
        ("createIndexes, unique", 32, |f, go| {
            build(f, "{key: {_id: 1, a: 1}, name: 'u', unique: true}", go)
        }),
        ("convertToCapped", 1000, |f, go| {
            let options = parse("{capped: true, size: 1000000}");
            f.store.convert_to_capped(&f.namespace, options.as_doc(), go).map(drop)
        }),
    ];
    for (name, records, run) in rows {
        let start = |stop_at: u64| {
            let f = Fixture::new();
            for id in 0..RECORDS {
                f.insert(&format!("{{_id: {id}, a: {}, t: ['x', {id}]}}", id % 7)).unwrap();
            }
            let asked = std::cell::Cell::new(0);
            let go_on = || {
                asked.set(asked.get() + 1);
                match asked.get() {
                    n if n >= stop_at => {
                        Err(nagi_error::err!(nagi_error::Code::INTERRUPTED, "stopped"))
                    }
                    _ => Ok(()),
                }
            };
            let result = run(&f, &go_on);
            f.check_valid();
            (result, asked.get())
        };
        let (result, times) = start(u64::MAX);
        result.unwrap();
        assert!(times >= RECORDS / records, "{name}: asked {times} times");
        for stop_at in [1, times.div_ceil(2), times] {
            let (result, _) = start(stop_at);
            assert_eq!(error(result), "11601: stopped", "{name} at {stop_at} of {times}");
        }
    }
}

/// Three writers insert, update and delete during the build of two indexes; afterwards everything must be
/// consistent.
#[test]
fn writers_go_on_during_a_build() {
    for seed in 0..2 {
        let f = Fixture::new();
        for id in 0..1000 {
            f.insert(&format!("{{_id: {id}, a: {}, t: ['x', {id}]}}", id % 7)).unwrap();
        }
        let done = Done::default();
        std::thread::scope(|scope| {
            let over = done.guard();
            for writer in 0..3 {
                let (f, done) = (&f, &done);
                scope.spawn(move || {
                    let mut random = Random::new(seed * 10 + writer);
                    while !done.is_over() {
                        write_one(f, &mut random);
                    }
                });
            }
            let specs = [
                parse("{key: {a: 1, _id: -1}, name: 'a', unique: true}"),
                parse("{key: {t: 1}, name: 't'}"),
            ];
            let specs = [specs[0].as_doc(), specs[1].as_doc()];
            let built = f.store.create_indexes(&f.namespace, &specs, BuildOptions::default());
            drop(over);
            assert_eq!(built.unwrap().after, 3);
        });
        assert!(f.collection().index("t").unwrap().is_multikey());
        f.check_valid();
    }
}

fn write_one(f: &Fixture, random: &mut Random) {
    let id = random.below(3000) as i32;
    let action = random.below(3);
    let new = parse(&format!("{{_id: {id}, a: {}, t: [1, {}]}}", random.below(9), id % 5));
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            // The indexes of the version that it has entered are there until it ends.
            txn.enter(&txn.collection(&f.namespace).unwrap())?;
            let collection = txn.collection(&f.namespace).unwrap();
            let Some(record) = txn.reader().find_id(&collection, id.into())? else {
                return txn.insert(&collection, new.as_doc()).map(drop);
            };
            let mut buf = nagi_store::RecordBuf::default();
            let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
            match action {
                0 => txn.delete(&collection, record.key(), old.as_doc()),
                _ => txn.update(&collection, record.key(), old.as_doc(), new.as_doc()),
            }
        })
        .unwrap();
}

/// Several applications start at the same time and each creates the same indexes.
#[test]
fn the_same_index_is_built_once() {
    let f = Fixture::new();
    (0..3000).for_each(|id| {
        f.insert(&format!("{{_id: {id}, a: {id}}}")).unwrap();
    });
    std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..4).map(|_| scope.spawn(|| f.index("{key: {a: 1}, name: 'a_1'}"))).collect();
        for one in all {
            assert_eq!(one.join().unwrap().unwrap().after, 2);
        }
    });
    assert!(f.collection().index("a_1").unwrap().ready);
    f.check_valid();
}

/// Builds a unique index over `a`; `act` runs once, after the first batch.
fn build_unique(f: &Fixture, act: &dyn Fn()) -> String {
    (0..1000).for_each(|id| {
        f.insert(&format!("{{_id: {id}, a: {id}}}")).unwrap();
    });
    let once = std::cell::Cell::new(true);
    let progress = |_: &'static str, _: i64, _: i64| {
        if once.replace(false) {
            act();
        }
    };
    let spec = parse("{key: {a: 1}, name: 'a_1', unique: true}");
    let options = BuildOptions { progress: Some(&progress), ..BuildOptions::default() };
    error(f.store.create_indexes(&f.namespace, &[spec.as_doc()], options))
}

fn delete(f: &Fixture, id: i32) {
    let collection = f.collection();
    f.store
        .write(WriteOptions::default(), &mut |txn| {
            let record = txn.reader().find_id(&collection, id.into())?.unwrap();
            let mut buf = nagi_store::RecordBuf::default();
            let old = txn.reader().record(&collection, record.key(), &mut buf)?.unwrap().to_buf();
            txn.delete(&collection, record.key(), old.as_doc())
        })
        .unwrap();
}

#[test]
fn a_writers_duplicate_fails_the_build_not_the_writer() {
    let f = Fixture::new();
    let built = build_unique(&f, &|| {
        f.insert("{_id: 'twin', a: 5}").unwrap();
    });
    assert!(built.starts_with("11000: Index build failed: "), "{built}");
    assert!(built.ends_with("dup key: { a: 5 }"), "{built}");
    assert_eq!(f.collection().indexes.len(), 1);
    assert_eq!(f.collection().count(), 1001);
    f.check_valid();
}

#[test]
fn a_duplicate_that_is_gone_at_the_end_fails_nothing() {
    let f = Fixture::new();
    let built = build_unique(&f, &|| {
        // The older document is deleted: the quarantined entry takes its place.
        f.insert("{_id: 'twin', a: 5}").unwrap();
        delete(&f, 5);
        // The newer document is deleted: no quarantined entry remains.
        f.insert("{_id: 2000, a: 6}").unwrap();
        delete(&f, 2000);
        // Both are deleted.
        f.insert("{_id: 2001, a: 7}").unwrap();
        delete(&f, 7);
        delete(&f, 2001);
    });
    assert_eq!(built, "ok");
    f.check_valid();
    assert_eq!(
        f.ids("a_1").split(' ').take(8).collect::<Vec<_>>().join(" "),
        "0 1 2 3 4 \"twin\" 6 8"
    );
    assert!(error(f.insert("{_id: 3000, a: 5}")).starts_with("11000"));
    f.insert("{_id: 3000, a: 7}").unwrap();
}

#[test]
fn indexes_are_built_again_beside_writers() {
    let f = Fixture::new();
    f.index("{key: {t: 1}, name: 't'}").unwrap();
    f.index("{key: {a: 1, _id: -1}, name: 'a', unique: true}").unwrap();
    for id in 0..1200 {
        f.insert(&format!("{{_id: {id}, a: {}, t: ['x', {id}]}}", id % 7)).unwrap();
    }
    let done = Done::default();
    std::thread::scope(|scope| {
        let over = done.guard();
        scope.spawn(|| {
            let mut random = Random::new(7);
            while !done.is_over() {
                write_one(&f, &mut random);
            }
        });
        assert_eq!(f.store.reindex(&f.namespace, BuildOptions::default()).unwrap(), 3);
        drop(over);
    });
    assert_eq!(f.collection().indexes.len(), 3);
    assert!(f.collection().indexes.iter().all(|index| index.ready));
    f.check_valid();
    let report = f.store.validate(&f.collection()).unwrap();
    assert!(!f.store.repair(&f.collection(), &report, BuildOptions::default()).unwrap().any);
}

#[test]
fn a_repair_sets_counters_and_indexes_right() {
    let mut f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    for id in 0..20 {
        f.insert(&format!("{{_id: {id}, a: {id}}}")).unwrap();
    }
    f.damage();
    f.reopen();
    let collection = f.collection();
    let report = f.store.validate(&collection).unwrap();
    assert_eq!((report.count_off, report.wrong_indexes.len()), (5, 1), "{report:?}");
    assert!(f.store.repair(&collection, &report, BuildOptions::default()).unwrap().any);
    f.check_valid();
    f.reopen();
    f.check_valid();
}

/// Overwrites the stored form of the record with this number, bypassing the store.
fn garble(f: &Fixture, number: i64, value: &[u8]) {
    use nagi_kv::{Durability, Space, TxnOptions};
    let number = ((number as u64) ^ (1 << 63)).to_be_bytes();
    let mut txn = f.engine.begin(TxnOptions::default()).unwrap();
    let mut keys = Vec::new();
    for space in Space::ALL.into_iter().filter(|space| space.is_records()) {
        let mut cursor = txn.cursor(space, &[], &[]).unwrap();
        let mut found = cursor.seek(&[]).unwrap();
        while found {
            if cursor.key().ends_with(&number) {
                keys.push((space, cursor.key().to_vec()));
            }
            found = cursor.next().unwrap();
        }
    }
    // The memory engine shows one space under several names.
    let (space, key) = keys.first().unwrap();
    txn.put(*space, key, value).unwrap();
    txn.commit(Durability::Buffered).unwrap();
}

#[test]
fn records_that_are_no_documents_go_to_the_lost_and_found() {
    let mut f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    for id in 0..20 {
        f.insert(&format!("{{_id: {id}, a: {id}}}")).unwrap();
    }
    let id = |id: i32| nagi_bson::Value::Int32(id);
    // Loads the document into the record cache too.
    let mut buf = Vec::new();
    assert!(f.store.find_by_id(&f.collection(), id(3), &mut buf).unwrap().is_some());
    let broken: [&[u8]; 4] = [b"\0\x10\0\0\0\x02broken", b"\x01packed", b"\x07unknown", b""];
    // Documents 3 to 6.
    for (number, value) in (4..).zip(broken) {
        garble(&f, number, value);
    }
    let report = f.store.validate(&f.collection()).unwrap();
    assert_eq!((report.record_count, report.invalid_count), (20, 4), "{report:?}");
    let repaired = f.store.repair(&f.collection(), &report, BuildOptions::default()).unwrap();
    assert_eq!((repaired.any, repaired.corrupt_records), (true, 4));
    f.check_valid();
    assert_eq!(f.collection().count(), 16);
    assert_eq!(f.ids("a"), "0 1 2 7 8 9 10 11 12 13 14 15 16 17 18 19");
    assert!(f.store.find_by_id(&f.collection(), id(3), &mut buf).unwrap().is_none());
    // The original bytes are kept unchanged.
    let kept = nagi_store::lost_and_found(&f.collection());
    let kept = f.store.collection(&nagi_store::Namespace::parse(&kept).unwrap()).unwrap();
    assert_eq!(kept.count(), 4);
    let mut scan = f.store.latest().scan(&kept, true).unwrap();
    for value in broken {
        assert!(scan.advance().unwrap());
        let doc = scan.doc();
        assert_eq!(doc.get("ns").as_str(), Some("d.c"));
        assert!(doc.get("error").as_str().is_some_and(|text| !text.is_empty()));
        let nagi_bson::Value::Binary(bytes) = doc.get("bytes") else { panic!("{doc:?}") };
        let bytes = bytes.bytes;
        assert_eq!(bytes, value);
        assert_eq!(nagi_bson::number::as_i64_exact(doc.get("byteCount")), Some(value.len() as i64));
    }
    // A later record does not reuse a number that an index had.
    f.insert("{_id: 100, a: 100}").unwrap();
    f.reopen();
    f.check_valid();
    assert_eq!(f.collection().count(), 17);
}

#[test]
fn a_salvage_sets_aside_what_is_no_document() {
    let f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a', unique: true}").unwrap();
    for id in 0..300 {
        f.insert(&format!("{{_id: {id}, a: {id}}}")).unwrap();
    }
    for number in 11..=290 {
        garble(&f, number, b"\0\x05\0\0\0\x01");
    }
    let Fixture { engine, store, namespace } = f;
    drop(store);
    let options = crate::options();
    let (store, salvaged) =
        nagi_store::Store::salvage(std::sync::Arc::clone(&engine), options, false).unwrap();
    assert_eq!((salvaged.corrupt_records, salvaged.documents_lost), (280, 0));
    assert_eq!(salvaged.repaired.len(), 1, "{salvaged:?}");
    let f = Fixture { engine, store, namespace };
    f.check_valid();
    assert_eq!(f.collection().count(), 20);
}

/// As after the loss of a table with deletions: documents are there again whose `_id` was taken by later ones.
#[test]
fn a_salvage_sets_aside_earlier_documents_with_the_id_of_later_ones() {
    for catalog_lost in [false, true] {
        let f = Fixture::new();
        for id in 0..300 {
            f.insert(&format!("{{_id: {id}, a: 'later'}}")).unwrap();
        }
        for number in 11..=60 {
            let again = parse(&format!("{{_id: {}, a: 'earlier'}}", number % 25 + 100));
            garble(&f, number, &[&[0], again.as_doc().as_bytes()].concat());
        }
        let Fixture { engine, store, namespace } = f;
        drop(store);
        let options = crate::options();
        let again = std::sync::Arc::clone(&engine);
        let (store, salvaged) = nagi_store::Store::salvage(again, options, catalog_lost).unwrap();
        assert_eq!(salvaged.corrupt_records, 50);
        let f = Fixture { engine, store, namespace };
        f.check_valid();
        assert_eq!(f.collection().count(), 250);
        let snapshot = f.store.snapshot().unwrap();
        let mut scan = snapshot.reader().scan(&f.collection(), true).unwrap();
        while scan.advance().unwrap() {
            assert_eq!(scan.doc().get("a"), nagi_bson::Value::String("later"));
        }
    }
}

/// Replaces bytes in the catalog entry of the only collection by others of the same length.
fn damage_entry(engine: &dyn nagi_kv::Engine, from: &[u8], to: &[u8]) {
    use nagi_kv::{Durability, Space, TxnOptions};
    let mut cursor = engine.latest().cursor(Space::Catalog, &[], &[]).unwrap();
    let mut found = cursor.seek(&[]).unwrap();
    while found && !cursor.value().get(4..).is_some_and(|rest| rest.starts_with(b"\x02ns\0")) {
        found = cursor.next().unwrap();
    }
    let (key, mut value) = (cursor.key().to_vec(), cursor.value().to_vec());
    drop(cursor);
    let at = value.windows(from.len()).position(|bytes| bytes == from).unwrap();
    value[at..at + to.len()].copy_from_slice(to);
    let mut txn = engine.begin(TxnOptions::default()).unwrap();
    txn.put(Space::Catalog, &key, &value).unwrap();
    txn.commit(Durability::Synced).unwrap();
}

/// The error at the start names the collection of the entry; after a salvage the documents still have their
/// namespace.
#[test]
fn an_entry_that_cannot_be_read_is_named_and_its_documents_keep_their_name() {
    let f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    for id in 0..20 {
        f.insert(&format!("{{_id: {id}, a: {id}}}")).unwrap();
    }
    let Fixture { engine, store, namespace } = f;
    drop(store);
    // Damages the type of the second field.
    damage_entry(&*engine, b"\x05uuid\0", b"\x7auuid\0");
    let options = crate::options;
    let refused = nagi_store::Store::open(std::sync::Arc::clone(&engine), options());
    let refused = refused.err().expect("the entry is damaged").message().to_owned();
    assert!(
        refused.contains("entry of collection d.c") && refused.contains("--repair"),
        "{refused}"
    );
    let engine_again = std::sync::Arc::clone(&engine);
    let (store, salvaged) = nagi_store::Store::salvage(engine_again, options(), false).unwrap();
    assert_eq!((salvaged.catalog_entries_lost, &salvaged.orphans), (1, &vec!["d.c".to_owned()]));
    let f = Fixture { engine, store, namespace };
    f.check_valid();
    assert_eq!((f.collection().count(), f.collection().indexes.len()), (20, 1));
}

/// If an entry does not load because of one index or one option, the rest is kept.
#[test]
fn a_salvage_leaves_out_the_index_and_the_option_that_do_not_load() {
    let f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a', unique: true}").unwrap();
    f.index("{key: {b: 1}, name: 'bad', partialFilterExpression: {q: {$gt: 1}}}").unwrap();
    for id in 0..20 {
        f.insert(&format!("{{_id: {id}, a: {id}, b: {id}}}")).unwrap();
    }
    let validator = parse("{odd: {$lt: 9}}");
    let changes = nagi_store::CollMod {
        validator: Some(validator.as_doc()),
        validation_level: Some("moderate"),
        ..Default::default()
    };
    f.store.coll_mod(&f.namespace, changes).unwrap();
    let Fixture { engine, store, namespace } = f;
    drop(store);
    damage_entry(&*engine, b"\x10$gt\0", b"\x10$xt\0");
    damage_entry(&*engine, b"\x10$lt\0", b"\x10$yt\0");
    let options = crate::options;
    assert!(nagi_store::Store::open(std::sync::Arc::clone(&engine), options()).is_err());
    let engine_again = std::sync::Arc::clone(&engine);
    let (store, salvaged) = nagi_store::Store::salvage(engine_again, options(), false).unwrap();
    assert_eq!(salvaged.left_out, ["d.c: option validator", "d.c: index bad"]);
    assert_eq!((salvaged.catalog_entries_lost, salvaged.orphans.len()), (0, 0));
    let f = Fixture { engine, store, namespace };
    f.check_valid();
    let names: Vec<_> = f.collection().indexes.iter().map(|i| i.name().to_owned()).collect();
    assert_eq!(names, ["_id_", "a"]);
    let error = f.insert("{_id: 99, a: 5}").unwrap_err();
    assert_eq!(error.code(), nagi_error::Code::DUPLICATE_KEY, "{error:?}");
    let options = f.collection().options.doc.as_doc().to_string();
    assert!(options.contains("moderate") && !options.contains("odd"), "{options}");
}

/// An index on arrays has more entries than there are records.
#[test]
fn the_progress_of_a_validation_knows_how_many_keys_there_are() {
    let f = Fixture::new();
    f.index("{key: {a: 1}, name: 'a'}").unwrap();
    let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for id in 0..100 {
        f.insert(&format!("{{_id: {id}, a: [{}]}}", many.join(", "))).unwrap();
    }
    let seen = std::cell::RefCell::new(Vec::new());
    let watch = |step: nagi_store::ValidateStep| {
        seen.borrow_mut().push((step.name, step.done, step.total));
        Ok(())
    };
    f.store.validate_with(&f.collection(), false, &watch).unwrap();
    let of = |name: &str| -> Vec<(i64, i64)> {
        let seen = seen.borrow();
        let own = seen.iter().filter(|(scan, ..)| *scan == name);
        own.map(|(_, done, total)| (*done, *total)).collect()
    };
    assert_eq!(of("Validate: scanning records"), [(32, 100), (64, 100), (96, 100)]);
    let entries = of("Validate: scanning index entries");
    let expected: Vec<_> = (1..=2100 / 32).map(|n| (n * 32, 2100)).collect();
    assert_eq!(entries, expected);
}
