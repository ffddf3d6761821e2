//! Buckets: those of MongoDB, limits, and round trips of any measurements.
use nagi_bson::{Doc, DocBuf, Value, ValueBuf, doc, json, oid::Generator};
use nagi_timeseries::Options;
use nagi_timeseries::bucket::{
    Bucket, COUNT_MAX, Refused, Shape, Unpacked, Unpacker, check, time_of,
};
use nagi_timeseries::column::Decoder;
use proptest::prelude::*;

fn parse(text: &str) -> DocBuf {
    json::parse(text).expect("valid JSON")
}

fn options(text: &str) -> Options {
    Options::parse(parse(text).as_doc(), "db.c").expect("valid options")
}

fn new_id(seconds: u32) -> [u8; 12] {
    Generator::new([1, 2, 3, 4, 5], 0).next(seconds)
}

fn unpack(bucket: Doc<'_>, shape: &Shape) -> Vec<DocBuf> {
    let mut unpacker = Unpacker::new(bucket, shape).expect("a bucket");
    let mut all = Vec::new();
    let mut out = Vec::new();
    while unpacker.append(&mut out).expect("valid columns") {
        all.push(Doc::trusted(&out).to_buf());
        out.clear();
    }
    assert!(out.is_empty());
    let mut unpacker = Unpacker::new(bucket, shape).expect("a bucket");
    if all.len() > 1 {
        // Skipping keeps the fields in step.
        assert!(unpacker.skip().unwrap() && unpacker.append(&mut out).unwrap());
        assert_eq!(out, all[1].as_bytes());
    }
    for part in [0, all.len() / 3, all.len() / 2] {
        wanted_times_are_unpacked(bucket, shape, &all, part);
    }
    all
}

/// Measurements with the times of those from the `part`-th one to the last but `part`.
fn wanted_times_are_unpacked(bucket: Doc<'_>, shape: &Shape, all: &[DocBuf], part: usize) {
    let time = |doc: &DocBuf| match doc.get(&shape.time_field) {
        Value::DateTime(time) => time,
        other => panic!("{other}"),
    };
    let mut times: Vec<i64> = all.iter().map(time).collect();
    times.sort_unstable();
    let Some(wanted) = times.get(part).zip(times.iter().rev().nth(part)) else { return };
    let wanted = *wanted.0..=*wanted.1;
    let mut unpacker = Unpacker::new(bucket, shape).expect("a bucket");
    let mut out = Vec::new();
    for one in all {
        let done = unpacker.append_between(wanted.clone(), &mut out).expect("valid columns");
        match wanted.contains(&time(one)) {
            true => assert_eq!((done, &*out), (Unpacked::Appended, one.as_bytes())),
            false => assert_eq!((done, &*out), (Unpacked::Passed, &[][..])),
        }
        out.clear();
    }
    assert_eq!(unpacker.append_between(wanted, &mut out).unwrap(), Unpacked::End);
}

fn shown(bucket: &str, options: &Options) -> Vec<String> {
    let measurements = unpack(parse(bucket).as_doc(), &Shape::of(options));
    measurements.iter().map(|doc| doc.as_doc().to_string()).collect()
}

/// Collects measurements into one bucket.
fn collect(measurements: &[DocBuf], options: &Options) -> Bucket {
    let time = time_of(measurements[0].as_doc(), options).expect("a time");
    let mut bucket = Bucket::new(time, None, options, &new_id);
    for measurement in measurements {
        let time = time_of(measurement.as_doc(), options).expect("a time");
        bucket.add(measurement.as_doc(), time, options).expect("accepted");
    }
    bucket
}

