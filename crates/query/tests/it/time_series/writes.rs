//! Inserts into time series, deletes from them and updates of their metadata.

use super::*;

fn stored(fixture: &Fixture) -> Vec<DocBuf> {
    let buckets = name(SERIES).buckets().unwrap();
    let request = FindRequest::new(&buckets);
    drain(find(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap(), 1000).unwrap()
}

fn counts(fixture: &Fixture) -> Vec<i32> {
    let count = |bucket: &DocBuf| match bucket.get("control").as_doc().unwrap().get("count") {
        Value::Int32(count) => count,
        other => panic!("{other}"),
    };
    let mut all: Vec<i32> = stored(fixture).iter().map(count).collect();
    all.sort_unstable();
    all
}

fn at(second: usize, rest: &str) -> DocBuf {
    let (minute, second) = (second / 60, second % 60);
    doc(&format!("{{t: ISODate('2024-01-01T00:{minute:02}:{second:02}Z'), {rest}}}"))
}

#[test]
fn a_bucket_takes_a_thousand_measurements() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    for chunk in (0..2100).collect::<Vec<usize>>().chunks(70) {
        let docs: Vec<DocBuf> = chunk.iter().map(|n| at(n % 3600, "m: 1, v: 1")).collect();
        insert_into(&fixture.store, &name(SERIES), &docs, true);
    }
    assert_eq!(counts(&fixture), [100, 1000, 1000]);
}

#[test]
fn late_measurements_go_to_their_bucket_again() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let series = name(SERIES);
    let hour = |hour: usize, minute: usize| {
        doc(&format!("{{t: ISODate('2024-01-01T{hour:02}:{minute:02}:00Z'), m: 1}}"))
    };
    // More hours than a metadata has buckets in memory: the others are found by the index.
    for minute in 0..5 {
        for h in 0..10 {
            insert_into(&fixture.store, &series, &[hour(h, minute)], true);
        }
    }
    assert_eq!(counts(&fixture), [5; 10]);
    // A field of another type begins a bucket, and so does a measurement before the begin.
    insert_into(&fixture.store, &series, &[at(0, "m: 2, v: 1"), at(1, "m: 2, v: 'x'")], true);
    insert_into(
        &fixture.store,
        &series,
        &[doc("{t: ISODate('2023-12-31T23:59:59Z'), m: 2}")],
        true,
    );
    assert_eq!(counts(&fixture).len(), 13);
}

/// The store, opened again: no bucket is known as open.
fn reopened(engine: &Arc<dyn Engine>) -> Arc<Store> {
    Store::open(Arc::clone(engine), StoreOptions::default()).unwrap()
}

