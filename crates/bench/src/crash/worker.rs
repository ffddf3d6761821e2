//! One writer: inserts, updates and deletes documents in its own range of ids until the server is gone.
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
        let id = model.id(random.below(IDS));
        let synced = random.below(100) < SYNCED_PERCENT;
        model.version += 1;
        let version = model.version;
        let (state, body) = match (model.current(id), random.below(100)) {
            (None, _) => (Some(version), insert(id, model.writer as i64, version, synced)),
            (Some(_), 0..30) => (None, delete(id, synced)),
            (Some(_), 30..60) => (Some(version), replace(id, model.writer as i64, version, synced)),
            (Some(_), _) => (Some(version), update(id, version, synced)),
        };
        model.attempt(id, state, synced);
        let sent_at = Instant::now();
        let Ok(reply) = connection.command(body.as_doc()) else {
            return Ok(written); // The server was killed.
        };
        if let Some(text) = complaint(reply.as_doc()) {
            if over.load(Ordering::SeqCst) {
                return Ok(written); // The disk has failed.
            }
            return Err(Problem::Failed(format!("writing document {id} ({state:?}): {text}")));
        }
        check_count(&reply, id, state)?;
        model.acknowledge(id, Instant::now());
        written.acknowledged += 1;
        written.synced += u64::from(synced);
        if synced {
            written.certain_at = Some(sent_at);
        }
    }
}

fn check_count(reply: &DocBuf, id: i64, state: State) -> Outcome {
    match crate::client::integer(reply.get("n")) {
        Some(1) => Ok(()),
        n => Err(Problem::Failed(format!("writing document {id} ({state:?}): n is {n:?}"))),
    }
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

fn update(id: i64, version: i64, synced: bool) -> DocBuf {
    let pad = "x".repeat((version % 400) as usize);
    statement(id, synced, |u| {
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
            w.put("pad", pad.as_str());
        });
        if version % 2 == 0 {
            u.doc("$unset", |w| w.put("odd", ""));
        }
    })
}

fn replace(id: i64, writer: i64, version: i64, synced: bool) -> DocBuf {
    statement(id, synced, |u| put_fields(u, writer, version))
}

fn statement(id: i64, synced: bool, fill: impl FnOnce(&mut DocWriter<'_>)) -> DocBuf {
    DocBuf::build(|w| {
        w.put("update", COLLECTION);
        w.array("updates", |list| {
            list.doc(|w| {
                w.doc("q", |q| q.put("_id", id));
                w.doc("u", fill);
            });
        });
        tail(w, synced);
    })
}

fn delete(id: i64, synced: bool) -> DocBuf {
    let deletes = doc! { "q": { "_id": id }, "limit": 1 };
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
