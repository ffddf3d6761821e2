//! The base: the documents of each collection, read while the source serves.
//!
//! A collection is read in the order of `_id`, in pieces that several workers copy at once; a piece that was
//! interrupted continues behind the last document that the target has. A capped collection is read once in its natural
//! order, which is that of its inserts, and again from the beginning after an interruption. Pieces are read at
//! different times, all after the time at which the change log is followed from.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value, ValueBuf, doc};

use super::link::{
    Link, NAMESPACE_NOT_FOUND, Page, Result, Trouble, UUID_MISMATCH, failed, joined,
    operation_time, whole,
};
use super::listing::{Kind, Ns, Uuid, stored};
use super::progress::Progress;
use super::state::{self, Entry, Range, State, binary};

/// Documents in a piece, roughly, and the most pieces of a collection.
const PIECE_DOCUMENTS: i64 = 50_000;
const PIECES_MAX: i64 = 64;
/// Sampled documents for each bound between pieces: more make the pieces more alike.
const SAMPLES_OF_BOUND: i64 = 10;
/// The most documents that are requested at once; the reply has 16 MiB at most.
const BATCH_DOCUMENTS: i32 = 10_000;
/// The code of a key that is in an index already.
pub(super) const DUPLICATE_KEY: i64 = 11_000;
/// How often the main thread looks at the workers.
const TICK: Duration = Duration::from_millis(200);

/// What the workers share.
struct Shared<'s> {
    state: &'s State,
    ranges: Mutex<VecDeque<Range>>,
    /// Where collections are at the source now, if they have been renamed.
    moved: Mutex<Vec<(Uuid, Ns)>>,
    /// Reads are at least as new as this.
    since: u64,
    has_failed: AtomicBool,
    progress: &'s Progress,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Divides a collection into pieces and stores them. Returns the number of its documents.
pub(super) fn divide(
    source: &mut Link,
    target: &mut Link,
    uuid: Uuid,
    entry: &Entry,
) -> Result<i64> {
    let ns = stored(&entry.ns, entry.kind);
    let count = count(source, &ns)?;
    let pieces = match entry.kind {
        Kind::Plain => (count / PIECE_DOCUMENTS).clamp(1, PIECES_MAX),
        _ => 1,
    };
    let bounds = if pieces > 1 { bounds(source, &ns, pieces)? } else { Vec::new() };
    for number in 0..=bounds.len() {
        let bound = |at: Option<usize>| {
            ValueBuf::new(at.and_then(|at| bounds.get(at)).map_or(Value::Missing, ValueBuf::value))
        };
        let range = Range {
            uuid,
            number: number as i32,
            from: bound(number.checked_sub(1)),
            to: bound(Some(number)),
            last: ValueBuf::new(Value::Missing),
        };
        state::put_range(target, &range, false)?;
    }
    Ok(count)
}

/// The number of documents by the collection's counter.
pub(super) fn count(link: &mut Link, ns: &Ns) -> Result<i64> {
    match link.run(&doc! { "count": ns.name.as_str(), "$db": ns.db.as_str() }) {
        Ok(reply) => Ok(whole(reply.as_doc(), "n")),
        Err(trouble) if trouble.code() == NAMESPACE_NOT_FOUND => Ok(0),
        Err(trouble) => Err(trouble),
    }
}

/// Values of `_id` that divide a sample into equal parts; without doubles.
fn bounds(source: &mut Link, ns: &Ns, pieces: i64) -> Result<Vec<ValueBuf>> {
    let command = doc! { "aggregate": ns.name.as_str(), "pipeline": [
        { "$sample": { "size": pieces * SAMPLES_OF_BOUND } },
        { "$project": { "_id": 1 } },
        { "$sort": { "_id": 1 } }
    ], "cursor": {}, "$db": ns.db.as_str() };
    let sample = source.list(&command)?;
    let step = sample.len() / pieces as usize;
    let mut bounds: Vec<ValueBuf> = Vec::new();
    for doc in sample.iter().step_by(step.max(1)).skip(1) {
        let id = doc.get("_id");
        // A sample may have a document twice.
        if bounds.last().is_none_or(|last| !last.value().same_bytes(&id)) {
            bounds.push(ValueBuf::new(id));
        }
    }
    Ok(bounds)
}