#[test]
fn large_measurements_do_not_fill_a_bucket_for_good() {
    let engine: Arc<dyn Engine> = Arc::new(nagi_kv::Memory::new());
    let store = reopened(&engine);
    let options = doc("{timeseries: {timeField: 't', metaField: 'm'}}");
    store.create_collection(&name(SERIES), options.as_doc()).unwrap();
    let large = |store: &Store, n: usize| {
        let text = char::from(b'a' + n as u8).to_string().repeat(4_000_000);
        let measurement = nagi_bson::doc! {
            "t": (Value::DateTime(NOW_MS + n as i64)), "m": 1, "s": (text.as_str())
        };
        let done = insert_into(store, &name(SERIES), &[measurement], true);
        assert_eq!((done.count, done.errors.len()), (1, 0), "{n}: {:?}", done.errors);
    };
    (0..3).for_each(|n| large(&store, n));
    drop(store);
    let store = reopened(&engine);
    (3..5).for_each(|n| large(&store, n));
    assert_eq!(found(&store, &name(SERIES), "{}").len(), 5);

    // A measurement whose bucket would not be a document.
    let text = "x".repeat(6_000_000);
    let one = nagi_bson::doc! { "t": (Value::DateTime(NOW_MS)), "m": 1, "s": (text.as_str()) };
    let done = insert_into(&store, &name(SERIES), &[one], true);
    assert_eq!((done.count, done.errors[0].1.code().0), (0, 2));
    assert!(done.errors[0].1.message().starts_with("The measurement is too large"));

    // A bucket of another server that has no place left: it is closed, and another one is made.
    let buckets = name(SERIES).buckets().unwrap();
    let id = [7; 12];
    let (low, high) = ("a".repeat(5_000_000), "z".repeat(5_000_000));
    let time = Value::DateTime(NOW_MS);
    let full = DocBuf::build(|out| {
        out.put("_id", &id);
        out.doc("control", |out| {
            out.put("version", 1);
            for (end, text) in [("min", &low), ("max", &high)] {
                out.doc(end, |out| {
                    out.put("t", time);
                    out.put("s", text.as_str());
                });
            }
        });
        out.put("meta", 2);
        out.doc("data", |out| {
            out.doc("t", |out| out.put("0", time));
            out.doc("s", |out| out.put("0", low.as_str()));
        });
    });
    assert_eq!(insert_into(&store, &buckets, &[full], true).count, 1);
    let text = "m".repeat(3_000_000);
    let one = nagi_bson::doc! { "t": (time), "m": 2, "s": (text.as_str()) };
    assert_eq!(insert_into(&store, &name(SERIES), &[one], true).count, 1);
    assert_eq!(found(&store, &buckets, "{'control.closed': true, meta: 2}").len(), 1);
    assert_eq!(found(&store, &name(SERIES), "{m: 2}").len(), 2);
}

#[test]
fn buckets_that_refuse_are_closed_and_others_found() {
    let engine: Arc<dyn Engine> = Arc::new(nagi_kv::Memory::new());
    let store = reopened(&engine);
    let options = doc(
        "{timeseries: {timeField: 't', metaField: 'm'}, collation: {locale: 'en', strength: 2}}",
    );
    store.create_collection(&name(SERIES), options.as_doc()).unwrap();
    let insert_one = |store: &Store, second, rest: &str| {
        assert_eq!(insert_into(store, &name(SERIES), &[at(second, rest)], true).count, 1);
    };
    insert_one(&store, 0, "m: 'x', v: 'text'");
    insert_one(&store, 0, "m: 'X', v: 1");
    for second in 1..6 {
        let store = reopened(&engine);
        insert_one(&store, 60 * second, "m: 'x', v: 1");
    }
    let store = reopened(&engine);
    let buckets = name(SERIES).buckets().unwrap();
    assert_eq!(found(&store, &buckets, "{}").len(), 3);
    assert_eq!(found(&store, &buckets, "{'control.closed': true}").len(), 1);
    assert_eq!(found(&store, &buckets, "{'control.count': 5}").len(), 1);
}

#[test]
fn lone_buckets_get_measurements() {
    let fixture = Fixture::new();
    let buckets = name(SERIES).buckets().unwrap();
    let options = doc("{timeseries: {timeField: 't', metaField: 'm'}}");
    fixture.store.create_collection(&buckets, options.as_doc()).unwrap();
    let docs = [at(0, "m: 1"), at(1, "m: 1"), at(2, "m: 2")];
    assert_eq!(insert_into(&fixture.store, &name(SERIES), &docs, true).count, 3);
    assert!(fixture.store.collection(&name(SERIES)).is_none(), "no collection is created");
    assert_eq!(counts(&fixture), [1, 2]);
    assert_eq!(delete_from(&fixture.store, &name(SERIES), "{m: 2}", true), 1);
    assert_eq!(counts(&fixture), [2]);
}

