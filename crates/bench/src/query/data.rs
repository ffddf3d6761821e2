//! The documents that are queried: the same number gives the same document on every server.
use crate::args::Outcome;
use crate::client::Connection;
use crate::progress::Progress;
use crate::random::Random;
use nagi_bson::{DocBuf, DocWriter, Value};

pub(super) const DATABASE: &str = "nagi_query";
/// Documents of about 1 KB.
pub(super) const DOCS: &str = "docs";
/// Twice as many documents of the same kind, for index builds.
pub(super) const MANY: &str = "many";
/// A tenth as many, each with a reference.
pub(super) const ORDERS: &str = "orders";
/// A fifth as many, with text.
pub(super) const TEXTS: &str = "texts";

const BATCH: u64 = 1000;
/// Number of different words from which most texts are made.
const VOCABULARY: u64 = 5000;
const WORDS: u64 = 20;
/// One in this many documents contains the rare word.
const RARE_EVERY: u64 = 10_000;
/// One in this many documents contains a given common word.
const COMMON_EVERY: u64 = 20;

/// Number of documents of a collection when `DOCS` has `scale`.
pub(super) fn count(collection: &str, scale: u64) -> u64 {
    match collection {
        MANY => scale * 2,
        ORDERS => (scale / 10).max(1),
        TEXTS => (scale / 5).max(1),
        _ => scale,
    }
}

/// A unique number that is unrelated to the order of `id`.
pub(super) fn scattered(id: u64) -> i64 {
    (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) as i64
}

/// A number below `n`, spread over the ids.
pub(super) fn bucket(id: u64, n: u64) -> i32 {
    ((scattered(id) as u64 >> 20) % n) as i32
}

/// The number of ids below `count` for which `test` is true.
pub(super) fn how_many(count: u64, test: impl Fn(u64) -> bool) -> u64 {
    (0..count).filter(|id| test(*id)).count() as u64
}

pub(super) fn has_rare(id: u64) -> bool {
    id % RARE_EVERY == 17 % RARE_EVERY
}

/// Returns true if the text contains common word number `which`.
pub(super) fn has_common(id: u64, which: u64) -> bool {
    (scattered(id + which * 7_919) as u64 >> 24).is_multiple_of(COMMON_EVERY)
}

/// Inserts every document of a collection.
pub(super) fn load(
    connection: &mut Connection,
    server: &str,
    collection: &str,
    scale: u64,
) -> Outcome {
    let documents = count(collection, scale);
    let mut progress = Progress::new(&format!("{server}: load {collection}"), documents);
    for start in (0..documents).step_by(BATCH as usize) {
        let end = (start + BATCH).min(documents);
        let body = DocBuf::build(|out| {
            out.put("insert", collection);
            out.array("documents", |list| {
                for id in start..end {
                    list.push(Value::Doc(document(collection, id, scale).as_doc()));
                }
            });
            out.put("$db", DATABASE);
        });
        connection.expect(body.as_doc())?;
        progress.at(end);
    }
    Ok(())
}

fn document(collection: &str, id: u64, scale: u64) -> DocBuf {
    DocBuf::build(|out| {
        out.put("_id", id as i64);
        match collection {
            ORDERS => out.put("ref", scattered(Random::new(id + 1).below(scale))),
            TEXTS => out.put("text", text(id).as_str()),
            _ => fields(out, id),
        }
    })
}

/// About 1 KB in twenty-five fields. The fields that queries read are in the first half and at the end.
fn fields(out: &mut DocWriter<'_>, id: u64) {
    const FILLING: [&str; 12] =
        ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11"];
    let k = scattered(id);
    out.put("name", "Ada Lovelace");
    out.put("percent", bucket(id, 100));
    out.put("city", ["London", "Paris", "Rome", "Oslo"][bucket(id, 4) as usize]);
    out.put("ten", bucket(id, 10));
    out.put("many", bucket(id, 10_000));
    // The same number in a field without and a field with an index.
    out.put("k", k);
    out.put("ki", k);
    out.array("tags", |list| {
        (0..4).for_each(|n| list.push(bucket(id * 4 + n, 100_000)));
    });
    for (n, name) in (0..).zip(FILLING) {
        out.put(name, filling(id, n).as_str());
    }
    out.put("last", "somebody");
}

/// 55 characters that compress to about half, as text does.
fn filling(id: u64, n: u64) -> String {
    let mut random = Random::new(id * 12 + n + 1);
    let letters = |_| char::from(b'a' + random.below(20) as u8);
    let text: String = (0..27).map(letters).collect();
    format!("{text} {text}")
}

/// Synthetic words, nearly by Zipf's law, with a few known words among them.
fn text(id: u64) -> String {
    let mut random = Random::new(id + 1);
    let mut words: Vec<String> = (0..WORDS)
        .map(|_| {
            // The square of a number between 0 and 1 is small more often than large.
            let draw = random.below(VOCABULARY);
            format!("word{}", letters(draw * draw / VOCABULARY))
        })
        .collect();
    if has_common(id, 0) {
        words[3] = "harbour".to_owned();
    }
    if has_common(id, 1) {
        words[7] = "evening".to_owned();
    }
    if has_common(id, 2) {
        words[10] = "calm".to_owned();
        words[if has_phrase(id) { 11 } else { 14 }] = "sea".to_owned();
    }
    if has_rare(id) {
        words[17] = "zephyrine".to_owned();
    }
    words.join(" ")
}

/// Of the texts that contain both words of the phrase, a fourth have them next to each other.
pub(super) fn has_phrase(id: u64) -> bool {
    has_common(id, 2) && bucket(id, 4) == 0
}

fn letters(mut number: u64) -> String {
    let mut out = String::new();
    for _ in 0..3 {
        out.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_a_kilobyte_and_repeat() {
        let one = document(DOCS, 7, 1000);
        assert!((900..=1100).contains(&one.as_bytes().len()), "{}", one.as_bytes().len());
        assert_eq!(one.as_bytes(), document(MANY, 7, 1000).as_bytes());
    }

    #[test]
    fn numbers_are_spread() {
        let seventh = how_many(100_000, |id| bucket(id, 100) == 7);
        assert!((900..=1100).contains(&seventh), "{seventh}");
        let mut all: Vec<_> = (0..10_000).map(scattered).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), all[0] >= 0), (10_000, true));
    }

    #[test]
    fn words_stand_where_they_are_counted() {
        let texts: Vec<_> = (0..20_000).map(text).collect();
        let with = |word: &str| texts.iter().filter(|text| text.contains(word)).count() as u64;
        assert_eq!(with("zephyrine"), how_many(20_000, has_rare));
        assert_eq!(with("harbour"), how_many(20_000, |id| has_common(id, 0)));
        assert_eq!(with("calm sea"), how_many(20_000, has_phrase));
        assert!(with("calm sea") * 2 < with("calm"));
    }
}