/// Copies all pieces that the target's state has, by `workers` threads.
pub(super) fn copy(
    source: &mut Link,
    target: &mut Link,
    state: &State,
    since: u64,
    workers: usize,
    progress: &Progress,
) -> Result<()> {
    let shared = Shared {
        state,
        ranges: Mutex::new(state::open_ranges(target)?.into()),
        moved: Mutex::default(),
        since,
        has_failed: AtomicBool::new(false),
        progress,
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let (mut source, mut target) = (source.another(), target.another());
                let shared = &shared;
                scope.spawn(move || {
                    let result = work(&mut source, &mut target, shared);
                    shared.has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    result
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::park_timeout(TICK);
            progress.tick(None);
        }
        joined(threads)
    })
}

fn work(source: &mut Link, target: &mut Link, shared: &Shared<'_>) -> Result<()> {
    loop {
        let next = locked(&shared.ranges).pop_front();
        let Some(mut range) = next else { return Ok(()) };
        let Some(entry) = shared.state.entries.get(&range.uuid) else { continue };
        let into = stored(&entry.ns, entry.kind);
        let copied = match entry.kind {
            Kind::Capped => copy_capped(source, target, shared, &range, entry),
            _ => copy_range(source, target, shared, &mut range, &into),
        };
        copied.map_err(|trouble| trouble.during(&format!("copy {}", entry.ns)))?;
        state::put_range(target, &range, true)?;
    }
}

/// Copies a piece. It ends early if the collection has been dropped: an event tells of that later.
fn copy_range(
    source: &mut Link,
    target: &mut Link,
    shared: &Shared<'_>,
    range: &mut Range,
    into: &Ns,
) -> Result<()> {
    loop {
        let found = locked(&shared.moved).iter().find(|(uuid, _)| *uuid == range.uuid).cloned();
        let ns = found.map_or_else(|| into.clone(), |(_, ns)| ns);
        let begin = match range.last.value() {
            Value::Missing => range.from.value(),
            last => last,
        };
        let command = find(&ns, &range.uuid, shared.since, |out| {
            out.doc("sort", |out| out.put("_id", 1));
            out.doc("hint", |out| out.put("_id", 1));
            for (name, bound) in [("min", begin), ("max", range.to.value())] {
                if !bound.is_missing() {
                    out.doc(name, |out| out.put("_id", bound));
                }
            }
        });
        let mut next = source.run(&command);
        if next.is_ok() && !is_still(source, &ns, &range.uuid)? {
            continue;
        }
        loop {
            let reply = match next {
                Ok(reply) => reply,
                Err(Trouble::CursorLost) => break,
                Err(trouble) if trouble.code() == UUID_MISMATCH => {
                    match renamed(&trouble, &ns) {
                        Some(ns) => locked(&shared.moved).insert(0, (range.uuid, ns)),
                        None => return Ok(()),
                    }
                    break;
                }
                Err(trouble) => return Err(trouble),
            };
            let page = Page::of(&reply)?;
            if let Some(last) = store(target, into, &page, shared.progress)? {
                range.last = ValueBuf::new(last.get("_id"));
                state::put_range(target, range, false)?;
            }
            if shared.has_failed.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let Some(more) = page.more(None) else { return Ok(()) };
            next = source.once(&more);
        }
    }
}

/// Copies a capped collection in one go.
fn copy_capped(
    source: &mut Link,
    target: &mut Link,
    shared: &Shared<'_>,
    range: &Range,
    entry: &Entry,
) -> Result<()> {
    let mut ns = entry.ns.clone();
    'again: loop {
        empty_capped(target, &entry.ns)?;
        // Stored before the first document is read: what is inserted later is applied as an event.
        let ping = source.run(&doc! { "ping": 1, "$db": "admin" })?;
        let skip_to = operation_time(&ping).max(shared.since);
        set_skip_to(target, &range.uuid, skip_to)?;
        let command = find(&ns, &range.uuid, skip_to, |_| ());
        let mut next = source.run(&command);
        if next.is_ok() && !is_still(source, &ns, &range.uuid)? {
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
            store(target, &entry.ns, &page, shared.progress)?;
            let Some(more) = page.more(None) else { return Ok(()) };
            next = source.once(&more);
        }
    }
}