/// From MongoDB's public tests of validation: measurements of a stock.
const STOCK: &str = r#"{
    "_id": {"$oid": "61be04541ad72e8d5d257550"},
    "control": {
        "version": 2,
        "min": {"_id": {"$oid": "6912089d8302f7b0ec8eef41"}, "date": {"$date": "2021-12-18T15:55:00Z"},
            "close": 252.47, "volume": 27890.0},
        "max": {"_id": {"$oid": "6912089d8302f7b0ec8eef45"}, "date": {"$date": "2021-12-18T15:59:00Z"},
            "close": 254.03, "volume": 55046.0},
        "count": 5
    },
    "meta": {"ticker": "MDB"},
    "data": {
        "_id": {"$binary": {"base64": "BwBpEgidgwL3sOyO70WAGwAAAAAAAAAA", "subType": "07"}},
        "date": {"$binary": {"base64": "CQAg6EDOfQEAAIEMTB0AAAAAAA4AAAAAAAAAAA==", "subType": "07"}},
        "close": {"$binary": {"base64": "AQApXI/C9cBvQLD7BBgAHAK2AAA=", "subType": "07"}},
        "volume": {"$binary": {"base64": "AQAAAAAAwKnjQJB7C0YAo3jwqwA=", "subType": "07"}}
    }
}"#;

#[test]
fn a_bucket_of_mongodb_is_read_and_written() {
    let options = options("{timeField: 'date', metaField: 'ticker'}");
    let stock = parse(STOCK);
    let measurements = unpack(stock.as_doc(), &Shape::of(&options));
    assert_eq!(measurements.len(), 5);
    assert_eq!(
        measurements[0].as_doc().to_string(),
        "{ date: new Date(1639842900000), ticker: { ticker: \"MDB\" }, _id: \
         ObjectId('6912089d8302f7b0ec8eef45'), close: 254.03, volume: 40270.0 }"
    );
    // Read as an open bucket and written again, it is the same document.
    let mut bucket = Bucket::open(stock.as_doc(), &options).unwrap().expect("open");
    assert_eq!(bucket.to_doc(&options).unwrap().as_doc().to_string(), stock.as_doc().to_string());
}

#[test]
fn version_1_is_read() {
    let options = options("{timeField: 't', metaField: 'm'}");
    let bucket = r#"{"_id": {"$oid": "61be04541ad72e8d5d257550"},
        "control": {"version": 1, "min": {"t": {"$date": "1970-01-01T00:00:00Z"}, "a": 1, "b": 5},
            "max": {"t": {"$date": "1970-01-01T00:00:02Z"}, "a": 3, "b": 5}},
        "meta": "x",
        "data": {"a": {"0": 1, "2": 3}, "t": {"0": {"$date": "1970-01-01T00:00:02Z"},
            "1": {"$date": "1970-01-01T00:00:00Z"}, "2": {"$date": "1970-01-01T00:00:01Z"}}, "b": {"1": 5}}}"#;
    let all = [
        "{ t: new Date(2000), m: \"x\", a: 1 }",
        "{ t: new Date(0), m: \"x\", b: 5 }",
        "{ t: new Date(1000), m: \"x\", a: 3 }",
    ];
    assert_eq!(shown(bucket, &options), all);
    // It takes more measurements, and becomes version 2 in the order of time.
    let mut open = Bucket::open(parse(bucket).as_doc(), &options).unwrap().expect("open");
    let next = parse(r#"{"t": {"$date": {"$numberLong": "500"}}, "m": "x", "a": 9, "b": 6}"#);
    open.add(next.as_doc(), 500, &options).unwrap();
    let written = open.to_doc(&options).unwrap();
    let control = written.get("control").as_doc().unwrap();
    assert_eq!(
        control.to_string(),
        "{ version: 2, min: { t: new Date(0), a: 1, b: 5 }, max: { t: new Date(2000), a: 9, b: 6 }, count: 4 }"
    );
    let times: Vec<String> = unpack(written.as_doc(), &Shape::of(&options))
        .iter()
        .map(|doc| doc.get("t").to_string())
        .collect();
    assert_eq!(times, ["new Date(0)", "new Date(500)", "new Date(1000)", "new Date(2000)"]);
}

