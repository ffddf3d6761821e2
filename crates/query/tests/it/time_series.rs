//! A time series collection finds what an ordinary collection with the same documents finds, and inserts of several
//! threads lose nothing.
//!
//! Measurements, buckets of other servers and queries are generated from a seed; a failure message has it.

mod geometries;
mod writes;

use std::sync::Arc;

use nagi_bson::{Binary, Doc, DocBuf, Value, ValueBuf, doc as bson};
use nagi_kv::Engine;
use nagi_query::{
    AggregateRequest, DeleteStatement, Env, Explained, FindRequest, InsertOutcome, InsertStatement,
    UpdateStatement, Verbosity, aggregate, delete, find, insert, series_index, update,
};
use nagi_store::{BuildOptions, Durability, Namespace, Store, StoreOptions};
use nagi_timeseries::column;

use crate::{
    any_plan::{Random, SCALARS, cases},
    fixture::{Fixture, NOW_MS, doc, drain},
};

/// Values of the fields of measurements.
const VALUES: &[&str] = &[
    "1",
    "2",
    "3.5",
    "-4",
    "NumberLong(7)",
    "'x'",
    "'xy'",
    "null",
    "true",
    "[]",
    "[1, 5]",
    "['a', 9]",
    "[{x: 1}, 3]",
    "{x: 1}",
    "{x: 5, y: 'z'}",
    "NaN",
    "ISODate('2024-01-01T00:30:00Z')",
    "ObjectId('000000000000000000000001')",
];

/// Values of a field that is indexed.
const INDEXED: &[&str] = &["1", "2.5", "-4", "70", "'x'", "'yz'", "null", "true", "{x: 1}"];

const METAS: &[&str] =
    &["1", "'m'", "{a: 1, b: 2}", "{b: 2, a: 1}", "[1, 2]", "null", "{a: [1]}", "1.5"];

const SERIES: &str = "series";

fn name(text: &str) -> Namespace {
    Namespace::new("test", text).unwrap()
}

fn date(random: &mut Random) -> String {
    let (hour, minute) = (random.below(3), random.below(60));
    format!("ISODate('2024-01-01T0{hour}:{minute:02}:{:02}Z')", random.below(60))
}

fn measurement(random: &mut Random, id: usize) -> String {
    let mut fields = vec![format!("_id: {id}, t: {}", date(random))];
    if random.chance(70) {
        fields.push(format!("m: {}", random.one(METAS)));
    }
    for field in ["a", "b", "c"] {
        if random.chance(60) {
            fields.push(format!("{field}: {}", random.one(VALUES)));
        }
    }
    if random.chance(60) {
        // Not a number is in no range of numbers. It is rare, because it takes much from what is known of the buckets.
        let value = if random.chance(1) { "NaN" } else { random.one(INDEXED) };
        fields.push(format!("d: {value}"));
    }
    format!("{{{}}}", fields.join(", "))
}

fn insert_into(store: &Store, to: &Namespace, docs: &[DocBuf], ordered: bool) -> InsertOutcome {
    let docs: Vec<Doc<'_>> = docs.iter().map(DocBuf::as_doc).collect();
    let statement = InsertStatement {
        docs: &docs,
        ordered,
        done: &[],
        statement: None,
        durability: Durability::Buffered,
        bypass_validation: false,
        keep_empty_timestamps: false,
        encryption: None,
    };
    insert(store, to, &statement, &Env::new(&(), NOW_MS)).unwrap()
}

fn create(fixture: &Fixture, options: &str) {
    let options = doc(options);
    fixture.store.create_collection(&name(SERIES), options.as_doc()).unwrap();
}

/// A bucket of version 1 as an older server may have made it: a field has several types.
fn old_bucket(random: &mut Random, id: usize) -> (String, Vec<String>) {
    let (hour, other) = (random.below(3), random.one(&["'s'", "null", "[7]", "{x: 2}"]));
    let time = |minute: usize| format!("ISODate('2024-01-01T0{hour}:{minute:02}:00Z')");
    let seconds = |hour: usize| format!("{:08x}", 1_704_067_200 + hour * 3600);
    let bucket = format!(
        "{{_id: ObjectId('{}{id:016x}'), \
          control: {{version: 1, min: {{t: {}, _id: {id}, a: 3}}, max: {{t: {}, _id: {}, a: {other}}}}}, meta: 9, \
          data: {{t: {{'0': {}, '1': {}}}, _id: {{'0': {id}, '1': {}}}, a: {{'0': {other}, '1': 3}}}}}}",
        seconds(hour),
        time(0),
        time(50),
        id + 1,
        time(50),
        time(3),
        id + 1
    );
    let one =
        |at: usize, minute, a| format!("{{_id: {}, t: {}, m: 9, a: {a}}}", id + at, time(minute));
    (bucket, vec![one(0, 50, other), one(1, 3, "3")])
}

