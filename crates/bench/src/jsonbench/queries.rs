//! The five queries of JSONBench, in the form that its page gives for MongoDB.
use super::{COLLECTION, DATABASE};
use nagi_bson::{DocBuf, doc};

/// A query and its name.
pub(super) struct Query {
    pub(super) name: &'static str,
    pub(super) command: DocBuf,
}

pub(super) fn all() -> Vec<Query> {
    let row = |name, pipeline: DocBuf| {
        let pipeline = pipeline.as_doc().get("p");
        let command = doc! {
            "aggregate": COLLECTION, "pipeline": pipeline, "cursor": {}, "allowDiskUse": true,
            "$db": DATABASE
        };
        Query { name, command }
    };
    vec![
        row("1 events by kind", top_events()),
        row("2 events and users", events_and_users()),
        row("3 events by hour", by_hour()),
        row("4 first posters", first_posters()),
        row("5 longest activity", longest_activity()),
    ]
}

fn top_events() -> DocBuf {
    doc! { "p": [
        { "$group": { "_id": "$commit.collection", "count": { "$sum": 1 } } },
        { "$sort": { "count": (-1) } }
    ] }
}

fn events_and_users() -> DocBuf {
    doc! { "p": [
        { "$match": { "kind": "commit", "commit.operation": "create" } },
        { "$group": {
            "_id": { "event": "$commit.collection", "did": "$did" }, "count": { "$sum": 1 }
        } },
        { "$group": {
            "_id": "$_id.event", "count": { "$sum": "$count" }, "users": { "$sum": 1 }
        } },
        { "$sort": { "count": (-1) } }
    ] }
}

fn by_hour() -> DocBuf {
    doc! { "p": [
        { "$match": {
            "kind": "commit", "commit.operation": "create",
            "commit.collection": { "$in": [
                "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.feed.like"
            ] }
        } },
        { "$group": {
            "_id": {
                "event": "$commit.collection",
                "hour": { "$hour": { "$toDate": { "$toLong": { "$divide": ["$time_us", 1000] } } } }
            },
            "count": { "$sum": 1 }
        } },
        { "$sort": { "_id.hour": 1, "_id.event": 1 } }
    ] }
}

fn first_posters() -> DocBuf {
    doc! { "p": [
        { "$match": {
            "kind": "commit", "commit.operation": "create",
            "commit.collection": "app.bsky.feed.post"
        } },
        { "$group": { "_id": "$did", "first": { "$min": "$time_us" } } },
        { "$sort": { "first": 1 } },
        { "$limit": 3 }
    ] }
}

fn longest_activity() -> DocBuf {
    doc! { "p": [
        { "$match": {
            "kind": "commit", "commit.operation": "create",
            "commit.collection": "app.bsky.feed.post"
        } },
        { "$group": {
            "_id": "$did", "first": { "$min": "$time_us" }, "last": { "$max": "$time_us" }
        } },
        { "$project": { "span": { "$divide": [{ "$subtract": ["$last", "$first"] }, 1000] } } },
        { "$sort": { "span": (-1), "_id": 1 } },
        { "$limit": 3 }
    ] }
}
