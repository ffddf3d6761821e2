//! The progress of a copy, in the target's database `nagi_copy`, so that a command that was killed can be continued.
//!
//! ```text
//!   state   {_id: "copy", version, run, source, include, exclude, phase, token}
//!           {_id: <UUID at the source>, db, name, target: <UUID at the target>, kind, skipTo}      one per collection
//!   ranges  {_id: {c: <UUID at the source>, n}, from, to, last, done}                   one per piece of a base copy
//! ```
//!
//! `run` is different for each process: a process that finds another's `run` has been replaced, and stops. `skipTo` is
//! the time before the base copy of a capped collection: older inserts are in it, or have left it.

use std::collections::HashMap;

use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value, ValueBuf, doc};

use super::filter::{Filter, OWN_DB};
use super::link::{Link, Result, failed, whole};
use super::listing::{Kind, Ns, Uuid, uuid_of};

const VERSION: i32 = 1;
const STATE: &str = "state";
const RANGES: &str = "ranges";
const ID: &str = "copy";

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Collections are being created: begins anew.
    Listing,
    Base,
    /// Changes are applied.
    Following,
    /// Indexes are made unique.
    Finishing,
}

const PHASES: &[(&str, Phase)] = &[
    ("listing", Phase::Listing),
    ("base", Phase::Base),
    ("following", Phase::Following),
    ("finishing", Phase::Finishing),
];

fn name_of(phase: Phase) -> &'static str {
    PHASES.iter().find(|(_, known)| *known == phase).map_or("", |(name, _)| name)
}

/// A collection that is copied.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) ns: Ns,
    pub(super) target: Uuid,
    pub(super) kind: Kind,
    pub(super) skip_to: u64,
}

/// A piece of a collection: `_id` from `from`, inclusive, to `to`, exclusive; `Missing` has no bound.
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub(super) uuid: Uuid,
    pub(super) number: i32,
    pub(super) from: ValueBuf,
    pub(super) to: ValueBuf,
    /// The last `_id` that was copied.
    pub(super) last: ValueBuf,
}

/// The state, as it is in the target.
pub(super) struct State {
    /// This process.
    run: String,
    pub(super) phase: Phase,
    pub(super) token: DocBuf,
    pub(super) entries: HashMap<Uuid, Entry>,
}

pub(super) fn binary(uuid: &Uuid) -> Value<'_> {
    Value::Binary(Binary { subtype: 4, bytes: uuid })
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Plain => "plain",
        Kind::Capped => "capped",
        Kind::Series => "timeseries",
        Kind::Unwatched => "unwatched",
        Kind::View => "view",
    }
}

fn kind_of(name: &str) -> Option<Kind> {
    [Kind::Plain, Kind::Capped, Kind::Series, Kind::Unwatched]
        .into_iter()
        .find(|kind| kind_name(*kind) == name)
}

/// The earlier state of the target; `None` if nothing has been copied to it. Fails if another copy has begun there.
pub(super) fn load(
    link: &mut Link,
    run: &str,
    source: &str,
    filter: &Filter,
) -> Result<Option<State>> {
    let docs = link.list(&doc! { "find": STATE, "$db": OWN_DB })?;
    let Some(head) = docs.iter().find(|doc| doc.get("_id").as_str() == Some(ID)) else {
        return Ok(None);
    };
    if whole(head.as_doc(), "version") != i64::from(VERSION) {
        return failed(format!(
            "{OWN_DB}.{STATE} in the target is that of another version of nagi"
        ));
    }
    let same = head.get("source").as_str() == Some(source)
        && names(head.get("include")) == filter.include
        && names(head.get("exclude")) == filter.exclude;
    if !same {
        return failed(format!(
            "the target has an unfinished copy from another source or with other names (--include, --exclude): see \
             {OWN_DB}.{STATE}; continue that one, or drop what it has copied and the database {OWN_DB}"
        ));
    }
    let phase = PHASES.iter().find(|(name, _)| head.get("phase").as_str() == Some(name));
    let Some((_, phase)) = phase else { return failed(format!("{OWN_DB}.{STATE} has no phase")) };
    let entries = docs.iter().filter_map(entry_of).collect();
    let token = head.get("token").as_doc().unwrap_or(Doc::EMPTY).to_buf();
    Ok(Some(State { run: run.to_owned(), phase: *phase, token, entries }))
}

