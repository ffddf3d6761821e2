//! What is written is read back, whatever the samples; damaged chunks are refused or give other numbers, no panic.

use nagi_bson::{Binary, Doc, DocBuf, Value, doc};
use nagi_ftdc::{Added, Chunk, Decoded, decode, metadata_record};
use proptest::prelude::*;

const SAMPLES_MAX: usize = 300;

fn sample(numbers: &[i64]) -> DocBuf {
    DocBuf::build(|out| {
        out.put("name", "server");
        for (i, number) in numbers.iter().enumerate() {
            out.doc(&format!("section{i}"), |out| {
                out.put("count", *number);
                out.put("when", Value::DateTime(*number));
            });
        }
    })
}

fn rows(chunk: &Chunk) -> (DocBuf, Vec<Vec<u64>>) {
    let record = chunk.record().expect("a chunk with samples");
    match decode(Doc::parse(record.as_bytes()).expect("valid BSON")) {
        Ok(Decoded::Metrics { reference, columns, numbers }) => {
            (reference, numbers.chunks(columns.max(1)).map(<[u64]>::to_vec).collect())
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn samples_are_read_back(samples in prop::collection::vec(prop::collection::vec(any::<i64>(), 3), 1..40)) {
        let mut chunk = Chunk::default();
        for (i, numbers) in samples.iter().enumerate() {
            prop_assert_eq!(chunk.add(i as i64, sample(numbers).as_doc(), SAMPLES_MAX), Added::Added);
        }
        let (reference, rows) = rows(&chunk);
        let first = sample(&samples[0]);
        prop_assert_eq!(reference.as_bytes(), first.as_bytes());
        let expected: Vec<Vec<u64>> =
            samples.iter().map(|n| n.iter().flat_map(|n| [*n as u64; 2]).collect()).collect();
        prop_assert_eq!(rows, expected);
    }

    #[test]
    fn damaged_chunks_cause_no_panic(at in 0usize..400, bit in 0u8..8, cut in 0usize..400) {
        let mut chunk = Chunk::default();
        for i in 0..20 {
            chunk.add(i, sample(&[i, i * i, 7]).as_doc(), SAMPLES_MAX);
        }
        let record = chunk.record().expect("a chunk with samples");
        let Value::Binary(data) = record.get("data") else { panic!("no data") };
        let mut bytes = data.bytes.to_vec();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        bytes.truncate(bytes.len() - cut % bytes.len());
        let damaged = DocBuf::build(|out| {
            out.put("type", 1);
            out.put("data", Value::Binary(Binary { subtype: 0, bytes: &bytes }));
        });
        let _ = decode(damaged.as_doc());
    }
}

#[test]
fn idle_columns_cost_nothing() {
    let mut chunk = Chunk::default();
    let idle = sample(&(0..500).collect::<Vec<_>>());
    for i in 1..SAMPLES_MAX {
        assert_eq!(chunk.add(i as i64, idle.as_doc(), SAMPLES_MAX), Added::Added);
    }
    let one = sample(&[0]);
    assert_eq!(chunk.add(0, one.as_doc(), SAMPLES_MAX), Added::Refused);
    assert_eq!(chunk.samples(), SAMPLES_MAX - 1);
    assert_eq!(chunk.add(300, idle.as_doc(), SAMPLES_MAX), Added::Full);
    assert_eq!(chunk.add(301, idle.as_doc(), SAMPLES_MAX), Added::Refused);
    assert_eq!(chunk.samples(), SAMPLES_MAX);
    let record = chunk.record().expect("a chunk with samples");
    assert!(record.as_bytes().len() < idle.as_bytes().len(), "{}", record.as_bytes().len());
    chunk.clear();
    assert!(chunk.record().is_none());
    assert_eq!(chunk.add(0, one.as_doc(), SAMPLES_MAX), Added::Added);
}

#[test]
fn metadata_is_read_back() {
    let facts = doc! { "buildInfo": { "version": "8.0.0" } };
    let record = metadata_record(5, facts.as_doc());
    assert!(
        matches!(decode(record.as_doc()), Ok(Decoded::Metadata(found)) if found.as_bytes() == facts.as_bytes())
    );
    assert!(matches!(decode(doc! { "type": 2 }.as_doc()), Ok(Decoded::Other(2))));
    for bad in [doc! {}, doc! { "type": 0 }, doc! { "type": 1, "data": "x" }, doc! { "type": "x" }]
    {
        assert!(decode(bad.as_doc()).is_err());
    }
}

/// Vectors of bytes made by hand from the published description of the format, not by this crate: two samples
/// `{a: 1}` and `{a: 3}`, then two zeroes.
#[test]
fn the_content_is_that_of_the_description() {
    let mut chunk = Chunk::default();
    for (at, n) in [(7, 1), (8, 3), (9, 3), (10, 3)] {
        chunk.add(at, doc! { "a": n }.as_doc(), SAMPLES_MAX);
    }
    let record = chunk.record().expect("a chunk with samples");
    assert_eq!(record.get("_id"), Value::DateTime(7));
    assert_eq!(record.get("type"), Value::Int32(1));
    let Value::Binary(data) = record.get("data") else { panic!("no data") };
    let (bytes, subtype) = (data.bytes, data.subtype);
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&bytes[4..]), &mut content)
        .expect("a zlib stream");
    let expected = [
        &[12, 0, 0, 0, 0x10, b'a', 0, 1, 0, 0, 0, 0][..],
        &[1, 0, 0, 0], // one number in each sample
        &[3, 0, 0, 0], // three samples after the first
        &[2, 0, 1],    // 3 - 1, then a zero and one more
    ]
    .concat();
    assert_eq!(content, expected);
    assert_eq!(bytes[..4], (expected.len() as u32).to_le_bytes());
    assert_eq!(subtype, 0);
}

#[test]
fn a_chunk_has_a_bound_in_memory() {
    let numbers: Vec<i64> = (0..50_000).collect();
    let mut chunk = Chunk::default();
    let mut samples = 0;
    loop {
        let moved: Vec<i64> = numbers.iter().map(|n| n + samples).collect();
        samples += 1;
        match chunk.add(0, sample(&moved).as_doc(), usize::MAX) {
            Added::Added => assert!(samples < 100, "no bound"),
            added => break assert_eq!(added, Added::Full),
        }
    }
    assert!(samples > 5, "{samples}");
    let (_, rows) = rows(&chunk);
    assert_eq!(rows.len() as i64, samples);
}
