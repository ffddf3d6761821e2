//! The minimal work of the engine for each query: no protocol beyond a frame, no plan, no filter, no catalog.
//!
//! - `{insert: C, documents: [...]}`: stores each document as a record, all in one commit;
//! - `{scan: C}`: reads every record once, with its bytes borrowed;
//! - `{build: C, fields: [...], keep: bool}`: reads every record once, sorts the keys in memory and loads them;
//! - `{walk: C, limit: N}`: reads the kept index in order and fetches the record of each entry, many per call;
//! - `{seek: C, keys: N, of: M}`: reads N of the M first keys of the kept index, in random order but sorted
//!   within each 256 of them, and fetches their records as above.
//!
//! Each replies with `n`, the number of records that it read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nagi_bson::{Doc, DocBuf, Value, doc};
use nagi_kv::{Durability, Engine, Snapshot, Space, TxnOptions};

/// Number of the index that `keep: false` builds and drops.
const PASSING: u32 = 1 << 30;

pub(super) struct Queries {
    engine: Arc<dyn Engine>,
    collections: Mutex<HashMap<String, Collection>>,
}

#[derive(Clone, Copy)]
struct Collection {
    ident: u32,
    next: u64,
}

impl Queries {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Queries {
        Queries { engine, collections: Mutex::default() }
    }

    pub(super) fn answer(&self, body: Doc<'_>) -> Result<DocBuf, String> {
        let first = body.first().ok_or("an empty command")?;
        let name = first.value().as_str().unwrap_or("");
        let number = |field: &str| match body.get(field) {
            Value::Int32(n) => u64::try_from(n).unwrap_or(0),
            Value::Int64(n) => u64::try_from(n).unwrap_or(0),
            _ => 0,
        };
        let n = match first.name() {
            "insert" => self.insert(name, body),
            "scan" => self.scan(self.named(name).ident),
            "build" => self.build(self.named(name).ident, body),
            "walk" => self.walk(self.named(name).ident, number("limit")),
            "seek" => self.seek(self.named(name).ident, number("keys"), number("of").max(1)),
            // Other commands that the client sends before or after a query.
            _ => Ok(0),
        };
        let n = n.map_err(|error| error.to_string())? as i64;
        Ok(doc! { "n": n, "ok": 1.0 })
    }

    fn named(&self, name: &str) -> Collection {
        let mut all = self.collections.lock().unwrap_or_else(PoisonError::into_inner);
        let ident = all.len() as u32 + 1;
        *all.entry(name.to_owned()).or_insert(Collection { ident, next: 1 })
    }

    fn insert(&self, name: &str, body: Doc<'_>) -> nagi_kv::Result<u64> {
        let Collection { ident, mut next } = self.named(name);
        let mut txn = self.engine.begin(TxnOptions::default())?;
        if let Value::Array(documents) = body.get("documents") {
            for value in documents.iter() {
                if let Value::Doc(doc) = value {
                    txn.put(Space::Records, &key(ident, next), doc.as_bytes())?;
                    next += 1;
                }
            }
        }
        txn.commit(Durability::Buffered)?;
        let mut all = self.collections.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.to_owned(), Collection { ident, next });
        Ok(next - 1)
    }

    fn scan(&self, ident: u32) -> nagi_kv::Result<u64> {
        let (mut seen, mut bytes) = (0, 0);
        each(&*self.engine.snapshot()?, ident, &mut |_, value| {
            seen += 1;
            bytes += value.len();
        })?;
        // Keeps the compiler from removing the loop: the bytes must be accessible.
        std::hint::black_box(bytes);
        Ok(seen)
    }

    fn build(&self, ident: u32, body: Doc<'_>) -> nagi_kv::Result<u64> {
        let keep = body.get("keep") == Value::Bool(true);
        let index = if keep { ident } else { PASSING };
        let fields: Vec<&str> = match body.get("fields") {
            Value::Array(fields) => fields.iter().filter_map(|value| value.as_str()).collect(),
            _ => Vec::new(),
        };
        let mut keys = Vec::new();
        let mut seen = 0;
        each(&*self.engine.snapshot()?, ident, &mut |number, value| {
            seen += 1;
            keys_of(Doc::trusted(value), &fields, index, number, &mut keys);
        })?;
        keys.sort_unstable();
        let mut sorted = keys.iter();
        self.engine.load(Space::Index, &mut |key, value| {
            let Some(next) = sorted.next() else { return Ok(false) };
            key.clear();
            value.clear();
            key.extend_from_slice(next);
            Ok(true)
        })?;
        if !keep {
            let (start, end) = (index.to_be_bytes(), (index + 1).to_be_bytes());
            self.engine.drop_range(Space::Index, &start, &end)?;
        }
        Ok(seen)
    }

    fn walk(&self, ident: u32, limit: u64) -> nagi_kv::Result<u64> {
        let snapshot = self.engine.snapshot()?;
        let (start, end) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        let mut cursor = snapshot.cursor(Space::Index, &start, &end)?;
        let mut records = Records::new(&*snapshot, ident);
        let (mut left, mut found) = (limit, cursor.seek(&start)?);
        while found && left > 0 {
            records.ask(cursor.key())?;
            left -= 1;
            found = cursor.next()?;
        }
        records.finish()
    }

    fn seek(&self, ident: u32, keys: u64, of: u64) -> nagi_kv::Result<u64> {
        let snapshot = self.engine.snapshot()?;
        let (start, end) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        let mut cursor = snapshot.cursor(Space::Index, &start, &end)?;
        let mut records = Records::new(&*snapshot, ident);
        // The kept index spreads its keys over all numbers, so a key exists near any number.
        let wanted = |n: u64| (u64::MAX >> 1) / of * (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % of);
        let mut batch = Vec::with_capacity(AT_ONCE);
        for begin in (0..keys).step_by(AT_ONCE) {
            batch.clear();
            batch.extend((begin..(begin + AT_ONCE as u64).min(keys)).map(wanted));
            batch.sort_unstable();
            for wanted in &batch {
                if cursor.seek(&key(ident, wanted ^ SIGN))? {
                    records.ask(cursor.key())?;
                }
            }
        }
        records.finish()
    }
}