fn condition(random: &mut Random) -> String {
    let field = random.one(&["t", "m", "a", "b", "c", "d", "d", "m.a", "a.x", "_id", "b.0", "c.x"]);
    let value = match field {
        "t" => date(random),
        "m" | "m.a" => random.one(METAS).to_owned(),
        "_id" => random.below(300).to_string(),
        "d" => random.one(INDEXED).to_owned(),
        _ => match random.chance(50) {
            true => random.one(VALUES).to_owned(),
            false => random.one(SCALARS).to_owned(),
        },
    };
    let test = match random.below(13) {
        0 => format!("{{$in: [{value}, 2]}}"),
        1 => format!("{{$ne: {value}}}"),
        2 => "{$exists: false}".to_owned(),
        9 => "{$exists: true}".to_owned(),
        10 => random.one(&["{$regex: 'y'}", "{$type: 'string'}", "{$size: 2}"]).to_owned(),
        11 => {
            let all: Vec<String> = (0..12).map(|n| (n * 9 % 70 - 5).to_string()).collect();
            format!("{{$in: [{value}, {}]}}", all.join(", "))
        }
        12 => format!("{{$in: [{value}, {}]}}", random.one(INDEXED)),
        3..=6 => format!("{{{}: {value}}}", random.one(&["$lt", "$lte", "$gt", "$gte"])),
        _ => format!("{{$eq: {value}}}"),
    };
    format!("{{'{field}': {test}}}")
}

fn filter(random: &mut Random) -> String {
    let (one, other) = (condition(random), condition(random));
    match random.below(5) {
        0 => format!("{{$or: [{one}, {other}]}}"),
        1 | 2 => format!("{{$and: [{one}, {other}]}}"),
        3 => format!("{{$nor: [{one}]}}"),
        _ => one,
    }
}

/// Each document as text, with its fields and those of its metadata sorted: a bucket has an order of its own.
fn sorted(docs: &[DocBuf]) -> Vec<String> {
    let mut all: Vec<String> = docs
        .iter()
        .map(|doc| {
            let mut fields: Vec<String> = doc
                .as_doc()
                .iter()
                .map(|e| match e.name() {
                    // `c` is the metadata in one pipeline.
                    "m" | "c" => {
                        let value = nagi_timeseries::bucket::normalized(e.value());
                        format!("{}: {}", e.name(), value.value())
                    }
                    name => format!("{name}: {}", e.value()),
                })
                .collect();
            fields.sort();
            fields.join(", ")
        })
        .collect();
    all.sort();
    all
}

fn found(store: &Arc<Store>, of: &Namespace, filter: &str) -> Vec<String> {
    let filter = doc(filter);
    let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(of) };
    sorted(&drain(find(store, &request, &Env::new(&(), NOW_MS)).unwrap(), 7).unwrap())
}

/// The results of pipelines that need only some fields.
fn grouped(store: &Arc<Store>, of: &Namespace, filter: &str, seed: u64) -> Vec<String> {
    let random = &mut Random(seed);
    let n = random.below(100);
    let rest = [
        "{$group: {_id: {$type: '$a'}, n: {$sum: 1}, last: {$max: '$t'}}}",
        "{$count: 'n'}",
        "{$group: {_id: '$m.a', low: {$min: '$a'}, high: {$max: '$a'}, last: {$max: '$t'}}}",
        "{$group: {_id: {$type: '$m'}, b: {$min: '$b'}, high: {$max: '$c'}, m: {$max: '$m.a'}}}",
        "{$group: {_id: '$m.b'}}",
        "{$project: {_id: 0, 'a.x': 1, t: 1}}",
        "{$project: {b: 1, c: '$m'}}",
        "{$sort: {_id: 1}}, {$limit: 7}, {$project: {m: 1, c: 1}}",
        "{$unwind: '$a'}, {$group: {_id: {$type: '$a'}, n: {$sum: 1}}}",
        "{$addFields: {d: '$b'}}, {$project: {d: 1}}",
        "{$group: {_id: {$dateTrunc: {date: '$t', unit: 'minute', binSize: 7}}, n: {$sum: 1}, a: {$avg: '$a'}}}",
        "{$group: {_id: {t: {$hour: '$t'}, m: {$type: '$m'}}, n: {$count: {}}, a: {$sum: '$a'}, t: {$min: '$t'}}}",
        "{$group: {_id: {$dateToString: {date: '$t', format: '%Y %H:%M %m %d'}}, a: {$max: '$b'}, m: {$max: '$m.a'}}}",
    ];
    // Without a condition, or with one on the time, buckets are grouped by their columns.
    let time = format!("{{t: {{$gte: {}, $lte: {}}}}}", date(random), date(random));
    let filter = [filter, "{}", &time][random.below(3)];
    let pipeline = doc(&format!("{{p: [{{$match: {filter}}}, {}]}}", rest[n % rest.len()]));
    let request = AggregateRequest::new(of, pipeline.get("p").as_array().unwrap());
    sorted(&drain(aggregate(store, &request, &Env::new(&(), NOW_MS)).unwrap(), 1000).unwrap())
}

