//! A client that changes the schema while the writers run. It builds and drops indexes of the writers'
//! collection, and fills, renames and drops collections of its own.
//!
//! Crashes during these changes differ from crashes during writes: whole key ranges and files are removed at
//! once, and a build reads data that others are writing. Each change is durable when it is acknowledged, so
//! only the change in flight at the kill is uncertain.
use super::{COLLECTION, DATABASE};
use crate::args::{Outcome, Problem};
use crate::client::{Connection, complaint, integer};
use crate::random::Random;
use nagi_bson::{Doc, DocBuf, Value, doc};
use std::sync::atomic::{AtomicBool, Ordering};

const INDEXES: [&str; 3] = ["ddl_0", "ddl_1", "ddl_2"];
const SIDES: [&str; 3] = ["side_0", "side_1", "side_2"];
/// Maximum number of documents of a side collection.
const SIDE_COUNT_MAX: u64 = 2000;

/// The certain state, and the possible effect of the change in flight.
#[derive(Default)]
pub(super) struct Schema {
    indexes: [bool; 3],
    sides: [Option<i64>; 3],
    in_flight: Option<Change>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Build(usize),
    DropIndex(usize),
    Fill(usize, i64),
    Rename(usize, usize),
    Drop(usize),
}

impl Schema {
    /// Makes changes until the server is gone. Returns the number of acknowledged changes.
    pub(super) fn change(
        &mut self,
        mut connection: Connection,
        seed: u64,
        over: &AtomicBool,
    ) -> Outcome<u64> {
        let mut random = Random::new(seed);
        let mut count = 0;
        loop {
            let change = self.choose(&mut random);
            self.in_flight = Some(change);
            let Ok(reply) = connection.command(change.command().as_doc()) else {
                return Ok(count); // The server was killed.
            };
            if let Some(text) = complaint(reply.as_doc()) {
                if over.load(Ordering::SeqCst) {
                    return Ok(count); // The disk has failed.
                }
                return Err(Problem::Failed(format!("{change:?}: {text}")));
            }
            self.apply(change);
            self.in_flight = None;
            count += 1;
        }
    }

    fn choose(&self, random: &mut Random) -> Change {
        let at = random.below(3) as usize;
        if random.below(2) == 0 {
            return if self.indexes[at] { Change::DropIndex(at) } else { Change::Build(at) };
        }
        let free = self.sides.iter().position(Option::is_none);
        match (self.sides[at], free) {
            (None, _) => Change::Fill(at, 1 + random.below(SIDE_COUNT_MAX) as i64),
            (Some(_), Some(free)) if random.below(2) == 0 => Change::Rename(at, free),
            (Some(_), _) => Change::Drop(at),
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Build(at) => self.indexes[at] = true,
            Change::DropIndex(at) => self.indexes[at] = false,
            Change::Fill(at, count) => self.sides[at] = Some(count),
            Change::Rename(from, to) => self.sides[to] = self.sides[from].take(),
            Change::Drop(at) => self.sides[at] = None,
        }
    }

    /// Compares the expected state with the data of a reopened server and adopts that data as certain.
    pub(super) fn settle(
        &mut self,
        connection: &mut Connection,
        problems: &mut Vec<String>,
    ) -> Outcome {
        let found = Schema {
            indexes: find_indexes(connection)?,
            sides: find_sides(connection, problems)?,
            in_flight: None,
        };
        if !self.allows(&found) {
            problems.push(format!(
                "indexes {:?}, collections {:?}; were {:?}, {:?} before {:?}",
                found.indexes, found.sides, self.indexes, self.sides, self.in_flight,
            ));
        }
        *self = found;
        Ok(())
    }

    fn allows(&self, found: &Schema) -> bool {
        let same = |s: &Schema| s.indexes == found.indexes && s.sides == found.sides;
        let Some(change) = self.in_flight else { return same(self) };
        let mut after = Schema { indexes: self.indexes, sides: self.sides, in_flight: None };
        after.apply(change);
        if let (Change::Fill(at, all), Some(Some(some))) =
            (change, found.sides.get(change.target()).copied())
        {
            // A large insert spans several transactions, so it may be present in part.
            after.sides[at] = Some(some.min(all));
        }
        same(self) || same(&after)
    }
}

