//! The queries: one row each, with the work of the bare engine that no implementation could omit.
use super::data::{
    DATABASE, DOCS, MANY, ORDERS, TEXTS, bucket, count, has_common, has_phrase, has_rare, how_many,
    scattered,
};
use nagi_bson::{DocBuf, Value, doc};

/// Limit of a result that is cut off.
const FIRST: u64 = 100;
const BEST_TEXTS: u64 = 20;
pub(super) const BUILT: &str = "built";

pub(super) struct Question {
    pub(super) name: &'static str,
    /// The collection that the query reads.
    pub(super) over: &'static str,
    /// The command, given the number of documents of `DOCS`.
    pub(super) ask: fn(u64) -> DocBuf,
    /// The minimal work of the bare engine; none if the engine has no part in it.
    pub(super) raw: Option<fn(u64) -> DocBuf>,
    /// The number of documents in the result; none where servers may differ.
    pub(super) rows: Option<fn(u64) -> u64>,
    /// True if the query builds an index, which is dropped after each run.
    pub(super) builds: bool,
}

pub(super) static QUESTIONS: &[Question] = &[
    Question {
        name: "filter, 1 % match",
        over: DOCS,
        ask: |_| find(DOCS, doc! { "percent": 7 }),
        raw: Some(scan),
        rows: Some(|n| how_many(n, |id| bucket(id, 100) == 7)),
        builds: false,
    },
    Question {
        name: "filter, last field, none match",
        over: DOCS,
        ask: |_| find(DOCS, doc! { "last": "absent" }),
        raw: Some(scan),
        rows: Some(|_| 0),
        builds: false,
    },
    Question {
        name: "filter on two fields, counted",
        over: DOCS,
        ask: |_| {
            let filter = doc! { "percent": { "$lt": 30 }, "city": "Rome" };
            doc! { "count": DOCS, "query": (filter.as_doc()), "$db": DATABASE }
        },
        raw: Some(scan),
        rows: None,
        builds: false,
    },
    Question {
        name: "$expr, a range of an index, 1 %",
        over: DOCS,
        ask: |_| find(DOCS, doc! { "$expr": { "$lt": ["$ki", (i64::MAX / 100)] } }),
        raw: Some(|n| doc! { "walk": DOCS, "limit": ((n / 100) as i64) }),
        rows: Some(|n| how_many(n, |id| scattered(id) < i64::MAX / 100)),
        builds: false,
    },
    Question {
        name: "filter on the keys of an index, 1 %",
        over: DOCS,
        ask: |_| find(DOCS, doc! { "many": { "$gte": 0 }, "percent": { "$mod": [100, 7] } }),
        raw: Some(|n| doc! { "walk": DOCS, "limit": ((n / 100) as i64) }),
        rows: Some(|n| how_many(n, |id| bucket(id, 100) == 7)),
        builds: false,
    },
    Question {
        name: "$group, 10 groups",
        over: DOCS,
        ask: |_| group("$ten", doc! { "$sum": 1 }),
        raw: Some(scan),
        rows: Some(|n| n.min(10)),
        builds: false,
    },
    Question {
        name: "$group, 10 groups, $sum of a field",
        over: DOCS,
        ask: |_| group("$ten", doc! { "$sum": "$percent" }),
        raw: Some(scan),
        rows: Some(|n| n.min(10)),
        builds: false,
    },
    Question {
        name: "$match 10 %, $group",
        over: DOCS,
        ask: |_| {
            let group = doc! { "_id": "$ten", "n": { "$sum": 1 } };
            aggregate(
                DOCS,
                doc! { "p": [{ "$match": { "percent": { "$lt": 10 } } }, { "$group": (group.as_doc()) }] },
            )
        },
        raw: Some(scan),
        rows: Some(|n| n.min(10)),
        builds: false,
    },
    Question {
        name: "$group, 10,000 groups",
        over: DOCS,
        ask: |_| group("$many", doc! { "$sum": 1 }),
        raw: Some(scan),
        rows: None,
        builds: false,
    },
    Question {
        name: "$group, a group a document",
        over: DOCS,
        ask: |_| {
            // The result is counted; otherwise its transfer to the client would be measured.
            aggregate(
                DOCS,
                doc! { "p": [
                    { "$group": { "_id": "$k", "n": { "$sum": 1 } } },
                    { "$group": { "_id": (Value::Null), "n": { "$sum": "$n" }, "g": { "$sum": 1 } } }
                ] },
            )
        },
        raw: Some(scan),
        rows: Some(|_| 1),
        builds: false,
    },
    Question {
        name: "sort, no index, first 100",
        over: DOCS,
        ask: |_| {
            doc! {
                "find": DOCS, "sort": { "k": 1 }, "limit": (FIRST as i64), "$db": DATABASE
            }
        },
        raw: Some(scan),
        rows: Some(|n| n.min(FIRST)),
        builds: false,
    },
    Question {
        name: "sort, no index, whole documents",
        over: DOCS,
        ask: |n| {
            let skip = n.saturating_sub(FIRST) as i64;
            aggregate(DOCS, doc! { "p": [{ "$sort": { "k": 1 } }, { "$skip": skip }] })
        },
        raw: Some(scan),
        rows: Some(|n| n.min(FIRST)),
        builds: false,
    },
    Question {
        name: "sort by index, whole documents",
        over: DOCS,
        ask: |_| {
            let last = doc! { "_id": (Value::Null), "last": { "$last": "$last" } };
            aggregate(DOCS, doc! { "p": [{ "$sort": { "ki": 1 } }, { "$group": (last.as_doc()) }] })
        },
        raw: Some(|n| doc! { "walk": DOCS, "limit": (n as i64) }),
        rows: Some(|_| 1),
        builds: false,
    },
    Question {
        name: "$lookup of a tenth, by index",
        over: ORDERS,
        ask: |_| {
            aggregate(
                ORDERS,
                doc! { "p": [
                    { "$lookup": { "from": DOCS, "localField": "ref", "foreignField": "ki", "as": "d" } },
                    { "$group": {
                        "_id": (Value::Null),
                        "n": { "$sum": { "$arrayElemAt": ["$d.percent", 0] } }
                    } }
                ] },
            )
        },
        raw: Some(|n| {
            doc! { "seek": DOCS, "keys": (count(ORDERS, n) as i64), "of": (n as i64) }
        }),
        rows: Some(|_| 1),
        builds: false,
    },
    Question {
        name: "$lookup of a tenth, no index",
        over: ORDERS,
        ask: |_| {
            aggregate(
                ORDERS,
                doc! { "p": [
                    { "$lookup": { "from": DOCS, "localField": "ref", "foreignField": "k", "as": "d" } },
                    { "$group": {
                        "_id": (Value::Null),
                        "n": { "$sum": { "$arrayElemAt": ["$d.percent", 0] } }
                    } }
                ] },
            )
        },
        raw: Some(scan),
        rows: Some(|_| 1),
        builds: false,
    },
    Question {
        name: "text, a rare word",
        over: TEXTS,
        ask: |_| text("zephyrine"),
        raw: None,
        rows: Some(|n| how_many(count(TEXTS, n), has_rare).min(BEST_TEXTS)),
        builds: false,
    },
    Question {
        name: "text, two common words",
        over: TEXTS,
        ask: |_| text("harbour evening"),
        raw: Some(|n| {
            let either = |id| has_common(id, 0) || has_common(id, 1);
            doc! { "walk": TEXTS, "limit": (how_many(count(TEXTS, n), either) as i64) }
        }),
        rows: Some(|n| {
            let either = |id| has_common(id, 0) || has_common(id, 1);
            how_many(count(TEXTS, n), either).min(BEST_TEXTS)
        }),
        builds: false,
    },
    Question {
        name: "text, a phrase",
        over: TEXTS,
        ask: |_| text("\"calm sea\""),
        raw: Some(|n| {
            let both = |id| has_common(id, 2);
            doc! { "walk": TEXTS, "limit": (how_many(count(TEXTS, n), both) as i64) }
        }),
        rows: Some(|n| how_many(count(TEXTS, n), has_phrase).min(BEST_TEXTS)),
        builds: false,
    },
    Question {
        name: "index build, one field",
        over: MANY,
        ask: |_| build(MANY, doc! { "k": 1 }, BUILT),
        raw: Some(|_| doc! { "build": MANY, "fields": ["k"], "keep": false }),
        rows: None,
        builds: true,
    },
    Question {
        name: "index build, compound",
        over: MANY,
        ask: |_| build(MANY, doc! { "city": 1, "many": (-1), "k": 1 }, BUILT),
        raw: Some(|_| doc! { "build": MANY, "fields": ["city", "many", "k"], "keep": false }),
        rows: None,
        builds: true,
    },
    Question {
        name: "index build, multikey",
        over: MANY,
        ask: |_| build(MANY, doc! { "tags": 1 }, BUILT),
        raw: Some(|_| doc! { "build": MANY, "fields": ["tags"], "keep": false }),
        rows: None,
        builds: true,
    },
];