/// Groups by columns are those of the unpacked measurements, also those that depend on their order.
fn by_columns_is_by_rows(fixture: &Fixture, random: &mut Random, seed: u64) {
    let filter = match random.chance(30) {
        true => "{}".to_owned(),
        false => format!(
            "{{t: {{{}: {}, {}: {}}}}}",
            random.one(&["$gt", "$gte"]),
            date(random),
            random.one(&["$lt", "$lte"]),
            date(random)
        ),
    };
    let condition = match random.chance(40) {
        true => condition(random),
        false => "{}".to_owned(),
    };
    let filter = format!("{{$and: [{filter}, {condition}]}}");
    let key = random.one(&[
        "null",
        "'$m'",
        "'$t'",
        "{$type: '$m.a'}",
        "{a: {$year: '$t'}}",
        "{$minute: '$t'}",
        "{$cond: [{$lt: [{$hour: {date: '$t', timezone: 'Asia/Kolkata'}}, 6]}, {$hour: '$t'}, '$m']}",
        "{$dateTrunc: {date: '$t', unit: 'minute', binSize: 13}}",
        "{t: {$dateTrunc: {date: '$t', unit: 'second'}}, m: '$m'}",
        "{$dateToString: {date: '$t', format: '%d.%m.%Y %H'}}",
    ]);
    let accums: Vec<String> = (0..random.below(5))
        .map(|n| {
            let of = random.one(&["'$a'", "'$b'", "'$c'", "'$t'", "'$m'", "'$m.a'", "3", "'$_id'"]);
            let name = random.one(&[
                "$sum",
                "$avg",
                "$min",
                "$max",
                "$first",
                "$last",
                "$stdDevPop",
                "$stdDevSamp",
            ]);
            format!(", f{n}: {{{name}: {of}}}")
        })
        .collect();
    let group = format!("{{$group: {{_id: {key}{}}}}}", accums.concat());
    let run = |between: &str| {
        let pipeline = format!("{{p: [{{$match: {filter}}}, {between}{group}]}}");
        let (pipeline, of) = (doc(&pipeline), name(SERIES));
        let request = AggregateRequest::new(&of, pipeline.get("p").as_array().unwrap());
        drain(aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap(), 1000).unwrap()
    };
    let by_rows = run("{$_internalInhibitOptimization: {}}, ");
    assert_eq!(sorted(&run("")), sorted(&by_rows), "seed {seed}: {filter} {group}");
    ends_are_those_of_rows(fixture, random, &filter, seed);
}

