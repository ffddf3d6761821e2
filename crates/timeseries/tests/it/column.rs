//! Columns that MongoDB wrote (from buckets in its public tests), and columns of any values.
use nagi_bson::{Doc, DocBuf, Value, ValueBuf, json};
use nagi_timeseries::column::{Decoder, Encoder, encode};
use proptest::prelude::*;

/// All values of a column.
fn decode(column: &[u8]) -> Vec<ValueBuf> {
    let mut decoder = Decoder::new(column);
    let mut values = Vec::new();
    while let Some(value) = decoder.advance().expect("a valid column") {
        values.push(ValueBuf::new(value));
    }
    for step in [1, 7, usize::MAX] {
        let (mut decoder, mut budget, mut at) = (Decoder::new(column), 1000, 0);
        let mut check = |value: Value<'_>| {
            assert!(values[at].value().same_bytes(&value), "{at}");
            at += 1;
            Ok(())
        };
        while decoder.each(step, &mut budget, &mut check).expect("a valid column") == step {}
        assert_eq!(at, values.len());
    }
    values
}

fn parse(text: &str) -> DocBuf {
    json::parse(text).expect("valid JSON")
}

/// The bytes of a column in base64.
fn column(base64: &str) -> Vec<u8> {
    let doc =
        parse(&format!(r#"{{"c": {{"$binary": {{"base64": "{base64}", "subType": "07"}}}}}}"#));
    match doc.get("c") {
        Value::Binary(binary) => { binary.bytes }.to_vec(),
        other => panic!("{other}"),
    }
}

/// Checks that the values are those of an array in extended JSON, and that they encode to the same bytes.
fn same(base64: &str, values: &str) {
    let bytes = column(base64);
    let decoded = decode(&bytes);
    let values = parse(&format!(r#"{{"v": {values}}}"#));
    let values: Vec<_> = values.get("v").as_array().expect("an array").iter().collect();
    assert_eq!(decoded.len(), values.len(), "{base64}");
    for (decoded, value) in decoded.iter().zip(values) {
        assert!(decoded.value().same_bytes(&value), "{} is not {value}", decoded.value());
    }
    assert_eq!(encode(decoded.iter().map(ValueBuf::value)), bytes, "{base64}");
}

#[test]
fn columns_of_mongodb_are_read_and_written() {
    same("AQApXI/C9cBvQLD7BBgAHAK2AAA=", "[254.03, 253.63, 253.61, 252.93, 252.47]");
    let volumes = r#"[{"$numberDouble": "40270"}, {"$numberDouble": "27890"}, {"$numberDouble": "40182"},
        {"$numberDouble": "44042"}, {"$numberDouble": "55046"}]"#;
    same("AQAAAAAAwKnjQJB7C0YAo3jwqwA=", volumes);
    same("AQAAAAAAAAAAAJAuAAAAAAAAAAA=", r#"[{"$numberDouble": "0"}, {"$numberDouble": "1"}]"#);
    same("EAAAAAAAgC4AAAAAAAAAAA==", r#"[{"$numberInt": "0"}, {"$numberInt": "1"}]"#);
    same("AgACAAAAYQCBLAAAAgAgAADOPwwAAAAAAAA=", r#"["a", "b", "c", "d", "bb"]"#);
    same("AgALAAAAcHJlVXBncmFkZQAA", r#"["preUpgrade"]"#);
    let ids = r#"[{"$oid": "69690e642a688d1103284d0c"}, {"$oid": "69690e672a688d1103284d0d"},
        {"$oid": "69690e6b2a688d1103284d0e"}, {"$oid": "69690e6c2a688d1103284d0f"},
        {"$oid": "69690ea22a688d1103284d10"}]"#;
    same("BwBpaQ5kKmiNEQMoTQyAK2AAEPwXANQA", ids);
    let dates = |ms: &[i64]| {
        let date = |ms| format!(r#"{{"$date": {{"$numberLong": "{ms}"}}}}"#);
        format!("[{}]", ms.iter().map(date).collect::<Vec<_>>().join(","))
    };
    let minutes: Vec<i64> = (0..5).map(|n| 1_639_842_900_000 + n * 60_000).collect();
    same("CQAg6EDOfQEAAIEMTB0AAAAAAA4AAAAAAAAAAA==", &dates(&minutes));
    let unordered = [
        1_768_492_644_585,
        1_768_492_647_005,
        1_768_492_651_183,
        1_768_492_652_636,
        1_768_492_649_000,
    ];
    same("CQDpOGDCmwEAAICLLuFtJFWCTwA=", &dates(&unordered));
    same("CQAofsQfqP///wA=", &dates(&[-377_424_151_000]));
    same("CQDolzLxggEAAID+fAAAAAAAAAA=", &dates(&[1_661_904_001_000, 1_661_904_000_000]));
}

/// Interleaved columns, written by hand after the format.
#[test]
fn interleaved_documents_are_read() {
    let word = |selector: u64, value: u64| (selector | value << 4).to_le_bytes();
    let reference =
        parse(r#"{"a": {"$numberInt": "1"}, "b": {"c": {"$numberInt": "5"}, "d": []}, "e": {}}"#);
    let mut bytes = vec![0xF1];
    bytes.extend_from_slice(reference.as_bytes());
    // `a`: 1, 2, missing. `b.c`: 5, missing, 6.
    for slots in [[0, 2, 0xFFFFF], [0, 0xFFFFF, 2]] {
        bytes.push(0x80);
        bytes.extend_from_slice(&word(12, slots[0] | slots[1] << 20 | slots[2] << 40));
    }
    // The end of the documents, then the last one again.
    bytes.push(0);
    bytes.push(0x80);
    bytes.extend_from_slice(&word(14, 0));
    bytes.push(0);
    let texts: Vec<String> = decode(&bytes).iter().map(|v| v.value().to_string()).collect();
    let last = "{ b: { c: 6, d: [] }, e: {} }";
    assert_eq!(
        texts,
        ["{ a: 1, b: { c: 5, d: [] }, e: {} }", "{ a: 2, b: { d: [] }, e: {} }", last, last]
    );

    // With 0xF0, the array is a leaf. It is replaced by a literal, and `a` by a value of another type.
    let reference = parse(r#"{"a": {"$numberInt": "1"}, "d": [{"$numberInt": "1"}]}"#);
    let mut bytes = vec![0xF0];
    bytes.extend_from_slice(reference.as_bytes());
    bytes.extend_from_slice(&[0x80]);
    bytes.extend_from_slice(&word(14, 0));
    bytes.extend_from_slice(&[0x80]);
    bytes.extend_from_slice(&word(14, 0));
    bytes.extend_from_slice(&[8, 0, 1, 4, 0, 5, 0, 0, 0, 0, 0, 0]);
    let texts: Vec<String> = decode(&bytes).iter().map(|v| v.value().to_string()).collect();
    assert_eq!(texts, ["{ a: 1, d: [ 1 ] }", "{ a: true, d: [] }"]);

    // 0xF2 makes arrays; where all leaves are missing, the value is.
    let mut bytes = vec![0xF2];
    bytes.extend_from_slice(parse(r#"{"0": {"$numberInt": "7"}}"#).as_bytes());
    bytes.push(0x80);
    bytes.extend_from_slice(&word(13, 2 | 0x3FFF_FFFF << 30));
    bytes.extend_from_slice(&[0, 0]);
    let texts: Vec<String> = decode(&bytes).iter().map(|v| v.value().to_string()).collect();
    assert_eq!(texts, ["[ 8 ]", "MISSING"]);
}

/// A value of any type. Values of few bits are frequent, so that runs of differences occur.
fn any_value() -> impl Strategy<Value = ValueBuf> {
    let text = |s: &str| ValueBuf::new(Value::String(s));
    prop_oneof![
        3 => Just(ValueBuf::new(Value::Missing)),
        6 => (-9..9_i32).prop_map(|n| ValueBuf::new(Value::Int32(n))),
        1 => any::<i32>().prop_map(|n| ValueBuf::new(Value::Int32(n))),
        4 => (-9..9_i64).prop_map(|n| ValueBuf::new(Value::Int64(n << 40))),
        1 => any::<i64>().prop_map(|n| ValueBuf::new(Value::Int64(n))),
        6 => (-99..99_i32).prop_map(|n| ValueBuf::new(Value::Double(f64::from(n) / 100.0))),
        2 => (-99..99_i32).prop_map(|n| ValueBuf::new(Value::Double(f64::from(n)))),
        2 => any::<u64>().prop_map(|n| ValueBuf::new(Value::Double(f64::from_bits(n)))),
        4 => (0..60_000_i64).prop_map(|n| ValueBuf::new(Value::DateTime(n * 1000))),
        1 => any::<u64>().prop_map(|n| ValueBuf::new(Value::Timestamp(n))),
        3 => any::<[u8; 2]>().prop_map(|n| {
            ValueBuf::new(Value::ObjectId(&[1, 2, 3, n[0], 5, 6, 7, 8, n[1] & 1, 10, 11, n[1]]))
        }),
        2 => any::<bool>().prop_map(|b| ValueBuf::new(Value::Bool(b))),
        2 => Just(ValueBuf::new(Value::Null)),
        1 => Just(ValueBuf::new(Value::MinKey)),
        3 => "[a-c]{0,3}".prop_map(move |s| text(&s)),
        1 => "\\PC{0,20}".prop_map(move |s| text(&s)),
        1 => "[\0a]{0,2}".prop_map(|s| ValueBuf::new(Value::Code(&s))),
        2 => (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..18)).prop_map(|(subtype, bytes)| {
            let subtype = subtype & 1;
            ValueBuf::new(Value::Binary(nagi_bson::Binary { subtype, bytes: &bytes }))
        }),
        1 => any::<i64>().prop_map(|n| {
            ValueBuf::new(Value::Decimal128(nagi_bson::Decimal128::from_i64(n)))
        }),
        1 => (0..3_i32).prop_map(|n| ValueBuf::new(Value::from(&nagi_bson::doc! { "a": n }))),
        1 => (0..3_i32).prop_map(|n| ValueBuf::new(Value::from(&nagi_bson::array![n]))),
    ]
}

/// A document of few fields, of which each may be missing, and which may contain others.
fn any_document(depth: u32) -> BoxedStrategy<DocBuf> {
    let inner = match depth {
        0 => Just(None).boxed(),
        _ => any_document(depth - 1).prop_map(|doc| Some(ValueBuf::new(Value::from(&doc)))).boxed(),
    };
    let field = prop_oneof![
        4 => any_value().prop_map(Some),
        4 => (0..50_i32).prop_map(|n| Some(ValueBuf::new(Value::Int32(n)))),
        4 => inner,
        2 => Just(None),
    ];
    (proptest::collection::vec(field, 0..4), prop_oneof![9 => Just(false), 1 => Just(true)])
        .prop_map(|(fields, reversed)| {
            let mut fields: Vec<_> = ["a", "b", "c"].iter().zip(fields).collect();
            if reversed {
                fields.reverse();
            }
            DocBuf::build(|out| {
                for (name, value) in fields {
                    if let Some(value) = value.filter(|value| !value.value().is_missing()) {
                        out.put(name, value.value());
                    }
                }
            })
        })
        .boxed()
}

/// Documents, most of which have the fields of one of them.
fn documents() -> impl Strategy<Value = Vec<ValueBuf>> {
    let base = proptest::collection::vec((any_document(2), 0..30_usize), 1..5);
    (base, any::<u64>()).prop_map(|(bases, seed)| {
        let mut random = seed | 1;
        let mut below = |n: u64| {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (random >> 33) % n
        };
        let mut all = Vec::new();
        for (base, count) in bases {
            for _ in 0..=count {
                let doc = varied(base.as_doc(), &mut below);
                all.push(match below(12) {
                    0 => ValueBuf::new(Value::Missing),
                    _ => ValueBuf::new(Value::from(&doc)),
                });
            }
        }
        all
    })
}

/// The document with other numbers, and without some fields.
fn varied(base: Doc<'_>, below: &mut dyn FnMut(u64) -> u64) -> DocBuf {
    DocBuf::build(|out| {
        for field in base {
            match field.value() {
                _ if below(15) == 0 => {}
                Value::Doc(inner) => out.put(field.name(), &varied(inner, below)),
                Value::Int32(n) => out.put(field.name(), n + below(3) as i32),
                Value::Double(n) if below(4) == 0 => out.put(field.name(), n + 0.25),
                other => out.put(field.name(), other),
            }
        }
    })
}

/// Values that stay the same for a while.
fn runs() -> impl Strategy<Value = Vec<ValueBuf>> {
    let run =
        (any_value(), prop_oneof![8 => 1..4_usize, 1 => 100..400_usize, 1 => 2000..4000_usize]);
    proptest::collection::vec(run, 0..12).prop_map(|runs| {
        runs.iter().flat_map(|(value, count)| std::iter::repeat_n(value.clone(), *count)).collect()
    })
}

fn check_round_trip(values: &[ValueBuf]) {
    let bytes = encode(values.iter().map(ValueBuf::value));
    let decoded = decode(&bytes);
    assert_eq!(decoded.len(), values.len());
    for (i, (decoded, value)) in decoded.iter().zip(values).enumerate() {
        assert!(
            decoded.value().same_bytes(&value.value()),
            "{i}: {} {}",
            decoded.value(),
            value.value()
        );
    }
}

/// A growing column is at any time the column of its values.
fn check_growth(values: &[ValueBuf], each: usize) {
    let mut encoder = Encoder::new();
    for (i, value) in values.iter().enumerate() {
        encoder.push(value.value());
        if i % each == each - 1 {
            let mut so_far = Vec::new();
            encoder.append_to(&mut so_far);
            let decoded = decode(&so_far);
            assert_eq!(decoded.len(), i + 1);
            for (decoded, value) in decoded.iter().zip(values) {
                assert!(decoded.value().same_bytes(&value.value()), "{i}");
            }
        }
    }
    assert_eq!(decode(&encoder.finish()).len(), values.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 3000 }))]

    #[test]
    fn any_values_come_back(values in proptest::collection::vec(any_value(), 0..60)) {
        check_round_trip(&values);
        check_growth(&values, 3);
    }

    #[test]
    fn any_documents_come_back(values in documents()) {
        check_round_trip(&values);
        check_growth(&values, 7);
    }

    #[test]
    fn any_runs_come_back(values in runs()) {
        check_round_trip(&values);
        check_growth(&values, 301);
    }

    /// Differences of one type: the range of each decides the selectors.
    #[test]
    fn any_steps_come_back(steps in proptest::collection::vec((0..62_u32, any::<i64>()), 0..200)) {
        let mut sum = 0_i64;
        let values: Vec<ValueBuf> = steps
            .iter()
            .map(|(shift, n)| {
                sum = sum.wrapping_add(n >> shift);
                ValueBuf::new(Value::Int64(sum))
            })
            .collect();
        check_round_trip(&values);
        let dates: Vec<_> = values
            .iter()
            .map(|v| match v.value() {
                Value::Int64(n) => ValueBuf::new(Value::DateTime(n)),
                other => ValueBuf::new(other),
            })
            .collect();
        check_round_trip(&dates);
    }
}

#[test]
fn regular_series_are_small() {
    let dates = (0..1000).map(|n| Value::DateTime(1_700_000_000_000 + n * 1000));
    assert!(encode(dates).len() < 60);
    let doubles = (0..1000).map(|n| Value::Double(f64::from(n % 7) / 10.0 + 20.0));
    assert!(encode(doubles).len() < 1000);
    let documents: Vec<DocBuf> = (0..1000)
        .map(|n| {
            let at = nagi_bson::doc! { "lat": (52.5 + f64::from(n % 9) / 1000.0), "lon": 13.4 };
            nagi_bson::doc! { "at": (at.as_doc()), "ok": true, "n": n }
        })
        .collect();
    assert!(encode(documents.iter().map(Value::from)).len() < 2500);
    let same = (0..1000).map(|_| Value::String("always the same, and longer than sixteen bytes"));
    assert!(encode(same).len() < 100);
}