fn scan(_: u64) -> DocBuf {
    doc! { "scan": DOCS }
}

fn find(collection: &str, filter: DocBuf) -> DocBuf {
    doc! { "find": collection, "filter": (filter.as_doc()), "$db": DATABASE }
}

/// `with` holds the pipeline as its only field.
fn aggregate(collection: &str, with: DocBuf) -> DocBuf {
    let pipeline = with.as_doc().get("p");
    doc! {
        "aggregate": collection, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true,
        "$db": DATABASE
    }
}

fn group(id: &str, sum: DocBuf) -> DocBuf {
    let spec = doc! { "_id": id, "n": (sum.as_doc()) };
    aggregate(DOCS, doc! { "p": [{ "$group": (spec.as_doc()) }] })
}

fn text(search: &str) -> DocBuf {
    doc! {
        "find": TEXTS, "filter": { "$text": { "$search": search } },
        "projection": { "score": { "$meta": "textScore" } },
        "sort": { "score": { "$meta": "textScore" } }, "limit": (BEST_TEXTS as i64),
        "$db": DATABASE
    }
}

/// `createIndexes` for one index.
pub(super) fn build(collection: &str, key: DocBuf, name: &str) -> DocBuf {
    doc! {
        "createIndexes": collection, "indexes": [{ "key": (key.as_doc()), "name": name }],
        "$db": DATABASE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_can_be_asked() {
        for question in QUESTIONS {
            let asked = (question.ask)(1000);
            assert_eq!(asked.get("$db"), Value::String(DATABASE), "{}", question.name);
            let first = asked.as_doc().first().map(|first| first.value());
            assert_eq!(first, Some(Value::String(question.over)), "{}", question.name);
            if let Some(rows) = question.rows {
                assert!(rows(10_000) <= 10_000, "{}", question.name);
            }
        }
    }

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<_> = QUESTIONS.iter().map(|question| question.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), QUESTIONS.len());
    }
}