#[test]
fn a_statement_writes_each_bucket_once() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let docs: Vec<DocBuf> =
        (0..3000).map(|n| at(n / 100, &format!("m: {}, v: {n}", n % 100))).collect();
    let borrowed: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    let buckets = fixture.store.buckets_of(&name(SERIES)).unwrap();
    let series = buckets.options.timeseries.as_deref();
    assert_eq!(InsertStatement::chunk_count(&borrowed, series), 3000);
    assert_eq!(InsertStatement::chunk_count(&borrowed, None), 500);
    let many: Vec<DocBuf> = (0..3000).map(|n| at(0, &format!("m: {{a: {n}}}"))).collect();
    let borrowed: Vec<Doc<'_>> = many.iter().map(DocBuf::as_doc).collect();
    assert_eq!(InsertStatement::chunk_count(&borrowed, series), 1000, "metadata");
    for part in docs.chunks(1500) {
        assert_eq!(insert_into(&fixture.store, &name(SERIES), part, false).count, 1500);
    }
    assert_eq!(counts(&fixture), vec![30; 100]);
    assert_eq!(found(&fixture.store, &name(SERIES), "{m: 7, v: {$gte: 1500}}").len(), 15);
}

#[test]
fn open_buckets_are_read_as_far_as_necessary() {
    let engine: Arc<dyn Engine> = Arc::new(nagi_kv::Memory::new());
    let store = reopened(&engine);
    let options = doc("{timeseries: {timeField: 't', metaField: 'm'}}");
    store.create_collection(&name(SERIES), options.as_doc()).unwrap();
    let hour = |hour: usize, minute: usize| {
        doc(&format!("{{t: ISODate('2024-01-01T{hour:02}:{minute:02}:00Z'), m: 1}}"))
    };
    // A bucket of each hour is open.
    (0..3).for_each(|h| drop(insert_into(&store, &name(SERIES), &[hour(h, 0)], true)));
    // Late, latest, late, and all in one statement.
    for h in [1, 2, 0] {
        assert_eq!(insert_into(&store, &name(SERIES), &[hour(h, 1)], true).count, 1);
    }
    let all: Vec<DocBuf> = (0..3).rev().map(|h| hour(h, 2)).collect();
    assert_eq!(insert_into(&store, &name(SERIES), &all, true).count, 3);
    let buckets = name(SERIES).buckets().unwrap();
    assert_eq!(found(&store, &buckets, "{'control.count': 3}").len(), 3);
    assert_eq!(found(&store, &name(SERIES), "{}").len(), 9);
}

#[test]
fn without_an_index_buckets_are_reopened_by_memory_only() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't'}}");
    let series = name(SERIES);
    for n in 0..20 {
        insert_into(&fixture.store, &series, &[at(n, "v: 1")], true);
    }
    assert_eq!(counts(&fixture), [20]);
}

#[test]
fn errors_are_those_of_their_measurements() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let mut deep = "1".to_owned();
    for _ in 0..178 {
        deep = format!("{{x: {deep}}}");
    }
    let docs =
        [at(0, "v: 1"), doc("{t: 5}"), at(1, "v: 2"), at(2, &format!("d: {deep}")), at(3, "v: 3")];
    let done = insert_into(&fixture.store, &name(SERIES), &docs, false);
    let errors: Vec<_> = done.errors.iter().map(|(at, error)| (*at, error.code().0)).collect();
    assert_eq!((done.count, errors), (3, vec![(1, 2), (3, 15)]));
    let done = insert_into(&fixture.store, &name(SERIES), &docs, true);
    let errors: Vec<_> = done.errors.iter().map(|(at, error)| (*at, error.code().0)).collect();
    assert_eq!((done.count, errors), (1, vec![(1, 2)]));
    // An index that cannot have a measurement: it is the error of that one, and the others are stored.
    let index = doc("{key: {'control.min.a': 1, 'control.max.a': 1}, name: 'a'}");
    let buckets = name(SERIES).buckets().unwrap();
    fixture.store.create_indexes(&buckets, &[index.as_doc()], BuildOptions::default()).unwrap();
    let docs = [at(5, "m: 5, a: 1"), at(6, "m: 6, a: [1, 2]"), at(7, "m: 7, a: 2")];
    let done = insert_into(&fixture.store, &name(SERIES), &docs, false);
    let errors: Vec<_> = done.errors.iter().map(|(at, error)| (*at, error.code().0)).collect();
    assert_eq!((done.count, errors), (2, vec![(1, 171)]));
    let done = insert_into(&fixture.store, &name(SERIES), &docs, true);
    let errors: Vec<_> = done.errors.iter().map(|(at, error)| (*at, error.code().0)).collect();
    assert_eq!((done.count, errors), (1, vec![(1, 171)]));
}