/// Of each metadata, the first or last measurement by time: of several with that time, any may be it.
fn ends_are_those_of_rows(fixture: &Fixture, random: &mut Random, filter: &str, seed: u64) {
    let (accum, order) = (random.one(&["$first", "$last"]), random.one(&["1", "-1"]));
    let sort = random.one(&["", "m: 1, ", "'m.a': -1, "]);
    let id = random.one(&["'$m'", "{a: '$m.a'}", "null"]);
    let group = format!("{{$group: {{_id: {id}, t: {{{accum}: '$t'}}, a: {{{accum}: '$_id'}}}}}}");
    let run = |inhibit: &str| {
        let between = format!("{inhibit}{{$sort: {{{sort}t: {order}}}}}, ");
        let pipeline = format!("{{p: [{{$match: {filter}}}, {between}{group}]}}");
        let (pipeline, of) = (doc(&pipeline), name(SERIES));
        let request = AggregateRequest::new(&of, pipeline.get("p").as_array().unwrap());
        drain(aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap(), 1000).unwrap()
    };
    let (by_rows, by_ends) = (run("{$_internalInhibitOptimization: {}}, "), run(""));
    let times = |docs: &[DocBuf]| {
        let time = |doc: &DocBuf| bson! { "_id": (doc.get("_id")), "t": (doc.get("t")) };
        sorted(&docs.iter().map(time).collect::<Vec<_>>())
    };
    let about = format!("seed {seed}: {filter} {group} {sort} {order}");
    assert_eq!(times(&by_ends), times(&by_rows), "{about}");
    for one in by_ends.iter().take(2) {
        let (filter, of) = (bson! { "_id": (one.get("a")), "t": (one.get("t")) }, name(SERIES));
        let request = FindRequest { filter: filter.as_doc(), ..FindRequest::new(&of) };
        let cursor = find(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
        assert_eq!(drain(cursor, 7).unwrap().len(), 1, "{about}");
    }
}

#[test]
fn a_time_series_finds_what_a_collection_finds() {
    const QUERIES_EACH: u64 = 40;
    for seed in 1..=cases().div_ceil(QUERIES_EACH) {
        let mut random = Random(seed * 0x9E37_79B9);
        let fixture = Fixture::new();
        create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
        let buckets = fixture.store.buckets_of(&name(SERIES)).unwrap();
        for (n, index) in [
            "{key: {t: 1}, name: 't'}",
            "{key: {'m.a': 1}, name: 'a'}",
            "{key: {d: 1}, name: 'd'}",
            "{key: {d: -1}, name: 'e', partialFilterExpression: {b: {$gt: 1}}}",
            "{key: {'m.a': 1}, name: 'f', partialFilterExpression: {$or: [{d: {$lt: 3}}, {d: 'x'}]}}",
        ]
        .iter()
        .enumerate()
        {
            if seed % 6 > n as u64 {
                let options = buckets.options.timeseries.as_ref().unwrap();
                let spec = series_index(options, None, doc(index).as_doc()).unwrap();
                fixture
                    .store
                    .create_indexes(&buckets.namespace, &[spec.as_doc()], BuildOptions::default())
                    .unwrap();
            }
        }
        let docs: Vec<DocBuf> =
            (0..random.below(200) + 1).map(|id| doc(&measurement(&mut random, id))).collect();
        let (series, plain) = (name(SERIES), name("plain"));
        for chunk in docs.chunks(random.below(60) + 1) {
            let done = insert_into(&fixture.store, &series, chunk, random.chance(50));
            assert_eq!((done.count, done.errors.len()), (chunk.len() as u64, 0), "seed {seed}");
            insert_into(&fixture.store, &plain, chunk, true);
        }
        for n in 0..random.below(3) {
            let (bucket, measurements) = old_bucket(&mut random, 1000 + 2 * n);
            insert_into(&fixture.store, &buckets.namespace, &[doc(&bucket)], true);
            let measurements: Vec<DocBuf> = measurements.iter().map(|text| doc(text)).collect();
            insert_into(&fixture.store, &plain, &measurements, true);
        }
        for _ in 0..QUERIES_EACH {
            let filter = filter(&mut random);
            // Buckets have normalized metadata, so whole documents compare differently.
            if filter.contains("a: 1, b: 2") || filter.contains("b: 2, a: 1") {
                continue;
            }
            let expected = found(&fixture.store, &plain, &filter);
            assert_eq!(found(&fixture.store, &series, &filter), expected, "seed {seed}: {filter}");
            let n = 1 + random.below(1 << 30) as u64;
            let groups = grouped(&fixture.store, &plain, &filter, n);
            assert_eq!(grouped(&fixture.store, &series, &filter, n), groups, "{filter} {n}");
            by_columns_is_by_rows(&fixture, &mut random, seed);
        }
    }
}

#[test]
fn ranges_of_nulls_and_objects_are_no_extremes() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let buckets = fixture.store.buckets_of(&name(SERIES)).unwrap().namespace.clone();
    let time = "ISODate('2024-01-01T00:00:00Z')";
    for (id, [min, max, first, second]) in [
        ["null", "7", "5", "null"],
        ["{x: 1, y: 3}", "{x: 2, y: 9}", "{x: 1, y: 9}", "{x: 2, y: 3}"],
        ["[1, 3]", "[2, 9]", "[1, 9]", "[2, 3]"],
        ["'a'", "'b'", "'a'", "'b'"],
        // Here the ranges are what is returned: that they are wrong shows that the bucket is not unpacked.
        ["3", "4", "1", "9"],
    ]
    .into_iter()
    .enumerate()
    {
        let third = if id == 0 { max } else { first };
        let control = doc(&format!(
            "{{version: 2, min: {{t: {time}, a: {min}}}, max: {{t: {time}, a: {max}}}, count: 3}}"
        ));
        let values = doc(&format!("{{t: {time}, v: [{first}, {second}, {third}]}}"));
        let column = |values: &mut dyn Iterator<Item = Value<'_>>| {
            let (subtype, bytes) = (column::SUBTYPE, column::encode(values));
            ValueBuf::new(Value::Binary(Binary { subtype, bytes: &bytes }))
        };
        let times = column(&mut (0..3).map(|_| values.get("t")));
        let values = column(&mut values.get("v").as_array().unwrap().iter());
        let bucket = DocBuf::build(|out| {
            out.put("control", &control);
            out.put("meta", id as i32);
            out.doc("data", |out| {
                out.put("t", times.value());
                out.put("a", values.value());
            });
        });
        assert_eq!(insert_into(&fixture.store, &buckets, &[bucket], true).count, 1);
    }
    let pipeline = doc("{p: [{$group: {_id: '$m', a: {$min: '$a'}, b: {$max: '$a'}}}]}");
    let of = name(SERIES);
    let request = AggregateRequest::new(&of, pipeline.get("p").as_array().unwrap());
    let cursor = aggregate(&fixture.store, &request, &Env::new(&(), NOW_MS)).unwrap();
    let expected = [
        "_id: 0, a: 5, b: 7",
        "_id: 1, a: { x: 1, y: 9 }, b: { x: 2, y: 3 }",
        "_id: 2, a: [ 1, 9 ], b: [ 2, 3 ]",
        "_id: 3, a: \"a\", b: \"b\"",
        "_id: 4, a: 3, b: 4",
    ];
    assert_eq!(sorted(&drain(cursor, 1000).unwrap()), expected);
}

