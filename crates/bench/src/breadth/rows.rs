//! The operations: one row each, with the ratio that a comparison with MongoDB measured once.
use super::data::{BATCH, DATABASE, insert};
use crate::random::Random;
use nagi_bson::{DocBuf, Value, doc};

pub(super) const DOCS: &str = "docs";
/// The collection of a row that changes it.
pub(super) const CHANGED: &str = "changed";
const RANGE: i64 = 50;

/// The collection of a row.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Over {
    /// All documents, which stay as they are.
    Docs,
    /// A new collection of all documents divided by this, for each turn. There is no other one then, as in the
    /// comparison with MongoDB.
    New(u64),
    /// The same with three more indexes.
    Indexed(u64),
    /// A new empty collection for each turn.
    Empty,
}

/// One operation.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Time of MongoDB 4.0.3 divided by the time of commit 980636b, and the same for the server's CPU time: measured
    /// on one machine in November 2026. None where that comparison has no such row.
    pub(super) mongodb: Option<(f64, f64)>,
    /// The ratio to MongoDB that Nagi aims at.
    pub(super) aim: f64,
    pub(super) over: Over,
    /// The operation is about all documents divided by this.
    part: u64,
    /// The requests, given the number of documents of `DOCS`. A cursor is read to its end.
    pub(super) requests: fn(u64) -> Box<dyn Iterator<Item = DocBuf>>,
}

impl Row {
    /// The documents that are read, returned or written, given the number of documents of `DOCS`.
    pub(super) fn documents(&self, scale: u64) -> u64 {
        scale / self.part
    }
}

/// In the order in which they run.
pub(super) static ROWS: &[Row] = &[
    row("full scan to the client", (0.60, 0.31), 1.5, |_| one(find(doc! {}))),
    row("scan, filter matches 1 %", (0.57, 0.71), 2.0, |_| one(find(doc! { "hundred": 7 }))),
    row("scan with a projection", (0.70, 0.59), 2.0, |_| {
        one(doc! {
            "find": DOCS, "projection": { "city": 1, "price": 1 }, "batchSize": 10_000, "$db": DATABASE
        })
    }),
    row("regex with a prefix", (0.72, 0.83), 2.0, |_| {
        one(count(doc! { "name": { "$regex": "^user00" } }))
    }),
    row("count with a filter", (0.67, 0.87), 2.0, |_| one(count(doc! { "price": { "$lt": 500 } }))),
    row("distinct", (0.74, 0.85), 2.0, |_| {
        one(doc! { "distinct": DOCS, "key": "city", "$db": DATABASE })
    }),
    row("$group by 10 values", (0.62, 0.72), 2.0, |_| one(group("$ten"))),
    row("$group by an indexed field, covered", (0.91, 0.91), 2.0, |_| one(group("$thousand"))),
    row("$group, a group a document", (1.5, 1.7), 1.5, |_| {
        let (by, all) = (doc! { "_id": "$_id" }, doc! { "_id": (Value::Null), "n": { "$sum": 1 } });
        one(aggregate(&doc! { "p": [{ "$group": (by.as_doc()) }, { "$group": (all.as_doc()) }] }))
    }),
    row("$facet of three", (0.32, 0.32), 2.0, |_| one(facet())),
    row("$bucketAuto", (0.56, 0.52), 2.0, |_| {
        let buckets = doc! { "groupBy": "$price", "buckets": 10 };
        one(aggregate(&doc! { "p": [{ "$bucketAuto": (buckets.as_doc()) }] }))
    }),
    row("first 100 of a sort", (0.80, 1.02), 2.0, |_| {
        one(doc! { "find": DOCS, "sort": { "random": 1 }, "limit": 100, "$db": DATABASE })
    }),
    row("sort of whole documents", (2.6, 3.1), 2.6, |_| {
        let all = doc! { "_id": (Value::Null), "n": { "$sum": "$count" } };
        one(aggregate(&doc! { "p": [{ "$sort": { "random": 1 } }, { "$group": (all.as_doc()) }] }))
    }),
    row("all documents in the order of an index", (0.79, 0.74), 1.5, |_| {
        one(doc! { "find": DOCS, "sort": { "thousand": 1 }, "batchSize": 10_000, "$db": DATABASE })
    }),
    row("index range of 1 %, fetched", (1.0, 1.0), 2.0, |_| {
        one(find(doc! { "thousand": { "$gte": 100, "$lt": 110 } }))
    })
    .of_part(100),
    row("ranges of 50 by _id", (0.84, 0.77), 2.0, |n| {
        let mut random = Random::new(3);
        Box::new((0..n / 50).map(move |_| {
            let from = random.below(n) as i64;
            let filter = doc! { "_id": { "$gte": from } };
            let filter = filter.as_doc();
            doc! { "find": DOCS, "filter": filter, "sort": { "_id": 1 }, "limit": RANGE, "$db": DATABASE }
        }))
    }),
    row("reads by _id", (1.3, 2.1), 2.5, |n| {
        let mut random = Random::new(5);
        Box::new((0..n / 10).map(move |_| {
            let filter = doc! { "_id": (random.below(n) as i64) };
            doc! { "find": DOCS, "filter": (filter.as_doc()), "limit": 1, "$db": DATABASE }
        }))
    })
    .of_part(10),
    changing("single inserts", Over::Empty, (0.9, 1.14), 1.5, |n| {
        Box::new((0..n / 10).map(|id| insert(CHANGED, id, id + 1)))
    })
    .of_part(10),
    changing("insertMany in batches of 1,000", Over::Empty, (1.24, 1.01), 1.5, |n| {
        Box::new((0..n).step_by(BATCH as usize).map(move |at| insert(CHANGED, at, at + BATCH)))
    }),
    changing("$out", Over::Empty, (1.07, 0.82), 1.5, |_| {
        one(aggregate(&doc! { "p": [{ "$out": CHANGED }] }))
    }),
    changing("bulkWrite of updateOne by _id", Over::New(1), (0.23, 0.14), 2.0, |n| {
        let mut random = Random::new(7);
        Box::new((0..n / 50_000).map(move |_| {
            by_id("update", "updates", n, &mut random, |id| {
                doc! { "q": { "_id": id }, "u": { "$inc": { "count": 1 } } }
            })
        }))
    })
    .of_part(50),
    changing("bulkWrite of deleteOne by _id", Over::New(1), (0.23, 0.14), 2.0, |n| {
        let mut random = Random::new(9);
        Box::new((0..n / 50_000).map(move |_| {
            by_id("delete", "deletes", n, &mut random, |id| {
                doc! { "q": { "_id": id }, "limit": 1 }
            })
        }))
    })
    .of_part(50),
    changing("updateMany $inc, all", Over::New(1), (0.14, 0.28), 2.0, |_| {
        one(update_many(doc! {}, doc! { "$inc": { "count": 1 } }))
    }),
    changing("updateMany $set that grows, all", Over::New(1), (0.19, 0.30), 2.0, |_| {
        one(update_many(
            doc! {},
            doc! { "$set": { "new": "forty characters that were not there yet" } },
        ))
    }),
    changing("updateMany of a tenth, three indexes", Over::Indexed(1), (0.30, 0.64), 2.0, |_| {
        one(update_many(
            doc! { "hundred": { "$lt": 10 } },
            doc! { "$inc": { "thousand": 1, "random": 1 } },
        ))
    })
    .of_part(10),
    changing("deleteMany of half", Over::New(1), (0.12, 0.29), 2.0, |_| {
        one(delete_many(doc! { "ten": { "$lt": 5 } }))
    })
    .of_part(2),
];