#[test]
fn inserts_of_several_threads_lose_nothing() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let store = &fixture.store;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for n in 0..60 {
                    let docs = [at(n, &format!("m: {}, n: {thread}", n % 3)), at(n, "m: 'all'")];
                    assert_eq!(insert_into(store, &name(SERIES), &docs, true).count, 2);
                }
            });
        }
    });
    assert_eq!(counts(&fixture).iter().sum::<i32>(), 4 * 60 * 2);
    assert_eq!(found(store, &name(SERIES), "{m: 'all'}").len(), 4 * 60);
    for thread in 0..4 {
        assert_eq!(found(store, &name(SERIES), &format!("{{n: {thread}}}")).len(), 60);
    }
}

/// Few bytes of a column stand for very many measurements: they are unpacked in parts.
#[test]
fn huge_buckets_are_unpacked_in_parts() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't'}}");
    let mut column = vec![9, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..3 {
        column.push(0x80);
        column.extend_from_slice(&0xFF_u64.to_le_bytes());
    }
    column.push(0);
    let binary = Value::Binary(nagi_bson::Binary { subtype: 7, bytes: &column });
    let zero = Value::DateTime(0);
    let bucket = nagi_bson::doc! {
        "control": { "version": 2, "min": { "t": zero }, "max": { "t": zero } },
        "data": { "t": (binary) },
    };
    let buckets = name(SERIES).buckets().unwrap();
    insert_into(&fixture.store, &buckets, &[bucket], true);
    assert_eq!(found(&fixture.store, &name(SERIES), "{}").len(), 1 + 3 * 1920);
    // It takes no more measurements.
    insert_into(
        &fixture.store,
        &name(SERIES),
        &[doc("{t: ISODate('1970-01-01T00:00:00Z')}")],
        true,
    );
    assert_eq!(stored(&fixture).len(), 2);
}

fn delete_from(store: &Store, from: &Namespace, filter: &str, multi: bool) -> u64 {
    let filter = doc(filter);
    let statement = DeleteStatement::new(filter.as_doc(), multi);
    delete(store, from, &statement, Durability::Buffered, &Env::new(&(), NOW_MS)).unwrap()
}

