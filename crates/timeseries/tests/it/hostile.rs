//! Bytes that are no column: the decoder must return an error, in bounded time and memory.
use nagi_bson::{Binary, DocBuf, Value, doc};
use nagi_timeseries::bucket::{Shape, Unpacker};
use nagi_timeseries::column::{Decoder, SUBTYPE, encode};
use proptest::prelude::*;

/// The most values that a test reads of one column; a few bytes may stand for thousands.
const VALUES_MAX: usize = 5000;

/// Reads a column to its end. Every value must be valid BSON.
fn read(bytes: &[u8]) -> bool {
    let mut values = Vec::new();
    let valid = read_one_by_one(bytes, &mut values);
    let (mut budget, mut at) = (1000, 0);
    let each = Decoder::new(bytes).each(VALUES_MAX, &mut budget, &mut |value| {
        assert!(values[at].get("v").same_bytes(&value), "{at}");
        at += 1;
        Ok(())
    });
    assert_eq!((each.is_ok(), at), (valid, values.len()));
    valid
}

fn read_one_by_one(bytes: &[u8], values: &mut Vec<DocBuf>) -> bool {
    let mut decoder = Decoder::new(bytes);
    for _ in 0..VALUES_MAX {
        match decoder.advance() {
            Ok(Some(value)) => {
                let doc = doc! { "v": (value) };
                assert!(nagi_bson::Doc::parse(doc.as_bytes()).is_ok(), "{value:?}");
                values.push(doc);
            }
            Ok(None) => return true,
            Err(error) => {
                assert_eq!(error.code().0, 22);
                return false;
            }
        }
    }
    true
}

/// Bytes that often are a part of a column.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let control = prop_oneof![
        Just(vec![0x80]),
        Just(vec![0x81]),
        Just(vec![0x90]),
        Just(vec![0xD0]),
        Just(vec![0xF0]),
        Just(vec![0xF1]),
        Just(vec![0xF2]),
        Just(vec![0]),
        Just(vec![0xFF, 0]),
        Just(vec![0x10, 0, 1, 0, 0, 0]),
        Just(vec![0x02, 0, 2, 0, 0, 0, 0x61, 0]),
        Just(vec![0x05, 0, 2, 0, 0, 0, 0, 1, 2]),
        Just(vec![0x01, 0, 0, 0, 0, 0, 0, 0, 0x24, 0x40]),
        Just(doc! { "a": 1, "b": { "c": [1, {}] } }.into_bytes()),
        Just(vec![3, 0, 5, 0, 0, 0, 0]),
    ];
    let word = (0..16_u64, any::<u64>(), 0..64_u32)
        .prop_map(|(selector, n, shift)| (selector | (n >> shift) << 4).to_le_bytes().to_vec());
    let part =
        prop_oneof![3 => control, 3 => word, 1 => proptest::collection::vec(any::<u8>(), 0..9)];
    proptest::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 4000 } else { 100_000 }))]

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes);
    }

    #[test]
    fn likely_bytes_are_survived(bytes in likely()) {
        read(&bytes);
    }

    #[test]
    fn changed_columns_are_survived(at in 0..400_usize, byte: u8, len in 0..400_usize) {
        let texts = ["a", "bb", "", "a longer text than others"];
        let values = (0..60_usize).flat_map(|n| {
            [Value::Int32(n as i32), Value::String(texts[n % 4]), Value::Double(n as f64 / 10.0)]
        });
        let mut bytes = encode(values);
        prop_assert!(read(&bytes));
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        read(&bytes);
        bytes.truncate(len);
        read(&bytes);
    }
}

#[test]
fn what_is_no_column_is_refused() {
    let cases: &[(&str, &[u8])] = &[
        ("nothing", &[]),
        ("no end", &[0x10, 0, 1, 0, 0, 0]),
        ("bytes after the end", &[0, 0]),
        ("a literal with a name", &[0x10, b'a', 0, 1, 0, 0, 0, 0]),
        ("an unknown type", &[0x14, 0, 0]),
        ("an unknown control byte", &[0xE0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("a truncated word", &[0x80, 0x0E, 0, 0, 0, 0, 0]),
        ("selector 0", &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("a scale of an int", &[0x10, 0, 1, 0, 0, 0, 0x90, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("a difference of null", &[0x0A, 0, 0x80, 0x2E, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("an empty reference", &[0xF1, 5, 0, 0, 0, 0, 0x80, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("a reference without documents", &[0xF1, 8, 0, 0, 0, 0x0A, b'a', 0, 0, 0, 0]),
    ];
    for (name, bytes) in cases {
        assert!(!read(bytes), "{name}");
    }
}

/// Each word repeats 1,920 values, of a document of many kilobytes: only one at a time is in memory.
#[test]
fn repetitions_are_not_expanded() {
    let doc = doc! { "a": ("x".repeat(100_000).as_str()) };
    let mut bytes = encode([Value::from(&doc)]);
    bytes.pop();
    for _ in 0..1000 {
        bytes.push(0x8F);
        bytes.extend_from_slice(&0xFF_u64.to_le_bytes().repeat(16));
    }
    bytes.push(0);
    let mut decoder = Decoder::new(&bytes);
    let mut count = 0_usize;
    while decoder.advance().expect("a valid column").is_some() {
        count += 1;
    }
    assert_eq!(count, 1 + 1000 * 16 * 1920);
}

#[test]
fn literals_in_interleaved_documents_cannot_exceed_the_nesting() {
    let nested = |depth: usize| {
        let mut doc = doc! { "a": 1 };
        for _ in 0..depth {
            doc = doc! { "a": (&doc) };
        }
        doc
    };
    let column = |inner: usize| {
        let mut bytes = vec![0xF0];
        bytes.extend_from_slice(nested(150).as_bytes());
        bytes.extend_from_slice(&[3, 0]);
        bytes.extend_from_slice(nested(inner).as_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes
    };
    assert!(read(&column(20)));
    assert!(!read(&column(100)));
}

/// Each leaf of interleaved documents has a state: all columns of a bucket together have a bounded number of them.
#[test]
fn columns_share_the_number_of_leaves() {
    let reference = DocBuf::build(|out| (0..60_000).for_each(|_| out.put("", Value::Null)));
    let mut column = vec![0xF0];
    column.extend_from_slice(reference.as_bytes());
    // Each leaf repeats its value once.
    (0..60_000).for_each(|_| column.extend_from_slice(&[0x80, 0x0E, 0, 0, 0, 0, 0, 0, 0]));
    column.extend_from_slice(&[0, 0]);
    let times = encode([Value::DateTime(0)]);
    let unpacked = |columns: usize| {
        let bucket = DocBuf::build(|out| {
            out.doc("control", |out| out.put("version", 2));
            out.doc("data", |out| {
                out.put("t", Value::Binary(Binary { subtype: SUBTYPE, bytes: &times }));
                for n in 0..columns {
                    let value = Value::Binary(Binary { subtype: SUBTYPE, bytes: &column });
                    out.put(&n.to_string(), value);
                }
            });
        });
        let shape = Shape { time_field: "t".into(), meta_field: None, only: None };
        Unpacker::new(bucket.as_doc(), &shape).unwrap().append(&mut Vec::new())
    };
    assert!(unpacked(3).unwrap());
    assert_eq!(unpacked(4).unwrap_err().code().0, 22);
}