impl Change {
    fn target(self) -> usize {
        match self {
            Change::Build(at) | Change::DropIndex(at) | Change::Fill(at, _) | Change::Drop(at) => {
                at
            }
            Change::Rename(_, to) => to,
        }
    }

    fn command(self) -> DocBuf {
        match self {
            Change::Build(at) => {
                let key = [doc! { "a": 1, "w": 1 }, doc! { "t": 1, "v": 1 }, doc! { "pad": 1 }];
                doc! {
                    "createIndexes": COLLECTION,
                    "indexes": [{ "key": (&key[at]), "name": (INDEXES[at]) }],
                    "$db": DATABASE
                }
            }
            Change::DropIndex(at) => {
                doc! { "dropIndexes": COLLECTION, "index": (INDEXES[at]), "$db": DATABASE }
            }
            Change::Fill(at, count) => DocBuf::build(|w| {
                w.put("insert", SIDES[at]);
                w.array("documents", |list| {
                    for n in 0..count {
                        list.doc(|w| {
                            w.put("_id", n);
                            w.put("pad", "y".repeat((n % 300) as usize).as_str());
                        });
                    }
                });
                w.doc("writeConcern", |w| w.put("j", true));
                w.put("$db", DATABASE);
            }),
            Change::Rename(from, to) => {
                let name = |at: usize| format!("{DATABASE}.{}", SIDES[at]);
                let (from, to) = (name(from), name(to));
                doc! { "renameCollection": (from.as_str()), "to": (to.as_str()), "$db": "admin" }
            }
            Change::Drop(at) => doc! { "drop": (SIDES[at]), "$db": DATABASE },
        }
    }
}

/// Returns, for each index, true if it exists.
fn find_indexes(connection: &mut Connection) -> Outcome<[bool; 3]> {
    let reply = connection.expect(doc! { "listIndexes": COLLECTION, "$db": DATABASE }.as_doc())?;
    let names = names(reply.as_doc());
    Ok(INDEXES.map(|index| names.iter().any(|n| n == index)))
}

/// The number of documents of each side collection, after counting, scanning and validating it.
fn find_sides(
    connection: &mut Connection,
    problems: &mut Vec<String>,
) -> Outcome<[Option<i64>; 3]> {
    let reply = connection.expect(doc! { "listCollections": 1, "$db": DATABASE }.as_doc())?;
    let names = names(reply.as_doc());
    let mut sides = [None; 3];
    for (side, name) in
        sides.iter_mut().zip(SIDES).filter(|(_, side)| names.iter().any(|n| n == side))
    {
        let reply = connection.expect(doc! { "count": name, "$db": DATABASE }.as_doc())?;
        let count = integer(reply.get("n")).unwrap_or(-1);
        let query =
            doc! { "count": name, "query": { "pad": { "$exists": true } }, "$db": DATABASE };
        let scanned = integer(connection.expect(query.as_doc())?.get("n"));
        if scanned != Some(count) {
            problems.push(format!("{name} counts {count}, a scan {scanned:?}"));
        }
        let validate = doc! { "validate": name, "full": true, "$db": DATABASE };
        let reply = connection.expect(validate.as_doc())?;
        if reply.get("valid") != Value::Bool(true) {
            problems.push(format!("validate of {name}: {reply:?}"));
        }
        *side = Some(count);
    }
    Ok(sides)
}

/// The field `name` of each document in a cursor's first batch.
fn names(reply: Doc<'_>) -> Vec<String> {
    let mut names = Vec::new();
    if let Value::Doc(cursor) = reply.get("cursor")
        && let Value::Array(rows) = cursor.get("firstBatch")
    {
        for row in rows.iter() {
            if let Value::Doc(row) = row
                && let Value::String(name) = row.get("name")
            {
                names.push(name.to_owned());
            }
        }
    }
    names
}
