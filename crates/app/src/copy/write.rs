//! Applies the changes of documents to the target.
//!
//! Removals first: a value of `_id` may come back with another type (1 as 1.0), which the target takes for the same
//! key. All others are replacements of whole documents, which may be applied in any order and twice. Capped
//! collections alone have an order; their changes are applied one after the other.

use std::collections::HashMap;

use nagi_bson::{Array, Doc, DocBuf, Value, compare, doc};

use super::base::{DUPLICATE_KEY, find, is_still, renamed};
use super::events::{Change, Write};
use super::link::{
    Link, NAMESPACE_NOT_FOUND, Page, Result, Trouble, UUID_MISMATCH, failed, joined, whole,
};
use super::listing::{Kind, Ns, Uuid};
use super::progress::note;
use super::state::Entry;

/// The most documents and bytes of one command.
const COMMAND_DOCUMENTS: usize = 1000;
const COMMAND_BYTES: usize = 16 << 20;
/// Fewer changes than this are applied by one thread.
const PARALLEL_MIN: usize = 200;
/// The code of a replacement with a field whose name begins with `$`.
const DOLLAR_FIELD: i64 = 52;
/// The code of a write while the writes of users are blocked.
const WRITES_BLOCKED: i64 = 371;

/// Connections to both sides.
pub(super) struct Pair {
    pub(super) source: Link,
    pub(super) target: Link,
}

/// Applies changes, in the order of the events. `since`: the time of the newest event.
pub(super) fn apply(
    pairs: &mut [Pair],
    entries: &HashMap<Uuid, Entry>,
    writes: Vec<Write>,
    since: u64,
) -> Result<()> {
    let kind = |write: &Write| entries.get(&write.uuid).map(|entry| entry.kind);
    let (capped, others): (Vec<_>, Vec<_>) = writes
        .into_iter()
        .filter(|write| kind(write).is_some())
        .partition(|write| kind(write) == Some(Kind::Capped));
    let (removals, puts): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|write| write.change == Change::Delete);
    in_parallel(pairs, entries, removals, &|pair, entry, writes| remove(pair, entry, writes))?;
    in_parallel(pairs, entries, puts, &|pair, entry, writes| put(pair, entry, writes, since))?;
    let Some(pair) = pairs.first_mut() else { return Ok(()) };
    for write in &capped {
        let Some(entry) = entries.get(&write.uuid) else { continue };
        match write.change {
            Change::Delete => remove(pair, entry, &[write])?,
            _ => put(pair, entry, &[write], since)?,
        }
    }
    Ok(())
}

type Step<'s> = &'s (dyn Fn(&mut Pair, &Entry, &[&Write]) -> Result<()> + Sync);