/// The first measurements by time, of which only the times are compared: those of equal times may differ.
fn first(
    store: &Arc<Store>,
    of: &Namespace,
    filter: &str,
    descending: bool,
    limit: u64,
) -> Vec<String> {
    let filter = doc(filter);
    let sort = doc(if descending { "{t: -1}" } else { "{t: 1}" });
    let request = FindRequest {
        filter: filter.as_doc(),
        sort: sort.as_doc(),
        limit: Some(limit),
        ..FindRequest::new(of)
    };
    let found = drain(find(store, &request, &Env::new(&(), NOW_MS)).unwrap(), 3).unwrap();
    found.iter().map(|doc| doc.get("t").to_string()).collect()
}

#[test]
fn the_first_measurements_are_found_in_order() {
    for seed in 1..=cases().div_ceil(40) {
        let mut random = Random(seed * 0xA5_1B7D);
        let fixture = Fixture::new();
        create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
        let (series, plain) = (name(SERIES), name("plain"));
        for chunk in 0..random.below(8) + 1 {
            let docs: Vec<DocBuf> = (0..random.below(60) + 1)
                .map(|id| doc(&measurement(&mut random, chunk * 100 + id)))
                .collect();
            insert_into(&fixture.store, &series, &docs, true);
            insert_into(&fixture.store, &plain, &docs, true);
        }
        for _ in 0..30 {
            let mut filter = match random.below(3) {
                0 => "{}".to_owned(),
                1 => format!("{{m: {}}}", random.one(&["1", "'m'", "null", "1.5", "2"])),
                _ => format!("{{m: 1, a: {{$gt: {}}}}}", random.one(VALUES)),
            };
            if random.chance(30) {
                filter = format!("{{$and: [{filter}, {}]}}", condition(&mut random));
            }
            if filter.contains("a: 1, b: 2") || filter.contains("b: 2, a: 1") {
                continue;
            }
            let (descending, limit) = (random.chance(60), 1 + random.below(9) as u64);
            assert_eq!(
                first(&fixture.store, &series, &filter, descending, limit),
                first(&fixture.store, &plain, &filter, descending, limit),
                "seed {seed}: {filter} {descending} {limit}"
            );
        }
    }
}