const fn row(
    name: &'static str,
    mongodb: (f64, f64),
    aim: f64,
    requests: fn(u64) -> Box<dyn Iterator<Item = DocBuf>>,
) -> Row {
    Row { name, mongodb: Some(mongodb), aim, over: Over::Docs, part: 1, requests }
}

const fn changing(
    name: &'static str,
    over: Over,
    mongodb: (f64, f64),
    aim: f64,
    requests: fn(u64) -> Box<dyn Iterator<Item = DocBuf>>,
) -> Row {
    Row { name, mongodb: Some(mongodb), aim, over, part: 1, requests }
}

impl Row {
    const fn of_part(mut self, part: u64) -> Row {
        self.part = part;
        self
    }
}

fn one(request: DocBuf) -> Box<dyn Iterator<Item = DocBuf>> {
    Box::new(std::iter::once(request))
}

fn find(filter: DocBuf) -> DocBuf {
    doc! { "find": DOCS, "filter": (filter.as_doc()), "batchSize": 10_000, "$db": DATABASE }
}

fn count(query: DocBuf) -> DocBuf {
    doc! { "count": DOCS, "query": (query.as_doc()), "$db": DATABASE }
}

/// `stages` has the pipeline as its only field.
fn aggregate(stages: &DocBuf) -> DocBuf {
    let (pipeline, cursor) = (stages.get("p"), doc! { "batchSize": 10_000 });
    doc! {
        "aggregate": DOCS, "pipeline": pipeline, "cursor": (cursor.as_doc()),
        "allowDiskUse": true, "$db": DATABASE
    }
}

fn group(by: &str) -> DocBuf {
    let group = doc! { "_id": by, "n": { "$sum": 1 } };
    aggregate(&doc! { "p": [{ "$group": (group.as_doc()) }] })
}

fn facet() -> DocBuf {
    let by = |field: &str| doc! { "_id": field, "n": { "$sum": 1 } };
    let (city, ten) = (by("$city"), by("$ten"));
    let (cities, tens) = (
        doc! { "p": [{ "$group": (city.as_doc()) }] },
        doc! { "p": [{ "$group": (ten.as_doc()) }] },
    );
    let cheap = doc! { "p": [{ "$match": { "price": { "$lt": 10 } } }, { "$count": "n" }] };
    let facets = doc! { "a": (cities.get("p")), "b": (tens.get("p")), "c": (cheap.get("p")) };
    aggregate(&doc! { "p": [{ "$facet": (facets.as_doc()) }] })
}

fn update_many(query: DocBuf, update: DocBuf) -> DocBuf {
    let statement = doc! { "q": (query.as_doc()), "u": (update.as_doc()), "multi": true };
    doc! { "update": CHANGED, "updates": [(statement.as_doc())], "$db": DATABASE }
}

fn delete_many(query: DocBuf) -> DocBuf {
    let statement = doc! { "q": (query.as_doc()), "limit": 0 };
    doc! { "delete": CHANGED, "deletes": [(statement.as_doc())], "$db": DATABASE }
}

/// One command of 1,000 statements on random documents of `count`.
fn by_id(
    command: &str,
    list: &str,
    count: u64,
    random: &mut Random,
    statement: fn(i64) -> DocBuf,
) -> DocBuf {
    DocBuf::build(|out| {
        out.put(command, CHANGED);
        out.array(list, |list| {
            (0..BATCH).for_each(|_| {
                list.push(Value::Doc(statement(random.below(count) as i64).as_doc()));
            });
        });
        out.put("$db", DATABASE);
    })
}