#[test]
fn deletes_leave_what_does_not_match() {
    for seed in 1..=cases().div_ceil(40) {
        let mut random = Random(seed * 0x51_7CC1);
        let fixture = Fixture::new();
        create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
        let (series, plain) = (name(SERIES), name("plain"));
        let docs: Vec<DocBuf> =
            (0..random.below(120) + 1).map(|id| doc(&measurement(&mut random, id))).collect();
        insert_into(&fixture.store, &series, &docs, true);
        insert_into(&fixture.store, &plain, &docs, true);
        let (bucket, measurements) = old_bucket(&mut random, 1000);
        insert_into(&fixture.store, &series.buckets().unwrap(), &[doc(&bucket)], true);
        let measurements: Vec<DocBuf> = measurements.iter().map(|text| doc(text)).collect();
        insert_into(&fixture.store, &plain, &measurements, true);
        for _ in 0..8 {
            let filter = filter(&mut random);
            if filter.contains("a: 1, b: 2") || filter.contains("b: 2, a: 1") {
                continue;
            }
            let multi = random.chance(70);
            let left = found(&fixture.store, &plain, "{}").len();
            let deleted = delete_from(&fixture.store, &series, &filter, multi);
            if !multi {
                // Which one is deleted is not defined.
                let matching = found(&fixture.store, &plain, &filter);
                assert_eq!(deleted, u64::from(!matching.is_empty()), "seed {seed}: {filter}");
                let all = found(&fixture.store, &series, "{}");
                let gone: Vec<_> = found(&fixture.store, &plain, "{}")
                    .into_iter()
                    .filter(|doc| all.binary_search(doc).is_err())
                    .collect();
                assert_eq!(gone.len() as u64, deleted, "seed {seed}: {filter}");
                assert!(gone.iter().all(|doc| matching.contains(doc)), "seed {seed}: {filter}");
                for doc in gone {
                    let id = doc.split(", ").next().unwrap().to_owned();
                    delete_from(&fixture.store, &plain, &format!("{{{id}}}"), false);
                }
                continue;
            }
            assert_eq!(deleted, delete_from(&fixture.store, &plain, &filter, true), "{filter}");
            assert_eq!(
                found(&fixture.store, &series, "{}"),
                found(&fixture.store, &plain, "{}"),
                "seed {seed}: {filter} of {left}"
            );
            // The ranges are those of what is left.
            for n in 2..5 {
                let expected = grouped(&fixture.store, &plain, "{}", n);
                assert_eq!(grouped(&fixture.store, &series, "{}", n), expected, "seed {seed} {n}");
            }
        }
        delete_from(&fixture.store, &series, "{}", true);
        assert!(stored(&fixture).is_empty());
    }
}

/// The counts of an update, or the code of its error.
fn updated(fixture: &Fixture, (filter, change): (&str, &str), multi: bool, upsert: bool) -> String {
    let (filter, change) = (doc(filter), doc(&format!("{{u: {change}}}")));
    let statement =
        UpdateStatement { multi, upsert, ..UpdateStatement::new(filter.as_doc(), change.get("u")) };
    let env = Env::new(&(), NOW_MS);
    match update(&fixture.store, &name(SERIES), &statement, Durability::Buffered, &env) {
        Ok(done) => format!("{} {}", done.matched, done.modified),
        Err(error) => error.code().0.to_string(),
    }
}

#[test]
fn updates_may_test_metadata_by_schemas_and_expressions() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let docs = [at(0, "m: {a: 7}, v: 1"), at(1, "m: {a: 7, b: 1}, v: 2")];
    insert_into(&fixture.store, &name(SERIES), &docs, true);
    let run = |filter: &str, change: &str| updated(&fixture, (filter, change), true, false);
    for (filter, expected) in [
        ("{$expr: {$gt: ['$m.a', 6]}}", "2 2"),
        ("{$expr: {$eq: [{$literal: '$v'}, '$m.a']}}", "0 0"),
        ("{$expr: {$let: {vars: {x: '$m'}, in: {$eq: ['$$x.a', 7]}}}, 'm.a': 7}", "2 2"),
        ("{$jsonSchema: {required: ['m'], properties: {m: {required: ['a']}}}}", "2 2"),
        ("{$jsonSchema: {properties: {m: {bsonType: 'string'}}}}", "0 0"),
        ("{$jsonSchema: {not: {anyOf: [{properties: {m: {required: ['z']}}}]}}}", "2 2"),
        ("{$jsonSchema: {required: ['m']}, 'm.a': 8}", "0 0"),
    ] {
        assert_eq!(run(filter, "{$inc: {'m.n': 1}}"), expected, "{filter}");
    }
    assert_eq!(run("{$jsonSchema: {bsonType: 5}}", "{$set: {m: 1}}"), "14");
}