/// If the first measurements do not fit into memory, they are sorted on disk.
#[test]
fn large_first_measurements_are_found_in_order() {
    let mut fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    fixture.ns = name(SERIES);
    let text = "x".repeat(1000);
    let docs: Vec<DocBuf> = (0..900)
        .map(|n| {
            let (time, m) = (NOW_MS + n * 7919 % 900 * 30_000, (n % 3) as i32);
            nagi_bson::doc! { "t": (Value::DateTime(time)), "m": m, "s": (text.as_str()) }
        })
        .collect();
    for chunk in docs.chunks(100) {
        assert_eq!(insert_into(&fixture.store, &name(SERIES), chunk, true).count, 100);
    }
    for filter in ["{}", "{m: 1}", "{m: {$lt: 2}, s: /x/}"] {
        for order in [1, -1] {
            let pipeline =
                format!("[{{$match: {filter}}}, {{$sort: {{t: {order}}}}}, {{$limit: 90}}]");
            let all = fixture.aggregate(&pipeline).unwrap();
            assert_eq!(all.len(), 90);
            for memory in [5000, 50_000] {
                let found = fixture.aggregate_in(&pipeline, memory).unwrap();
                assert_eq!(sorted(&found), sorted(&all), "{pipeline} {memory}");
                assert!(found.iter().zip(&all).all(|(a, b)| a.get("t") == b.get("t")));
                assert!(fixture.aggregate_without_disk(&pipeline, memory).is_err());
            }
        }
    }
}

/// Groups that do not fit into memory are the same on disk, and an error without it.
#[test]
fn groups_by_columns_use_the_disk() {
    let mut fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    fixture.ns = name(SERIES);
    let text = "x".repeat(500);
    let docs: Vec<DocBuf> = (0..900)
        .map(|n| {
            let (time, v) = (Value::DateTime(NOW_MS + n * 1000), (n % 7) as i32);
            let meta = bson! { "n": (n % 3), "text": (text.as_str()) };
            bson! { "t": time, "m": (meta.as_doc()), "v": v, "s": (format!("{text}{n}").as_str()) }
        })
        .collect();
    for chunk in docs.chunks(300) {
        assert_eq!(insert_into(&fixture.store, &name(SERIES), chunk, true).count, 300);
    }
    for group in [
        "{_id: '$t', m: {$first: '$m'}}",
        "{_id: '$t', s: {$last: '$s'}, m: {$max: '$m.text'}}",
        "{_id: {m: '$m', t: {$minute: '$t'}}, v: {$sum: '$v'}, n: {$sum: 1}}",
    ] {
        let pipeline = format!("[{{$match: {{v: {{$lt: 6}}}}}}, {{$group: {group}}}]");
        let all = fixture.aggregate(&pipeline).unwrap();
        for memory in [3000, 50_000] {
            let found = fixture.aggregate_in(&pipeline, memory).unwrap();
            assert_eq!(sorted(&found), sorted(&all), "{pipeline} {memory}");
            let limited = fixture.aggregate_without_disk(&pipeline, 3000);
            assert!(limited.is_err(), "{pipeline}");
        }
    }
}

/// What is the same for a bucket is not evaluated for measurements that are not wanted.
#[test]
fn nothing_fails_for_measurements_that_are_not_wanted() {
    let mut fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    fixture.ns = name(SERIES);
    let one = |v: i32| bson! { "t": (Value::DateTime(NOW_MS)), "m": 0, "v": v };
    insert_into(&fixture.store, &name(SERIES), &[one(0), one(10)], true);
    let pipeline = |filter: &str| {
        format!(
            "[{{$match: {filter}}}, {{$group: {{_id: null, s: {{$sum: {{$divide: [1, '$m']}}}}}}}}]"
        )
    };
    assert!(fixture.aggregate(&pipeline("{v: 5}")).unwrap().is_empty());
    assert!(fixture.aggregate(&pipeline("{v: 10}")).is_err());
}

/// A date near the ends of what ids and dates express, or not.
fn far_date(random: &mut Random, kind: u64) -> i64 {
    let near = [NOW_MS, i64::from(i32::MAX) * 1000, -NOW_MS, 0, i64::from(u32::MAX) * 1000];
    let near = &near[..[1, 2, 4, 5][kind as usize % 4]];
    match random.below(20) {
        0 if kind % 4 == 3 => i64::MIN,
        1 if kind % 4 == 3 => i64::MAX,
        _ => near[random.below(near.len())] + random.below(4 * 3600) as i64 * 1000 - 7_200_000,
    }
}