#[test]
fn version_3_is_read_in_its_order() {
    let options = options("{timeField: 'date'}");
    let bucket = r#"{"_id": {"$oid": "69690e4c8bee049fcc1c4d87"},
        "control": {"version": 3, "count": 5,
            "min": {"date": {"$date": "2026-01-15T15:57:00Z"}, "data": "a"},
            "max": {"date": {"$date": "2026-01-15T15:57:32.636Z"}, "data": "d"}},
        "data": {
            "data": {"$binary": {"base64": "AgACAAAAYQCBLAAAAgAgAADOPwwAAAAAAAA=", "subType": "07"}},
            "date": {"$binary": {"base64": "CQDpOGDCmwEAAICLLuFtJFWCTwA=", "subType": "07"}}}}"#;
    let found = shown(bucket, &options);
    assert_eq!(found[3], "{ date: new Date(1768492652636), data: \"d\" }");
    assert_eq!(found[4], "{ date: new Date(1768492649000), data: \"bb\" }");
}

#[test]
fn documents_that_are_no_buckets_are_refused() {
    let options = options("{timeField: 't'}");
    for text in [
        "{}",
        "{control: {version: 2}}",
        "{control: {version: 4}, data: {}}",
        "{control: {version: 1}, data: 1}",
        "{control: {version: 1}, data: {t: 1}}",
        "{control: {version: 2}, data: {t: {'0': 1}}}",
        r#"{control: {version: 2}, data: {t: {"$binary": {"base64": "AA==", "subType": "00"}}}}"#,
    ] {
        assert!(Unpacker::new(parse(text).as_doc(), &Shape::of(&options)).is_err(), "{text}");
    }
    // Without a time field, there is no measurement.
    assert!(shown("{control: {version: 1}, data: {a: {'0': 1}}}", &options).is_empty());
    // No more measurements for a bucket that is closed, has two types in a field, or a field without a range.
    for (from, to) in [
        ("\"count\"", "\"closed\": true, \"count\""),
        ("254.03", "\"text\""),
        ("\"volume\": {", "\"other\": {"),
    ] {
        let changed = parse(&STOCK.replace(from, to));
        let options = self::options("{timeField: 'date', metaField: 'ticker'}");
        assert!(Bucket::open(changed.as_doc(), &options).unwrap().is_none(), "{to}");
    }
}