/// Removes the documents of a capped collection, if an interrupted attempt has left some.
fn empty_capped(target: &mut Link, ns: &Ns) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.put("delete", ns.name.as_str());
        out.array("deletes", |out| {
            out.doc(|out| {
                out.doc("q", |_| ());
                out.put("limit", 0);
            });
        });
        out.put("$db", ns.db.as_str());
    });
    target.run(&command).map(drop)
}

/// Only in the target: the main thread reads it when the base is complete.
fn set_skip_to(target: &mut Link, uuid: &Uuid, time: u64) -> Result<()> {
    let command = doc! { "update": "state", "updates": [
        { "q": { "_id": binary(uuid) }, "u": { "$set": { "skipTo": Value::Timestamp(time) } } }
    ], "$db": super::filter::OWN_DB };
    target.run(&command).map(drop)
}

/// Where a collection is, by the error of a command that named its UUID; `None` if it has been dropped.
pub(super) fn renamed(trouble: &Trouble, ns: &Ns) -> Option<Ns> {
    let Trouble::Refused { reply, .. } = trouble else { return None };
    let name = reply.get("actualCollection").as_str()?.to_owned();
    Some(Ns { db: ns.db.clone(), name })
}

/// Whether the collection with this UUID still has the name. A server may compare the UUID before it opens the
/// collection of the name, which a rename can have replaced by then: so what a first reply has is used only if this is
/// true.
pub(super) fn is_still(source: &mut Link, ns: &Ns, uuid: &Uuid) -> Result<bool> {
    let command = doc! { "find": ns.name.as_str(), "collectionUUID": binary(uuid),
    "filter": { "_id": { "$in": [] } }, "limit": 1, "singleBatch": true,
    "$db": ns.db.as_str() };
    match source.run(&command) {
        Ok(_) => Ok(true),
        Err(trouble) if trouble.code() == UUID_MISMATCH => Ok(false),
        Err(trouble) => Err(trouble),
    }
}

/// A `find` of the collection with this UUID, whatever its name is, in a state that is not older than `since`.
pub(super) fn find(
    ns: &Ns,
    uuid: &Uuid,
    since: u64,
    more: impl FnOnce(&mut DocWriter<'_>),
) -> DocBuf {
    DocBuf::build(|out| {
        out.put("find", ns.name.as_str());
        out.put("collectionUUID", binary(uuid));
        out.put("batchSize", BATCH_DOCUMENTS);
        out.doc("readConcern", |out| {
            out.put("level", "majority");
            out.put("afterClusterTime", Value::Timestamp(since));
        });
        more(out);
        out.put("$db", ns.db.as_str());
    })
}

/// Inserts the documents of a reply. Returns the last one. Documents that are there already are skipped: an interrupted
/// attempt has inserted them.
fn store<'r>(
    target: &mut Link,
    into: &Ns,
    page: &Page<'r>,
    progress: &Progress,
) -> Result<Option<Doc<'r>>> {
    let mut docs = Vec::new();
    let (mut count, mut last) = (0, None);
    for doc in page.docs() {
        docs.extend_from_slice(doc.as_bytes());
        (count, last) = (count + 1, Some(doc));
    }
    if count == 0 {
        return Ok(None);
    }
    let command = doc! { "insert": into.name.as_str(), "ordered": false,
    "bypassDocumentValidation": true, "bypassEmptyTsReplacement": true,
    "$db": into.db.as_str() };
    let reply = target.run_with(&command, "documents", &docs)?;
    let errors = reply.get("writeErrors").as_array().unwrap_or(Array::EMPTY);
    let other =
        errors.iter().filter_map(|e| e.as_doc()).find(|e| whole(*e, "code") != DUPLICATE_KEY);
    if let Some(error) = other {
        return failed(error.get("errmsg").as_str().unwrap_or("an insert failed"));
    }
    progress.copied(count, docs.len());
    Ok(last)
}
