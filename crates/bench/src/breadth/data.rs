//! The documents of the comparison: about 1 KB with strings, numbers, a date, arrays and sub-documents. The same number
//! gives the same document on every server.
use crate::args::Outcome;
use crate::client::Connection;
use crate::progress::Progress;
use crate::random::Random;
use nagi_bson::{DocBuf, DocWriter, Value};

pub(crate) const DATABASE: &str = "nagi_breadth";
/// The documents of an `insert`.
pub(super) const BATCH: u64 = 1000;

/// A number below `n`, spread over the ids.
fn bucket(id: u64, n: u64) -> i32 {
    ((id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 21) % n) as i32
}

/// One `insert` of the documents `start..end`.
pub(super) fn insert(collection: &str, start: u64, end: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.put("insert", collection);
        out.array("documents", |list| {
            (start..end).for_each(|id| list.push(Value::Doc(document(id).as_doc())));
        });
        out.put("ordered", false);
        out.put("$db", DATABASE);
    })
}

/// Inserts the first `count` documents.
pub(crate) fn load(
    connection: &mut Connection,
    server: &str,
    collection: &str,
    count: u64,
) -> Outcome {
    let mut progress = Progress::new(&format!("{server}: load {collection}"), count);
    for start in (0..count).step_by(BATCH as usize) {
        let end = (start + BATCH).min(count);
        connection.expect(insert(collection, start, end).as_doc())?;
        progress.at(end);
    }
    Ok(())
}

/// The document with this `_id`.
pub(super) fn document(id: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.put("_id", id as i64);
        fields(out, id);
    })
}

fn fields(out: &mut DocWriter<'_>, id: u64) {
    let mut random = Random::new(id + 1);
    out.put("name", format!("user{:07}", bucket(id, 10_000_000)).as_str());
    out.put("city", ["London", "Paris", "Rome", "Oslo", "Bern"][bucket(id, 5) as usize]);
    out.put("ten", bucket(id, 10));
    out.put("hundred", bucket(id, 100));
    out.put("thousand", bucket(id, 1000));
    out.put("random", i64::from(bucket(id, 1 << 31)));
    out.put("price", f64::from(bucket(id, 100_000)) / 100.0);
    out.put("at", Value::DateTime(1_600_000_000_000 + id as i64 * 1000));
    out.put("count", 0_i32);
    out.array("tags", |list| {
        (0..4).for_each(|n| list.push(format!("tag{}", bucket(id * 4 + n, 500)).as_str()));
    });
    out.doc("address", |doc| {
        doc.put("street", text(&mut random, 30).as_str());
        doc.put("zip", bucket(id, 99_999));
        doc.doc("position", |doc| {
            doc.put("x", f64::from(bucket(id, 360)) - 180.0);
            doc.put("y", f64::from(bucket(id, 180)) - 90.0);
        });
    });
    for name in ["f0", "f1", "f2", "f3", "f4", "f5"] {
        out.put(name, text(&mut random, 100).as_str());
    }
}

/// Random letters, the second half a copy of the first, which compresses to about half as text does.
fn text(random: &mut Random, len: usize) -> String {
    let half: String = (0..len / 2).map(|_| char::from(b'a' + random.below(20) as u8)).collect();
    half.clone() + &half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_a_kilobyte_and_repeat() {
        let bytes = document(7).as_bytes().len();
        assert!((950..=1150).contains(&bytes), "{bytes}");
        assert_eq!(document(7).as_bytes(), document(7).as_bytes());
    }
}