#[test]
fn buckets_have_limits() {
    let options = options("{timeField: 't', metaField: 'm'}");
    let measurement =
        |time: i64, a: Value<'_>| doc! { "t": (Value::DateTime(time)), "m": 1, "a": (a) };
    let mut bucket = Bucket::new(119_000, None, &options, &new_id);
    assert_eq!(bucket.id()[..4], 60_u32.to_be_bytes());
    let mut add = |time, a| bucket.add(measurement(time, a).as_doc(), time, &options);
    let one = Value::Int32(1);
    assert_eq!(add(60_000 + 3_600_000 - 1, one), Ok(()));
    assert_eq!(add(60_000, Value::Double(0.5)), Ok(()));
    assert_eq!(add(59_999, one), Err(Refused::Earlier));
    assert_eq!(add(60_000 + 3_600_000, one), Err(Refused::Later));
    assert_eq!(add(60_000, Value::String("x")), Err(Refused::Schema));
    for _ in 2..COUNT_MAX {
        assert_eq!(add(60_000, one), Ok(()));
    }
    assert_eq!(add(60_000, one), Err(Refused::Count));

    // Ten measurements are taken even if they are large, but not more than 12 MiB of them.
    let large = "x".repeat(100_000);
    let mut bucket = Bucket::new(60_000, None, &options, &new_id);
    let mut add = |text: &str| {
        bucket.add(measurement(60_000, Value::String(text)).as_doc(), 60_000, &options)
    };
    for _ in 0..10 {
        assert_eq!(add(&large), Ok(()));
    }
    assert_eq!(add(&large), Err(Refused::Size));
    let mut bucket = Bucket::new(60_000, None, &options, &new_id);
    let mut add = |text: &str| {
        bucket.add(measurement(60_000, Value::String(text)).as_doc(), 60_000, &options)
    };
    let huge = "x".repeat(7 << 20);
    assert_eq!(add(&huge), Ok(()));
    assert_eq!(add(&huge), Err(Refused::Size));
    // The ranges count, too: they have two more copies.
    for size in [2_000_000, 4_000_000] {
        let mut bucket = Bucket::new(60_000, None, &options, &new_id);
        let mut count = 0;
        let refused = loop {
            let text = char::from(b'a' + count).to_string().repeat(size);
            let measurement = measurement(60_000, Value::String(&text));
            match bucket.add(measurement.as_doc(), 60_000, &options) {
                Ok(()) => count += 1,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, Refused::Size);
        assert!(bucket.to_doc(&options).unwrap().as_bytes().len() < 15 << 20);
    }
}

#[test]
fn times_beyond_32_bits_are_taken() {
    let options = options("{timeField: 't'}");
    for time in [-1, -86_400_000, 4_102_444_800_000, 253_402_300_799_000, i64::MIN, i64::MAX] {
        let measurements = [doc! { "t": (Value::DateTime(time)), "a": 1 }];
        let mut bucket = collect(&measurements, &options);
        let found = unpack(bucket.to_doc(&options).unwrap().as_doc(), &Shape::of(&options));
        assert_eq!(found, measurements, "{time}");
    }
    for wrong in ["{}", "{t: 1}", "{t: null}", "{t: '2020-01-01'}"] {
        let error = time_of(parse(wrong).as_doc(), &options).unwrap_err();
        let text = "'t' must be present and contain a valid BSON UTC datetime value";
        assert_eq!((error.code().0, error.message()), (2, text));
    }
}

/// A field's values are of one class, so that all fit into one bucket.
fn measurements() -> impl Strategy<Value = Vec<DocBuf>> {
    let numbers = prop_oneof![
        any::<i32>().prop_map(|n| ValueBuf::new(Value::Int32(n))),
        (-500..500_i32).prop_map(|n| ValueBuf::new(Value::Double(f64::from(n) / 10.0))),
    ];
    let one = (
        0..3_600_000_i64,
        proptest::option::of(numbers),
        proptest::option::of("[a-d]{0,4}"),
        proptest::option::of((any::<bool>(), 0..5_i32)),
    );
    let one = one.prop_map(|(time, number, text, nested)| {
        DocBuf::build(|out| {
            out.put("t", Value::DateTime(time));
            if let Some(number) = &number {
                out.put("n", number.value());
            }
            if let Some(text) = &text {
                out.put("s", text.as_str());
            }
            if let Some((flag, n)) = nested {
                out.doc("d", |out| {
                    out.array("list", |out| out.push(n));
                    out.put("flag", flag);
                });
            }
        })
    });
    proptest::collection::vec(one, 1..60)
}

fn sorted_by_time(measurements: &[DocBuf]) -> Vec<DocBuf> {
    let mut sorted = measurements.to_vec();
    sorted.sort_by_key(|doc| match doc.get("t") {
        Value::DateTime(time) => time,
        other => panic!("{other}"),
    });
    sorted
}

/// The same fields, whatever their order.
fn same(a: &[DocBuf], b: &[DocBuf]) -> bool {
    let fields = |doc: &DocBuf| {
        let mut fields: Vec<String> =
            doc.as_doc().iter().map(|e| format!("{}: {}", e.name(), e.value())).collect();
        fields.sort();
        fields
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fields(a) == fields(b))
}

/// Checks that each column has as many slots as the bucket has measurements.
fn has_full_columns(bucket: Doc<'_>) -> bool {
    let count = bucket.get("control").as_doc().unwrap().get("count");
    bucket.get("data").as_doc().unwrap().iter().all(|field| {
        let Value::Binary(column) = field.value() else { return false };
        let mut decoder = Decoder::new(column.bytes);
        let mut slots = 0;
        while decoder.advance().expect("a column").is_some() {
            slots += 1;
        }
        count == Value::Int32(slots)
    })
}

#[test]
fn columns_end_with_missing_values() {
    let options = options("{timeField: 't'}");
    let measurements = [
        doc! { "t": (Value::DateTime(0)), "a": 1 },
        doc! { "t": (Value::DateTime(1)) },
        doc! { "t": (Value::DateTime(2)), "b": 1 },
        doc! { "t": (Value::DateTime(2)) },
    ];
    let mut bucket = collect(&measurements, &options);
    assert!(has_full_columns(bucket.to_doc(&options).unwrap().as_doc()));
    let late = doc! { "t": (Value::DateTime(1)), "c": 1 };
    bucket.add(late.as_doc(), 1, &options).unwrap();
    assert!(has_full_columns(bucket.to_doc(&options).unwrap().as_doc()));
    let next = doc! { "t": (Value::DateTime(9)), "a": 7 };
    bucket.add(next.as_doc(), 9, &options).unwrap();
    let written = bucket.to_doc(&options).unwrap();
    assert!(has_full_columns(written.as_doc()));
    let found = unpack(written.as_doc(), &Shape::of(&options));
    assert!(same(&found[5..], &[next]));
}

proptest! {
    #[test]
    fn any_measurements_come_back(measurements in measurements()) {
        let options = options("{timeField: 't', bucketMaxSpanSeconds: 3600, bucketRoundingSeconds: 3600}");
        let shape = Shape::of(&options);
        let written = collect(&measurements, &options).to_doc(&options).unwrap();
        prop_assert!(Doc::parse(written.as_bytes()).is_ok());
        prop_assert!(has_full_columns(written.as_doc()));
        let expected = sorted_by_time(&measurements);
        prop_assert!(same(&unpack(written.as_doc(), &shape), &expected));

        // In two parts: the bucket is stored, and opened again.
        let (first, second) = measurements.split_at(measurements.len().div_ceil(2));
        let mut collected = collect(first, &options);
        let stored = collected.to_doc(&options).unwrap();
        let mut bucket = Bucket::open(stored.as_doc(), &options).unwrap().expect("open");
        prop_assert_eq!(bucket.bytes(), collected.bytes());
        for measurement in second {
            let time = time_of(measurement.as_doc(), &options).unwrap();
            prop_assert_eq!(bucket.add(measurement.as_doc(), time, &options), Ok(()));
        }
        let again = bucket.to_doc(&options).unwrap();
        prop_assert!(has_full_columns(again.as_doc()));
        prop_assert_eq!(fault(&written, &options), "");
        prop_assert_eq!(fault(&again, &options), "");
        prop_assert_eq!(bucket.count(), measurements.len());
        prop_assert_eq!(again.get("control").to_string(), written.get("control").to_string());
        prop_assert_eq!(unpack(again.as_doc(), &shape).len(), measurements.len());
    }

    /// Every value is within the ranges of its bucket.
    #[test]
    fn ranges_contain_all_values(measurements in measurements()) {
        let options = options("{timeField: 't', bucketMaxSpanSeconds: 3600, bucketRoundingSeconds: 3600}");
        let written = collect(&measurements, &options).to_doc(&options).unwrap();
        let control = written.get("control").as_doc().unwrap();
        let (min, max) = (control.get("min").as_doc().unwrap(), control.get("max").as_doc().unwrap());
        for field in measurements.iter().flat_map(|doc| doc.as_doc()) {
            if field.name() == "d" {
                continue;
            }
            let low = nagi_bson::compare::values(min.get(field.name()), field.value());
            let high = nagi_bson::compare::values(max.get(field.name()), field.value());
            prop_assert!(low.is_le() && high.is_ge(), "{}", control);
        }
    }

    #[test]
    fn changed_buckets_are_survived(at in 0..600_usize, byte: u8) {
        let mut bytes = parse(STOCK).into_bytes();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        let options = options("{timeField: 'date', metaField: 'ticker'}");
        if let Ok(bucket) = Doc::parse(&bytes) {
            let _ = Bucket::open(bucket, &options);
            let Ok(mut unpacker) = Unpacker::new(bucket, &Shape::of(&options)) else { return Ok(()) };
            let mut out = Vec::new();
            for _ in 0..3000 {
                out.clear();
                match unpacker.append(&mut out) {
                    Ok(true) => prop_assert!(Doc::parse(&out).is_ok()),
                    _ => break,
                }
            }
        }
    }
}

/// What is wrong with a bucket: nothing, "error" or "warning" with its reason.
fn fault(bucket: &DocBuf, options: &Options) -> String {
    let fault = check(bucket.as_doc(), options, false, &mut || Ok(())).expect("no interrupt");
    fault.map_or(String::new(), |fault| {
        format!("{}: {}", if fault.is_error { "error" } else { "warning" }, fault.text)
    })
}

#[test]
fn buckets_that_lie_are_told() {
    let options = options("{timeField: 'date', metaField: 'ticker'}");
    let stock = parse(STOCK);
    // MongoDB's test cases change one thing each.
    let count = stock.get("control").as_doc().unwrap().get("count").to_string();
    assert_eq!(count, "5");
    let with = |from: &str, to: &str| {
        assert!(STOCK.contains(from), "{from}");
        fault(&parse(&STOCK.replace(from, to)), &options)
    };
    assert!(with("6912089d8302f7b0ec8eef41", "6912089d8302f7b0ec8eef40").contains("control.min"));
    assert!(with("\"max\": {\"_id\"", "\"max\": {\"other\"").contains("control.max is not"));
    for (from, to, expected) in [
        ("\"count\": 5", "\"count\": 5.0", ""),
        ("\"_id\": {\"$oid\": \"61be", "\"_id\": {\"$oid\": \"51be", "warning: The time of _id"),
        ("\"count\": 5", "\"count\": 4", "error: The bucket has more measurements"),
        ("\"count\": 5", "\"count\": 6", "error: control.count is 6, the bucket has 5"),
        ("\"count\": 5", "\"closed\": false", "error: control.count is "),
        ("\"version\": 2", "\"version\": 1", "error: A field of a bucket has the wrong type"),
        ("\"version\": 2", "\"version\": 9", "error: Invalid bucket version"),
        ("\"version\": 2", "\"version\": 3", ""),
        ("\"close\": 254.03", "\"close\": 255.03", "error: control.max is not"),
        ("\"close\": 252.47", "\"close\": 252.48", "error: control.min is not"),
        ("\"volume\": 55046.0", "\"other\": 55046.0", "error: control.max is not"),
        ("15:59:00Z", "15:58:00Z", "error: control.max of the time field"),
        ("15:55:00Z", "15:56:00Z", "error: A measurement is before"),
        ("\"data\"", "\"other\"", "error: An object with bucket data"),
        ("\"control\"", "\"other\"", "error: control.min and control.max must be objects"),
        ("\"min\": {\"_id\"", "\"min\": 5, \"x\": {\"_id\"", "error: control.min and control.max"),
        (
            "\"subType\": \"07\"}}\n    }",
            "\"subType\": \"00\"}}\n    }",
            "error: A field of a bucket",
        ),
        ("AQAAAAAAwKnjQJB7C0YAo3jwqwA=", "AQAAAAAAwKnjQJB7C0YAo3jwqw==", "error: "),
        ("AQAAAAAAwKnjQJB7C0YAo3jwqwA=", "AQAAAAAAwKnjQAA=", "error: control.min is not"),
    ] {
        let told = with(from, to);
        assert!(
            told.starts_with(expected) && told.is_empty() == expected.is_empty(),
            "{to}: {told}"
        );
    }
    let hours = Options::parse(
        parse("{timeField: 'date', bucketMaxSpanSeconds: 60, bucketRoundingSeconds: 60}").as_doc(),
        "db.c",
    );
    assert!(fault(&stock, &hours.unwrap()).starts_with("warning: The control.max of the time"));
    assert_eq!(fault(&stock, &options), "");
}

#[test]
fn buckets_of_version_1_are_checked() {
    let options = options("{timeField: 't'}");
    let bucket = |rest: &str| {
        parse(&format!(
            "{{_id: ObjectId('000000000000000000000000'), control: {{version: 1, min: \
             {{t: ISODate('1970-01-01T00:00:00Z'), a: 1}}, max: \
             {{t: ISODate('1970-01-01T00:00:05Z'), a: 3}}}}, data: {{t: {{'0': \
             ISODate('1970-01-01T00:00:05Z'), '1': ISODate('1970-01-01T00:00:01Z')}}, a: {{{rest}}}}}}}"
        ))
    };
    assert_eq!(fault(&bucket("'0': 3, '1': 1"), &options), "");
    assert!(fault(&bucket("'0': 3"), &options).contains("control.min"));
    assert!(fault(&bucket("'0': 3, '1': 1, '2': 2"), &options).contains("no measurement"));
    assert!(fault(&bucket("'1': 1, '0': 3"), &options).contains("no measurement"));
}
