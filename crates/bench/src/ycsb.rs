//! YCSB's documents, reads and updates. `_id` is "user" and nineteen digits; there are ten fields of a hundred
//! characters.
use crate::args::{Outcome, Problem, failed};
use crate::client::{Connection, complaint, frame, integer};
use crate::load::Requests;
use crate::progress::Progress;
use crate::random::Random;
use nagi_bson::{DocBuf, Value, doc};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const DATABASE: &str = "nagi_ycsb";
const COLLECTION: &str = "usertable";
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const BATCH: u64 = 200;
const WRITERS: usize = 4;
const DIGITS: usize = 19;
const ID_BYTES: usize = 4 + DIGITS;

/// The digits of the document's number, scattered by a hash as in YCSB: neighbours in the collection are not
/// neighbours in the index.
fn id(number: u64) -> [u8; ID_BYTES] {
    let mut hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1;
    let mut id = *b"user0000000000000000000";
    for digit in id[4..].iter_mut().rev() {
        *digit = b'0' + (hash % 10) as u8;
        hash /= 10;
    }
    id
}

fn text(id: &[u8]) -> &str {
    std::str::from_utf8(id).unwrap_or_default()
}

fn document(number: u64) -> DocBuf {
    let mut random = Random::new(number ^ 0x5EED);
    let mut value = String::with_capacity(FIELD_BYTES);
    DocBuf::build(|w| {
        w.put("_id", text(&id(number)));
        for field in 0..FIELDS {
            value.clear();
            value.extend((0..FIELD_BYTES).map(|_| char::from(b' ' + random.below(95) as u8)));
            w.put(&format!("field{field}"), value.as_str());
        }
    })
}

/// Adds the documents with these numbers. The collection is emptied first if the range begins at zero.
pub(crate) fn fill(address: &str, numbers: Range<u64>) -> Outcome {
    if numbers.start == 0 {
        let drop = doc! { "dropDatabase": 1, "$db": DATABASE };
        Connection::open(address)?.expect(drop.as_doc())?;
    }
    let next = AtomicU64::new(numbers.start);
    let write = || -> Outcome {
        let mut connection = Connection::open(address)?;
        let mut progress = Progress::new("filling", numbers.end - numbers.start);
        loop {
            let start = next.fetch_add(BATCH, Ordering::Relaxed);
            if start >= numbers.end {
                return Ok(());
            }
            let body = DocBuf::build(|w| {
                w.put("insert", COLLECTION);
                w.array("documents", |list| {
                    for number in start..(start + BATCH).min(numbers.end) {
                        list.push(Value::Doc(document(number).as_doc()));
                    }
                });
                w.put("$db", DATABASE);
            });
            let reply = connection.command(body.as_doc()).map_err(failed("inserting"))?;
            if let Some(text) = complaint(reply.as_doc()) {
                return Err(Problem::Failed(format!("inserting: {text}")));
            }
            progress.at(start - numbers.start);
        }
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().map_err(|_| Problem::Failed("a writer panicked".to_owned()))?
        })
    })
}

/// The reads of one connection; every document is equally likely.
pub(crate) struct Reads {
    frame: Vec<u8>,
    id_at: usize,
    random: Random,
    documents: u64,
}

impl Reads {
    pub(crate) fn sender(number: u64, documents: u64) -> Box<dyn Requests> {
        Box::new(Reads::new(number, documents))
    }

    pub(crate) fn new(number: u64, documents: u64) -> Reads {
        static RUNS: AtomicU64 = AtomicU64::new(1);
        // Each run uses another sequence, so that documents of the last run are not favoured.
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = id(0);
        let body = doc! {
            "find": COLLECTION, "filter": { "_id": (text(&mark)) }, "limit": 1, "singleBatch": true,
            "$db": DATABASE
        };
        let frame = frame(body.as_doc());
        let id_at = frame.windows(ID_BYTES).position(|bytes| bytes == mark).unwrap_or(0);
        Reads { frame, id_at, random: Random::new(number * 7919 + run), documents }
    }
}

impl Reads {
    /// Builds the read of this document.
    pub(crate) fn of(&mut self, document: u64) -> &[u8] {
        let id = id(document);
        self.frame[self.id_at..self.id_at + ID_BYTES].copy_from_slice(&id);
        &self.frame
    }
}

impl Requests for Reads {
    fn next(&mut self) -> &[u8] {
        let document = self.random.below(self.documents);
        self.of(document)
    }

    fn good(&self, reply: &[u8]) -> bool {
        // An empty batch is far shorter.
        reply.len() > FIELDS * FIELD_BYTES
    }
}

/// The updates of one connection: each sets a new value for one field of a document.
pub(crate) struct Updates {
    /// One frame per field.
    frames: Vec<Vec<u8>>,
    id_at: usize,
    value_at: usize,
    random: Random,
}

impl Updates {
    pub(crate) fn new(number: u64) -> Updates {
        let mark = id(0);
        let value = "\u{1}".repeat(FIELD_BYTES);
        let frames = (0..FIELDS).map(|field| {
            let name = format!("field{field}");
            let body = DocBuf::build(|w| {
                w.put("update", COLLECTION);
                w.array("updates", |list| {
                    list.doc(|w| {
                        w.doc("q", |w| w.put("_id", text(&mark)));
                        w.doc("u", |w| w.doc("$set", |w| w.put(&name, value.as_str())));
                    });
                });
                w.put("$db", DATABASE);
            });
            frame(body.as_doc())
        });
        let frames: Vec<_> = frames.collect();
        let place = |wanted: &[u8]| frames[0].windows(wanted.len()).position(|b| b == wanted);
        let (id_at, value_at) = (place(&mark), place(value.as_bytes()));
        Updates {
            id_at: id_at.unwrap_or(0),
            value_at: value_at.unwrap_or(0),
            frames,
            random: Random::new(number),
        }
    }

    /// Builds the update of this document.
    pub(crate) fn of(&mut self, document: u64) -> &[u8] {
        let field = self.random.below(FIELDS as u64) as usize;
        let frame = &mut self.frames[field];
        frame[self.id_at..self.id_at + ID_BYTES].copy_from_slice(&id(document));
        for byte in &mut frame[self.value_at..self.value_at + FIELD_BYTES] {
            *byte = b' ' + self.random.below(95) as u8;
        }
        frame
    }

    /// Returns true if the reply reports one document found and changed.
    pub(crate) fn good(reply: &[u8]) -> bool {
        let reply = DocBuf::from_bytes(reply.get(21..).unwrap_or(&[]).to_vec());
        reply.is_ok_and(|reply| {
            let reply = reply.as_doc();
            complaint(reply).is_none() && integer(reply.get("n")) == Some(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_differ_and_are_patched_into_the_frame() {
        let ids: HashSet<_> = (0..10_000).map(id).collect();
        assert_eq!(ids.len(), 10_000);
        let mut reads = Reads::sender(1, 5);
        let frame = reads.next().to_vec();
        assert!((0..5).any(|n| frame.windows(ID_BYTES).any(|bytes| bytes == id(n))));
        assert!(document(3).as_doc().as_bytes().len() > 1100);
    }
}