/// Number of keys and records requested together.
const AT_ONCE: usize = 256;

/// Fetches the records of index entries in the engine's fastest way: many per call, sorted.
struct Records<'s> {
    snapshot: &'s dyn Snapshot,
    ident: u32,
    asked: Vec<u64>,
    seen: u64,
}

impl<'s> Records<'s> {
    fn new(snapshot: &'s dyn Snapshot, ident: u32) -> Records<'s> {
        Records { snapshot, ident, asked: Vec::with_capacity(AT_ONCE), seen: 0 }
    }

    /// Requests the record of an index entry; it is fetched now or later.
    fn ask(&mut self, entry: &[u8]) -> nagi_kv::Result<()> {
        self.asked.push(entry.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)));
        if self.asked.len() == AT_ONCE { self.read() } else { Ok(()) }
    }

    fn read(&mut self) -> nagi_kv::Result<()> {
        self.asked.sort_unstable();
        let names: Vec<[u8; 12]> = self.asked.drain(..).map(|n| key(self.ident, n)).collect();
        let keys: Vec<&[u8]> = names.iter().map(<[u8; 12]>::as_slice).collect();
        let seen = &mut self.seen;
        self.snapshot.get_many(Space::Records, &keys, &mut |_, value| {
            *seen += u64::from(value.is_some());
        })
    }

    /// Fetches the rest and returns the number of records found.
    fn finish(mut self) -> nagi_kv::Result<u64> {
        self.read()?;
        Ok(self.seen)
    }
}

/// Flipping this bit makes signed integers compare correctly as unsigned ones.
const SIGN: u64 = 1 << 63;

fn key(ident: u32, number: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&ident.to_be_bytes());
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Visits every record of a collection: its number and its bytes.
fn each(
    snapshot: &dyn Snapshot,
    ident: u32,
    look: &mut dyn FnMut(u64, &[u8]),
) -> nagi_kv::Result<()> {
    let (start, end) = (key(ident, 0), key(ident + 1, 0));
    let mut cursor = snapshot.cursor(Space::Records, &start, &end)?;
    let mut found = cursor.seek(&start)?;
    while found {
        let number = cursor.key().last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        look(number, cursor.value());
        found = cursor.next()?;
    }
    Ok(())
}

/// The keys of a document: its fields one after the other, with one key per element of an array.
fn keys_of(doc: Doc<'_>, fields: &[&str], index: u32, number: u64, out: &mut Vec<Vec<u8>>) {
    let begin = index.to_be_bytes().to_vec();
    let mut done = vec![begin];
    for field in fields {
        match doc.get(field) {
            Value::Array(items) => {
                let each = |item: Value<'_>| {
                    done.iter().map(|key| [key, &bytes_of(item)[..]].concat()).collect::<Vec<_>>()
                };
                done = items.iter().flat_map(each).collect();
            }
            value => done.iter_mut().for_each(|key| key.extend_from_slice(&bytes_of(value))),
        }
    }
    out.extend(done.into_iter().map(|key| [&key[..], &number.to_be_bytes()].concat()));
}

fn bytes_of(value: Value<'_>) -> Vec<u8> {
    match value {
        Value::Int32(n) => ((n as i64 as u64) ^ SIGN).to_be_bytes().to_vec(),
        Value::Int64(n) => ((n as u64) ^ SIGN).to_be_bytes().to_vec(),
        Value::String(text) => text.as_bytes().to_vec(),
        _ => vec![0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_kv::Memory;

    #[test]
    fn each_piece_of_work_sees_every_record() {
        let queries = Queries::new(Arc::new(Memory::new()));
        let asked = |body: DocBuf| match queries.answer(body.as_doc()).unwrap().get("n") {
            Value::Int64(n) => n,
            other => panic!("{other:?}"),
        };
        let insert = doc! {
            "insert": "c",
            "documents": [{ "k": 5, "a": [1, 2] }, { "k": (-7), "a": [3] }, { "k": 6, "a": [] }]
        };
        assert_eq!(asked(insert), 3);
        assert_eq!(asked(doc! { "scan": "c" }), 3);
        assert_eq!(asked(doc! { "scan": "other" }), 0);
        assert_eq!(asked(doc! { "build": "c", "fields": ["k"], "keep": true }), 3);
        assert_eq!(asked(doc! { "build": "c", "fields": ["a"], "keep": false }), 3);
        assert_eq!(asked(doc! { "walk": "c", "limit": 10 }), 3);
        assert_eq!(asked(doc! { "walk": "c", "limit": 2 }), 2);
        assert_eq!(asked(doc! { "seek": "c", "keys": 1, "of": 1 }), 1);
        assert!(queries.answer(Doc::EMPTY).is_err());
    }

    #[test]
    fn keys_are_ordered_as_their_numbers() {
        let mut keys = Vec::new();
        for (number, k) in [(1, 3), (2, -1), (3, i64::MAX), (4, i64::MIN)] {
            keys_of(doc! { "k": k }.as_doc(), &["k"], 9, number, &mut keys);
        }
        keys.sort();
        let order: Vec<u8> = keys.iter().filter_map(|key| key.last().copied()).collect();
        assert_eq!(order, [4, 2, 1, 3]);
    }
}