/// Divides the changes among the connections, those of one `_id` to the same one.
fn in_parallel(
    pairs: &mut [Pair],
    entries: &HashMap<Uuid, Entry>,
    writes: Vec<Write>,
    step: Step<'_>,
) -> Result<()> {
    let count = if writes.len() < PARALLEL_MIN { 1 } else { pairs.len() };
    let mut parts: Vec<HashMap<Uuid, Vec<&Write>>> = vec![HashMap::new(); count.max(1)];
    for write in &writes {
        let at = compare::hash_of(write.id.value()) as usize % parts.len();
        parts[at].entry(write.uuid).or_default().push(write);
    }
    let run = |pair: &mut Pair, part: HashMap<Uuid, Vec<&Write>>| {
        for (uuid, writes) in part {
            let Some(entry) = entries.get(&uuid) else { continue };
            for writes in writes.chunks(COMMAND_DOCUMENTS) {
                step(pair, entry, writes).map_err(|e| e.during(&entry.ns.to_string()))?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .iter_mut()
            .zip(parts)
            .map(|(pair, part)| scope.spawn(|| run(pair, part)))
            .collect();
        joined(threads)
    })
}

/// Removes the documents.
fn remove(pair: &mut Pair, entry: &Entry, writes: &[&Write]) -> Result<()> {
    let mut docs = Docs::default();
    writes.iter().for_each(|write| docs.push_removal(write.id.value()));
    flush_removals(&mut pair.target, &entry.ns, &mut docs)
}

/// Sends the removals.
pub(super) fn flush_removals(target: &mut Link, ns: &Ns, docs: &mut Docs) -> Result<()> {
    let docs = std::mem::take(docs);
    if docs.count == 0 {
        return Ok(());
    }
    let command = doc! { "delete": ns.name.as_str(), "ordered": false, "$db": ns.db.as_str() };
    let reply = target.run_with(&command, "deletes", &docs.bytes)?;
    match first_error(&reply) {
        Some(error) => failed(text_of(error)),
        None => Ok(()),
    }
}

/// Stores the documents of the changes: first those of the events, then those that are read at the source.
fn put(pair: &mut Pair, entry: &Entry, writes: &[&Write], since: u64) -> Result<()> {
    let mut docs = Docs::default();
    for write in writes {
        if let Change::Insert(doc) | Change::Replace(doc) = &write.change {
            docs.push_replacement(doc.as_doc());
            if docs.is_full() {
                flush(&mut pair.target, &entry.ns, &mut docs)?;
            }
        }
    }
    let read: Vec<&Write> =
        writes.iter().filter(|w| matches!(w.change, Change::Read { .. })).copied().collect();
    if !read.is_empty() {
        refetch(pair, entry, &read, since, &mut docs)?;
    }
    flush(&mut pair.target, &entry.ns, &mut docs)
}

/// Reads the documents as they are at the source. One that is not there has been removed, of which an event follows.
fn refetch(
    pair: &mut Pair,
    entry: &Entry,
    writes: &[&Write],
    since: u64,
    docs: &mut Docs,
) -> Result<()> {
    let Some(first) = writes.first() else { return Ok(()) };
    let mut ns = entry.ns.clone();
    'again: loop {
        let command = find(&ns, &first.uuid, since, |out| {
            out.doc("filter", |out| {
                out.doc("_id", |out| {
                    out.array("$in", |out| writes.iter().for_each(|w| out.push(w.id.value())));
                });
            });
        });
        let mut next = pair.source.run(&command);
        if next.is_ok() && !is_still(&mut pair.source, &ns, &first.uuid)? {
            continue;
        }
        loop {
            let reply = match next {
                Ok(reply) => reply,
                Err(Trouble::CursorLost) => continue 'again,
                Err(trouble) if trouble.code() == UUID_MISMATCH => match renamed(&trouble, &ns) {
                    Some(now) => {
                        ns = now;
                        continue 'again;
                    }
                    None => return Ok(()),
                },
                Err(trouble) => return Err(trouble),
            };
            let page = Page::of(&reply)?;
            for doc in page.docs() {
                docs.push_replacement(doc);
                if docs.is_full() {
                    flush(&mut pair.target, &entry.ns, docs)?;
                }
            }
            let Some(more) = page.more(None) else { return Ok(()) };
            next = pair.source.once(&more);
        }
    }
}

/// Documents of a command, one behind the other.
#[derive(Default)]
pub(super) struct Docs {
    bytes: Vec<u8>,
    count: usize,
}

impl Docs {
    fn push(&mut self, doc: Doc<'_>) {
        self.bytes.extend_from_slice(doc.as_bytes());
        self.count += 1;
    }

    pub(super) fn push_removal(&mut self, id: Value<'_>) {
        let removal = DocBuf::build(|out| {
            out.doc("q", |out| out.doc("_id", |out| out.put("$eq", id)));
            out.put("limit", 1);
        });
        self.push(removal.as_doc());
    }

    pub(super) fn push_replacement(&mut self, doc: Doc<'_>) {
        let update = DocBuf::build_sized(doc.as_bytes().len() + 64, |out| {
            out.doc("q", |out| out.doc("_id", |out| out.put("$eq", doc.get("_id"))));
            out.put("u", doc);
            out.put("upsert", true);
        });
        self.push(update.as_doc());
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= COMMAND_DOCUMENTS || self.bytes.len() >= COMMAND_BYTES
    }
}