#[test]
fn any_times_are_found() {
    for seed in 1..=cases().div_ceil(40) {
        let mut random = Random(seed * 0xB7_E151);
        let fixture = Fixture::new();
        create(&fixture, "{timeseries: {timeField: 't'}}");
        let (series, plain) = (name(SERIES), name("plain"));
        let docs: Vec<DocBuf> = (0..80)
            .map(|id| nagi_bson::doc! { "_id": id, "t": (Value::DateTime(far_date(&mut random, seed))) })
            .collect();
        assert_eq!(insert_into(&fixture.store, &series, &docs, true).count, 80);
        insert_into(&fixture.store, &plain, &docs, true);
        for _ in 0..60 {
            let mut one = || {
                let time = match random.chance(40) {
                    true => docs[random.below(docs.len())].get("t").to_string(),
                    false => format!("Date({})", far_date(&mut random, 3)),
                };
                let time = time.replace("new Date(", "Date(");
                let time = time.trim_start_matches("Date(").trim_end_matches(')').to_owned();
                let op = random.one(&["$lt", "$lte", "$gt", "$gte", "$eq"]);
                format!("{{t: {{{op}: {{$date: {{$numberLong: '{time}'}}}}}}}}")
            };
            let filter = format!("{{$and: [{}, {}]}}", one(), one());
            let filter = if random.chance(30) { one_of(&filter) } else { filter };
            assert_eq!(
                found(&fixture.store, &series, &filter),
                found(&fixture.store, &plain, &filter),
                "seed {seed}: {filter}"
            );
        }
    }
}

fn one_of(filter: &str) -> String {
    filter.replace("$and", "$or")
}

/// Both ends of the range of times are bounded, by the index and by the ids of the buckets.
#[test]
fn buckets_of_other_times_are_not_read() {
    for options in ["{timeField: 't'}", "{timeField: 't', metaField: 'm'}"] {
        let fixture = Fixture::new();
        create(&fixture, &format!("{{timeseries: {options}}}"));
        let series = name(SERIES);
        for hour in 0..20 {
            let docs = [doc(&format!("{{t: ISODate('2024-01-01T{hour:02}:00:00Z'), m: 1}}"))];
            insert_into(&fixture.store, &series, &docs, true);
        }
        let filters = [
            "{m: 1, t: {$gte: ISODate('2024-01-01T18:00:00Z')}}",
            "{m: 1, t: {$lt: ISODate('2024-01-01T02:00:00Z')}}",
            "{t: {$gte: ISODate('2024-01-01T18:00:00Z')}}",
            "{t: {$lt: ISODate('2024-01-01T02:00:00Z')}}",
            "{t: {$gte: ISODate('2024-01-01T08:00:00Z'), $lt: ISODate('2024-01-01T10:00:00Z')}}",
            "{t: {$in: [ISODate('2024-01-01T08:00:00Z'), ISODate('2024-01-01T11:00:00Z')]}}",
        ];
        for filter in filters {
            let parsed = doc(filter);
            let request = FindRequest { filter: parsed.as_doc(), ..FindRequest::new(&series) };
            let shown =
                fixture.try_explain(&Explained::Find(request), Verbosity::ExecutionStats).unwrap();
            let text = shown.as_doc().to_string();
            let examined = text.split("totalDocsExamined: ").nth(1).unwrap();
            let examined: usize = examined.split([',', ' ']).next().unwrap().parse().unwrap();
            assert!((2..=4).contains(&examined), "{filter}: {text}");
            assert_eq!(found(&fixture.store, &series, filter).len(), 2);
        }
    }
}

/// The number of buckets that are unpacked, and of those that are read.
fn buckets_read(fixture: &Fixture, filter: &str) -> (usize, usize) {
    let (parsed, series) = (doc(filter), name(SERIES));
    let request = FindRequest { filter: parsed.as_doc(), ..FindRequest::new(&series) };
    let shown = fixture.try_explain(&Explained::Find(request), Verbosity::ExecutionStats).unwrap();
    let text = shown.as_doc().to_string();
    let number = |name: &str| -> usize {
        let after = text.split(&format!("{name}: ")).nth(1).unwrap();
        after.split([',', ' ']).next().unwrap().parse().unwrap()
    };
    (number("nReturned"), number("totalDocsExamined"))
}

