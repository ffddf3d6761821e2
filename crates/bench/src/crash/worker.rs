//! One writer: inserts, updates and deletes documents in its own range of ids, one by one and many at once, until the
//! server is gone.
use super::model::{Model, State};
use super::{COLLECTION, DATABASE};
use crate::args::{Outcome, Problem};
use crate::client::{Connection, complaint};
use crate::random::Random;
use nagi_bson::{DocBuf, DocWriter, doc};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Few ids, so that documents are written repeatedly.
const IDS: u64 = 400;
/// Percentage of the writes that request `j: true`.
const SYNCED_PERCENT: u64 = 25;
/// Percentage of the writes that are an `updateMany` or a `deleteMany`, and the range of ids of one.
const MANY_PERCENT: u64 = 8;
const MANY_IDS: u64 = 150;
/// What an `updateMany` adds to versions: all that follows from a version stays as it is, but `odd`.
const MANY_STEP: i64 = 97 * 11 * 13 * 400;

#[derive(Default)]
pub(super) struct Written {
    pub(super) acknowledged: u64,
    pub(super) synced: u64,
    /// The time at which the last acknowledged write with `j: true` was sent. The write-ahead log is ordered, so every
    /// write that any client had acknowledged by then is also on disk.
    pub(super) certain_at: Option<Instant>,
}

/// The fields of a document of this version; `verify` checks that no document mixes two versions.
pub(super) fn put_fields(w: &mut DocWriter<'_>, writer: i64, version: i64) {
    w.put("w", writer);
    w.put("v", version);
    w.put("a", version % 97);
    w.array("t", |t| {
        t.push(version % 11);
        t.push(version % 13);
    });
    if version % 2 == 1 {
        w.put("odd", version);
    }
    w.put("pad", "x".repeat((version % 400) as usize).as_str());
}

pub(super) fn write(
    mut connection: Connection,
    model: &mut Model,
    seed: u64,
    over: &AtomicBool,
) -> Outcome<Written> {
    let mut random = Random::new(seed);
    let mut written = Written::default();
    loop {
        let synced = random.below(100) < SYNCED_PERCENT;
        model.version += 1;
        let write = next(&mut random, model, synced);
        write.states.iter().for_each(|(id, state)| model.attempt(*id, *state, synced));
        let sent_at = Instant::now();
        let Ok(reply) = connection.command(write.body.as_doc()) else {
            return Ok(written); // The server was killed.
        };
        if let Some(text) = complaint(reply.as_doc()) {
            if over.load(Ordering::SeqCst) {
                return Ok(written); // The disk has failed.
            }
            return Err(Problem::Failed(format!("{:?}: {text}", write.body)));
        }
        let n = crate::client::integer(reply.get("n"));
        if n != Some(write.states.len() as i64) {
            let states = &write.states;
            return Err(Problem::Failed(format!("{:?} for {states:?}: n is {n:?}", write.body)));
        }
        let now = Instant::now();
        write.states.iter().for_each(|(id, _)| model.acknowledge(*id, now));
        written.acknowledged += 1;
        written.synced += u64::from(synced);
        if synced {
            written.certain_at = Some(sent_at);
        }
    }
}

/// A write, and the states that it gives to the documents it reaches.
struct Write {
    states: Vec<(i64, State)>,
    body: DocBuf,
}

/// Draws the next write; a version that it sets is the model's.
fn next(random: &mut Random, model: &Model, synced: bool) -> Write {
    let (version, writer, first) = (model.version, model.writer as i64, random.below(IDS));
    if random.below(100) < MANY_PERCENT {
        return match random.below(100) {
            0..25 => delete_many(model, first, synced),
            draw => update_many(model, first, i64::from(draw % 2 == 1), synced),
        };
    }
    let id = model.id(first);
    let by_id = doc! { "_id": id };
    let (state, body) = match (model.current(id), random.below(100)) {
        (None, _) => (Some(version), insert(id, writer, version, synced)),
        (Some(_), 0..30) => (None, delete(by_id, 1, synced)),
        (Some(_), 30..60) => {
            let whole = |u: &mut DocWriter<'_>| put_fields(u, writer, version);
            (Some(version), statement(by_id, false, synced, whole))
        }
        (Some(_), _) => {
            (Some(version), statement(by_id, false, synced, |u| put_change(u, version)))
        }
    };
    Write { states: vec![(id, state)], body }
}

/// The filter for a range of ids, and the ids of the documents in it with their versions.
fn many(model: &Model, first: u64) -> (DocBuf, impl Iterator<Item = (i64, i64)>) {
    let ids = (first..first + MANY_IDS).map(|n| model.id(n));
    let reached = ids.filter_map(|id| model.current(id).map(|version| (id, version)));
    (doc! { "$gte": (model.id(first)), "$lt": (model.id(first + MANY_IDS)) }, reached)
}

/// Adds to the versions that are odd, or to the others.
fn update_many(model: &Model, first: u64, odd: i64, synced: bool) -> Write {
    let (range, reached) = many(model, first);
    let states = reached.filter(|(_, version)| version % 2 == odd);
    let states = states.map(|(id, version)| (id, Some(version + MANY_STEP))).collect();
    let filter = doc! { "_id": (range.as_doc()), "odd": { "$exists": (odd == 1) } };
    let body = statement(filter, true, synced, |u| {
        u.doc("$inc", |w| {
            w.put("v", MANY_STEP);
            if odd == 1 {
                w.put("odd", MANY_STEP);
            }
        });
    });
    Write { states, body }
}

fn delete_many(model: &Model, first: u64, synced: bool) -> Write {
    let (range, reached) = many(model, first);
    let states = reached.map(|(id, _)| (id, None)).collect();
    Write { states, body: delete(doc! { "_id": (range.as_doc()) }, 0, synced) }
}

fn insert(id: i64, writer: i64, version: i64, synced: bool) -> DocBuf {
    DocBuf::build(|w| {
        w.put("insert", COLLECTION);
        w.array("documents", |list| {
            list.doc(|w| {
                w.put("_id", id);
                put_fields(w, writer, version);
            });
        });
        tail(w, synced);
    })
}

/// The update that gives a document this version.
fn put_change(u: &mut DocWriter<'_>, version: i64) {
    u.doc("$set", |w| {
        w.put("v", version);
        w.put("a", version % 97);
        w.array("t", |t| {
            t.push(version % 11);
            t.push(version % 13);
        });
        if version % 2 == 1 {
            w.put("odd", version);
        }
        w.put("pad", "x".repeat((version % 400) as usize).as_str());
    });
    if version % 2 == 0 {
        u.doc("$unset", |w| w.put("odd", ""));
    }
}

fn statement(
    filter: DocBuf,
    multi: bool,
    synced: bool,
    fill: impl FnOnce(&mut DocWriter<'_>),
) -> DocBuf {
    DocBuf::build(|w| {
        w.put("update", COLLECTION);
        w.array("updates", |list| {
            list.doc(|w| {
                w.put("q", &filter);
                w.doc("u", fill);
                w.put("multi", multi);
            });
        });
        tail(w, synced);
    })
}

fn delete(filter: DocBuf, limit: i32, synced: bool) -> DocBuf {
    let deletes = doc! { "q": (filter.as_doc()), "limit": limit };
    DocBuf::build(|w| {
        w.put("delete", COLLECTION);
        w.array("deletes", |list| list.push(&deletes));
        tail(w, synced);
    })
}

fn tail(w: &mut DocWriter<'_>, synced: bool) {
    if synced {
        w.doc("writeConcern", |c| c.put("j", true));
    }
    w.put("$db", DATABASE);
}