/// Sends the replacements.
///
/// The target's indexes are those that the source has now, and a document may be older: the source may have had it
/// before an index that does not allow it (two arrays, no geometry). Then the indexes are dropped; they are built again
/// near the end.
pub(super) fn flush(target: &mut Link, ns: &Ns, docs: &mut Docs) -> Result<()> {
    let docs = std::mem::take(docs);
    if docs.count == 0 {
        return Ok(());
    }
    match send(target, ns, &docs)? {
        None => Ok(()),
        Some(error) => {
            note(&format!(
                "{ns}: its indexes are dropped until the end, since one refuses a document: {error}"
            ));
            let command =
                doc! { "dropIndexes": ns.name.as_str(), "index": "*", "$db": ns.db.as_str() };
            target.run(&command)?;
            match send(target, ns, &docs)? {
                None => Ok(()),
                Some(error) => failed(error),
            }
        }
    }
}

/// Sends the replacements once. Returns the first error of a document, unless no second attempt would help.
fn send(target: &mut Link, ns: &Ns, docs: &Docs) -> Result<Option<String>> {
    let reply = target.run_with(&update(ns), "updates", &docs.bytes)?;
    let errors = reply.get("writeErrors").as_array().unwrap_or(Array::EMPTY);
    for error in errors.iter().filter_map(|error| error.as_doc()) {
        let refused = nth(&docs.bytes, whole(error, "index"));
        match (whole(error, "code"), refused) {
            (DOLLAR_FIELD, Some(update)) => replace_by_pipeline(target, ns, update)?,
            (DUPLICATE_KEY | WRITES_BLOCKED, _) => {
                return failed(format!(
                    "{}; the target must be writable, and belong to the copy",
                    text_of(error)
                ));
            }
            _ => return Ok(Some(text_of(error))),
        }
    }
    Ok(None)
}

fn update(ns: &Ns) -> DocBuf {
    doc! { "update": ns.name.as_str(), "ordered": false, "bypassDocumentValidation": true,
    "bypassEmptyTsReplacement": true, "$db": ns.db.as_str() }
}

/// The document at a position in a sequence.
fn nth(docs: &[u8], index: i64) -> Option<Doc<'_>> {
    let mut rest = docs;
    for _ in 0..index {
        rest = Doc::parse_prefix(rest).ok()?.1;
    }
    Doc::parse_prefix(rest).ok().map(|(doc, _)| doc)
}

/// A replacement whose fields an update would take for operators.
fn replace_by_pipeline(target: &mut Link, ns: &Ns, refused: Doc<'_>) -> Result<()> {
    let update_of = DocBuf::build(|out| {
        out.put("q", refused.get("q"));
        out.array("u", |out| {
            out.doc(|out| {
                out.doc("$replaceWith", |out| out.put("$literal", refused.get("u")));
            });
        });
        out.put("upsert", true);
    });
    let reply = target.run_with(&update(ns), "updates", update_of.as_bytes())?;
    match first_error(&reply) {
        Some(error) => failed(text_of(error)),
        None => Ok(()),
    }
}

/// The first error of a write other than that there is no collection, which a later event explains.
fn first_error(reply: &DocBuf) -> Option<Doc<'_>> {
    let errors = reply.get("writeErrors").as_array()?;
    errors
        .iter()
        .filter_map(|error| error.as_doc())
        .find(|e| whole(*e, "code") != NAMESPACE_NOT_FOUND)
}

fn text_of(error: Doc<'_>) -> String {
    error.get("errmsg").as_str().unwrap_or("a write failed").to_owned()
}

#[test]
fn documents_of_a_sequence_are_found_by_position() {
    let mut docs = Docs::default();
    for n in 0..3 {
        docs.push_replacement(doc! { "_id": n, "x": 1 }.as_doc());
    }
    let id = |index| nth(&docs.bytes, index).map(|d| whole(d.get("u").as_doc().unwrap(), "_id"));
    assert_eq!((id(0), id(2), id(3)), (Some(0), Some(2), None));
    assert!(!docs.is_full() && docs.count == 3);
}