/// Ranges of values of fields exclude buckets, and an index on them serves.
#[test]
fn buckets_of_other_values_are_not_unpacked() {
    for (indexed, collation) in [(false, ""), (true, ""), (false, ", collation: {locale: 'en'}")] {
        let fixture = Fixture::new();
        create(&fixture, &format!("{{timeseries: {{timeField: 't', metaField: 'm'}}{collation}}}"));
        let series = name(SERIES);
        let buckets = fixture.store.buckets_of(&series).unwrap();
        if indexed {
            let options = buckets.options.timeseries.as_ref().unwrap();
            for key in ["{key: {n: -1}, name: 'n'}", "{key: {s: 1}, name: 's'}"] {
                let spec = series_index(options, None, doc(key).as_doc()).unwrap();
                let of = &buckets.namespace;
                fixture
                    .store
                    .create_indexes(of, &[spec.as_doc()], BuildOptions::default())
                    .unwrap();
            }
        }
        for hour in 0..20 {
            let more = if hour == 3 { ", x: /r/, y: {z: 5}" } else { "" };
            let docs = [doc(&format!(
                "{{t: ISODate('2024-01-01T{hour:02}:00:00Z'), m: 1, n: {hour}, s: 's{hour:02}',
                   o: {{p: {hour}}}{more}}}"
            ))];
            insert_into(&fixture.store, &series, &docs, true);
        }
        let collated = !collation.is_empty();
        for (filter, unpacked, by_index) in [
            ("{n: {$gt: 16}}", 3, true),
            ("{n: {$in: [3, 5, 99]}}", 2, false),
            ("{n: {$in: [3, 4, 5, 6, 7, 8, 9, 10, 3]}}", 8, false),
            ("{s: {$lt: 's03'}}", if collated { 20 } else { 3 }, true),
            ("{s: 's03'}", if collated { 20 } else { 1 }, true),
            ("{s: {$in: ['s03', 's05']}}", if collated { 20 } else { 2 }, true),
            ("{'o.p': 7}", 1, false),
            ("{'y.z': {$gte: 5}}", 1, false),
            ("{x: {$exists: true}}", 1, false),
            ("{x: /r/}", 1, false),
            ("{y: {z: 5}}", 1, false),
            ("{n: null}", 20, false),
            ("{x: {$exists: false}}", 20, false),
            ("{n: {$ne: 3}}", 20, false),
            ("{$or: [{n: 3}, {s: {$gt: 's18'}}]}", if collated { 20 } else { 2 }, false),
        ] {
            let (found, read) = buckets_read(&fixture, filter);
            assert_eq!(found, unpacked, "{filter} {indexed} {collation}");
            let expected = if by_index && indexed { unpacked..=unpacked + 1 } else { 0..=20 };
            assert!(expected.contains(&read), "{filter} {indexed}: {read}");
        }
    }
}

/// Buckets of other servers may have several types in a field.
#[test]
fn ranges_with_arrays_exclude_nothing() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let buckets = name(SERIES).buckets().unwrap();
    let time = "ISODate('2024-01-01T00:00:00Z')";
    for (min, max, values) in [
        ("5", "[7, 1]", "{'0': 5, '1': [7, 1]}"),
        ("5", "true", "{'0': 5, '1': [7, 1], '2': true}"),
        ("[1, 5]", "[1, 9]", "{'0': [1, 9], '1': [1, 5]}"),
    ] {
        let bucket = doc(&format!(
            "{{control: {{version: 1, min: {{t: {time}, f: {min}}}, max: {{t: {time}, f: {max}}}}}, meta: 1,
              data: {{t: {{'0': {time}, '1': {time}, '2': {time}}}, f: {values}}}}}"
        ));
        assert_eq!(insert_into(&fixture.store, &buckets, &[bucket], true).count, 1);
    }
    for (filter, count) in [("{f: 1}", 4), ("{f: {$lt: 2}}", 4), ("{f: {$gt: 8}}", 1)] {
        assert_eq!(found(&fixture.store, &name(SERIES), filter).len(), count, "{filter}");
    }
}

/// Reading stops where nothing later can follow.
#[test]
fn the_latest_measurement_is_in_the_last_bucket() {
    let fixture = Fixture::new();
    create(&fixture, "{timeseries: {timeField: 't', metaField: 'm'}}");
    let series = name(SERIES);
    for hour in 0..20 {
        let docs = [doc(&format!("{{t: ISODate('2024-01-01T{hour:02}:00:00Z'), m: 1}}"))];
        insert_into(&fixture.store, &series, &docs, true);
    }
    for (sort, at_most) in [("{t: -1}", 3), ("{t: 1}", 2)] {
        let (filter, sort) = (doc("{m: 1}"), doc(sort));
        let request = FindRequest {
            filter: filter.as_doc(),
            sort: sort.as_doc(),
            limit: Some(1),
            ..FindRequest::new(&series)
        };
        let shown =
            fixture.try_explain(&Explained::Find(request), Verbosity::ExecutionStats).unwrap();
        let text = shown.as_doc().to_string();
        let examined = text.split("totalDocsExamined: ").nth(1).unwrap();
        let examined: usize = examined.split([',', ' ']).next().unwrap().parse().unwrap();
        assert!((1..=at_most).contains(&examined), "{text}");
    }
}