#[test]
fn updates_change_metadata_only() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let docs = [at(0, "m: {a: 1}, v: 1"), at(1, "m: {a: 1}, v: 2"), at(2, "m: {a: 2}, v: 3")];
    insert_into(&fixture.store, &name(SERIES), &docs, true);
    let run = |filter: &str, change: &str, multi: bool, upsert: bool| {
        updated(&fixture, (filter, change), multi, upsert)
    };
    assert_eq!(run("{'m.a': 1}", "{$set: {'m.b': 5}}", true, false), "1 1");
    assert_eq!(
        run("{'m.a': {$gte: 1}}", "{$inc: {'m.a': 10}, $rename: {'m.b': 'm.c'}}", true, false),
        "2 2"
    );
    assert_eq!(found(&fixture.store, &name(SERIES), "{m: {a: 11, c: 5}}").len(), 2);
    assert_eq!(run("{m: {a: 12}}", "{$set: {m: 'x'}}", true, false), "1 1");
    assert_eq!(run("{}", "{$unset: {m: 1}}", true, false), "2 2");
    assert_eq!(found(&fixture.store, &name(SERIES), "{m: {$exists: false}}").len(), 3);
    for (filter, change, multi, upsert) in [
        ("{m: 1}", "{$set: {m: 1}}", false, false),
        ("{m: 1}", "{$set: {m: 1}}", true, true),
        ("{v: 1}", "{$set: {m: 1}}", true, false),
        ("{$or: [{m: 1}, {t: 1}]}", "{$set: {m: 1}}", true, false),
        ("{$expr: {$eq: ['$v', 1]}}", "{$set: {m: 1}}", true, false),
        ("{$expr: {$eq: ['$$ROOT.m', 1]}}", "{$set: {m: 1}}", true, false),
        ("{$expr: {$getField: 'm'}}", "{$set: {m: 1}}", true, false),
        ("{$jsonSchema: {required: ['v']}}", "{$set: {m: 1}}", true, false),
        ("{$jsonSchema: {properties: {m: {}, v: {}}}}", "{$set: {m: 1}}", true, false),
        ("{$jsonSchema: {minProperties: 1}}", "{$set: {m: 1}}", true, false),
        ("{$jsonSchema: {not: {required: ['m', 'v']}}}", "{$set: {m: 1}}", true, false),
        ("{m: 1}", "{$set: {v: 1}}", true, false),
        ("{m: 1}", "{$set: {mm: 1}}", true, false),
        ("{m: 1}", "{$rename: {'m.a': 'v'}}", true, false),
        ("{m: 1}", "{m: 1}", true, false),
        ("{m: 1}", "[{$set: {m: 1}}]", true, false),
    ] {
        assert_eq!(run(filter, change, multi, upsert), "72", "{filter} {change}");
    }
    assert_eq!(run("{m: 1}", "{$set: 5}", true, false), "9");
    // The fields of metadata are sorted by name, as those of inserts are, at any depth.
    let sorted = "{ a: 2, z: { d: [ { x: 2, y: 1 } ], e: 1 } }";
    let given = "{z: {e: 1, d: [{y: 1, x: 2}]}, a: 2}";
    assert_eq!(run("{}", &format!("{{$set: {{m: {given}}}}}"), true, false), "2 2");
    assert_eq!(run("{}", &format!("{{$set: {{m: {given}}}}}"), true, false), "2 0");
    insert_into(&fixture.store, &name(SERIES), &[at(4, &format!("m: {given}"))], true);
    assert_eq!(stored(&fixture).len(), 2);
    assert_eq!(found(&fixture.store, &name(SERIES), &format!("{{m: {sorted}}}")).len(), 4);
    assert_eq!(run("{}", "{$set: {'m.b': 1}, $unset: {'m.z': 1}}", true, false), "2 2");
    assert_eq!(found(&fixture.store, &name(SERIES), "{m: {a: 2, b: 1}}").len(), 4);
    assert_eq!(run("{}", "{$unset: {m: 1}}", true, false), "2 2");
    // Measurements with the new metadata do not get into buckets that had another one.
    insert_into(&fixture.store, &name(SERIES), &[at(3, "m: {a: 1}")], true);
    assert_eq!(found(&fixture.store, &name(SERIES), "{'m.a': 1}").len(), 1);
}