fn names(value: Value<'_>) -> Vec<String> {
    let list = value.as_array();
    let texts = list.iter().flat_map(|list| list.iter());
    texts.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn entry_of(doc: &DocBuf) -> Option<(Uuid, Entry)> {
    let uuid = uuid_of(doc.get("_id"))?;
    let text = |name: &str| doc.get(name).as_str().map(str::to_owned);
    let skip_to = match doc.get("skipTo") {
        Value::Timestamp(time) => time,
        _ => 0,
    };
    let ns = Ns { db: text("db")?, name: text("name")? };
    let target = uuid_of(doc.get("target")).unwrap_or_default();
    Some((uuid, Entry { ns, target, kind: kind_of(doc.get("kind").as_str()?)?, skip_to }))
}

impl State {
    /// Begins a copy in the target.
    pub(super) fn begin(
        link: &mut Link,
        run: &str,
        source: &str,
        filter: &Filter,
    ) -> Result<State> {
        let entries = HashMap::new();
        let state =
            State { run: run.to_owned(), phase: Phase::Listing, token: DocBuf::new(), entries };
        let head = DocBuf::build(|out| {
            out.put("_id", ID);
            out.put("version", VERSION);
            out.put("run", run);
            out.put("source", source);
            for (name, list) in [("include", &filter.include), ("exclude", &filter.exclude)] {
                out.array(name, |out| list.iter().for_each(|name| out.push(name.as_str())));
            }
            out.put("phase", name_of(Phase::Listing));
        });
        upsert(link, STATE, head.as_doc())?;
        Ok(state)
    }

    /// Makes this process the one that copies.
    pub(super) fn take_over(&self, link: &mut Link) -> Result<()> {
        let command = doc! { "update": STATE, "updates": [
            { "q": { "_id": ID }, "u": { "$set": { "run": self.run.as_str() } } }
        ], "$db": OWN_DB };
        checked(&link.run(&command)?).map(drop)
    }

    /// Stores phase and token. Fails if another process copies now.
    pub(super) fn save(&self, link: &mut Link) -> Result<()> {
        let command = doc! { "update": STATE, "updates": [
            { "q": { "_id": ID, "run": self.run.as_str() },
              "u": { "$set": { "phase": name_of(self.phase), "token": self.token.as_doc() } } }
        ], "$db": OWN_DB };
        match whole(checked(&link.run(&command)?)?.as_doc(), "n") {
            0 => failed("another nagi copy has taken over: this one stops"),
            _ => Ok(()),
        }
    }

    /// Stores that a collection is copied.
    pub(super) fn put(&mut self, link: &mut Link, uuid: Uuid, entry: Entry) -> Result<()> {
        let stored = DocBuf::build(|out| {
            out.put("_id", binary(&uuid));
            out.put("db", entry.ns.db.as_str());
            out.put("name", entry.ns.name.as_str());
            out.put("target", binary(&entry.target));
            out.put("kind", kind_name(entry.kind));
            // A server replaces a timestamp of zero by its time.
            if entry.skip_to > 0 {
                out.put("skipTo", Value::Timestamp(entry.skip_to));
            }
        });
        upsert(link, STATE, stored.as_doc())?;
        self.entries.insert(uuid, entry);
        Ok(())
    }

    /// Reads the times that the base copy has stored.
    pub(super) fn refresh_skips(&mut self, link: &mut Link) -> Result<()> {
        let docs = link.list(&doc! { "find": STATE, "$db": OWN_DB })?;
        for (uuid, stored) in docs.iter().filter_map(entry_of) {
            if let Some(entry) = self.entries.get_mut(&uuid) {
                entry.skip_to = stored.skip_to;
            }
        }
        Ok(())
    }

    /// Forgets a collection.
    pub(super) fn remove(&mut self, link: &mut Link, uuid: &Uuid) -> Result<()> {
        delete(link, STATE, |q| q.put("_id", binary(uuid)))?;
        delete(link, RANGES, |q| q.put("_id.c", binary(uuid)))?;
        self.entries.remove(uuid);
        Ok(())
    }

    /// The copied collection that has this name in the target.
    pub(super) fn at(&self, ns: &Ns) -> Option<Uuid> {
        self.entries.iter().find(|(_, entry)| entry.ns == *ns).map(|(uuid, _)| *uuid)
    }
}

pub(super) fn put_range(link: &mut Link, range: &Range, done: bool) -> Result<()> {
    let stored = DocBuf::build(|out| {
        out.doc("_id", |out| {
            out.put("c", binary(&range.uuid));
            out.put("n", range.number);
        });
        out.put("from", range.from.value());
        out.put("to", range.to.value());
        out.put("last", range.last.value());
        out.put("done", done);
    });
    upsert(link, RANGES, stored.as_doc())
}

/// The pieces that are not copied yet.
pub(super) fn open_ranges(link: &mut Link) -> Result<Vec<Range>> {
    let docs = link.list(&doc! { "find": RANGES, "filter": { "done": false }, "$db": OWN_DB })?;
    let of = |doc: &DocBuf| {
        let id = doc.get("_id").as_doc()?;
        let value = |name: &str| ValueBuf::new(doc.get(name));
        Some(Range {
            uuid: uuid_of(id.get("c"))?,
            number: i32::try_from(whole(id, "n")).ok()?,
            from: value("from"),
            to: value("to"),
            last: value("last"),
        })
    };
    Ok(docs.iter().filter_map(of).collect())
}

/// Removes the ranges when all are copied.
pub(super) fn drop_ranges(link: &mut Link) -> Result<()> {
    delete(link, RANGES, |_| ())
}

fn upsert(link: &mut Link, collection: &str, doc: Doc<'_>) -> Result<()> {
    let command = doc! { "update": collection, "updates": [
        { "q": { "_id": doc.get("_id") }, "u": doc, "upsert": true }
    ], "$db": OWN_DB };
    checked(&link.run(&command)?).map(drop)
}

fn delete(link: &mut Link, collection: &str, query: impl FnOnce(&mut DocWriter<'_>)) -> Result<()> {
    let command = DocBuf::build(|out| {
        out.put("delete", collection);
        out.array("deletes", |out| {
            out.doc(|out| {
                out.doc("q", query);
                out.put("limit", 0);
            });
        });
        out.put("$db", OWN_DB);
    });
    checked(&link.run(&command)?).map(drop)
}

/// The reply, unless it has an error of a write.
fn checked(reply: &DocBuf) -> Result<&DocBuf> {
    let first = reply.get("writeErrors").as_array().and_then(|errors| errors.iter().next());
    match first.and_then(|error| error.as_doc()) {
        Some(error) => {
            let text = error.get("errmsg").as_str().unwrap_or("a write failed");
            failed(format!("the target has refused to store the progress: {text}"))
        }
        None => Ok(reply),
    }
}

#[test]
fn a_stored_collection_is_read_back() {
    for kind in [Kind::Plain, Kind::Capped, Kind::Series, Kind::Unwatched] {
        let doc = doc! { "_id": binary(&[7; 16]), "db": "d", "name": "a.b", "target": binary(&[8; 16]),
        "kind": kind_name(kind), "skipTo": Value::Timestamp(9) };
        let (uuid, entry) = entry_of(&doc).unwrap();
        assert_eq!((uuid, entry.target, entry.kind, entry.skip_to), ([7; 16], [8; 16], kind, 9));
        assert_eq!(entry.ns.to_string(), "d.a.b");
    }
    let plain = doc! { "_id": binary(&[7; 16]), "db": "d", "name": "a", "kind": "plain" };
    assert_eq!(entry_of(&plain).unwrap().1.skip_to, 0);
    assert!(entry_of(&doc! { "_id": "copy" }).is_none());
    for (name, phase) in PHASES {
        assert_eq!(name_of(*phase), *name);
    }
}
