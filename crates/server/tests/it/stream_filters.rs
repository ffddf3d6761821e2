//! Change streams with conditions: they show what the conditions let through, and wait for nothing else.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, doc};
use nagi_server::Server;

use crate::change_streams::{Stream, change, done, kinds, run, token_of};
use crate::client::{Client, member};

const FILTERS: &[&str] = &[
    "{operationType: 'insert'}",
    "{operationType: {$in: ['update', 'delete']}}",
    "{operationType: {$ne: 'insert'}}",
    "{operationType: {$regex: '^re'}}",
    "{$or: [{operationType: 'drop'}, {'documentKey._id': 3}]}",
    "{$nor: [{operationType: 'insert'}, {operationType: 'update'}]}",
    "{'ns.coll': 'c'}",
    "{'ns.coll': {$ne: 'c'}}",
    "{ns: {db: 'test', coll: 'other'}}",
    "{$or: [{'ns.coll': 'other'}, {operationType: 'delete'}]}",
    "{'documentKey._id': 1}",
    "{'documentKey._id': 1.0}",
    "{'documentKey._id': {$gte: 2}}",
    "{'documentKey._id': {$in: [2, 3]}}",
    "{documentKey: {_id: 2}}",
    "{documentKey: null}",
    "{'documentKey._id': null}",
    "{'documentKey._id': {$exists: false}}",
    "{'documentKey._id': 1, operationType: 'update'}",
    "{'documentKey._id': 1, 'ns.coll': 'other'}",
    "{$and: [{'documentKey._id': 1}, {'documentKey._id': 2}]}",
    "{'fullDocument.a': 1}",
    "{'fullDocument.a': 2}",
    "{'fullDocument.a': {$exists: false}}",
    "{fullDocument: null}",
    "{'fullDocumentBeforeChange.a': 1}",
    "{'updateDescription.updatedFields.a': 2}",
    "{'updateDescription.removedFields': 'a'}",
    "{'updateDescription.truncatedArrays': {$size: 1}}",
    "{operationType: 'update', 'fullDocument.z': 1}",
    "{$expr: {$eq: ['$operationType', 'replace']}}",
    "{$expr: {$eq: ['$documentKey._id', 1]}, operationType: 'insert'}",
    "{txnNumber: {$exists: true}}",
    "{unknown: 1}",
    "{}",
];

const OPTIONS: &[&str] = &[
    "{}",
    "{showExpandedEvents: true}",
    "{fullDocument: 'updateLookup'}",
    "{fullDocument: 'whenAvailable', fullDocumentBeforeChange: 'whenAvailable'}",
    "{showRawUpdateDescription: true}",
];

/// The condition as it is tested behind the stream.
fn behind(filter: &str) -> String {
    format!(", {{$replaceRoot: {{newRoot: '$$ROOT'}}}}, {{$match: {filter}}}")
}

fn all(server: &Arc<Server>, at: (&str, &str), options: &str, rest: &str) -> (Vec<DocBuf>, i64) {
    let mut stream = Stream::open(server, at, options, rest).unwrap();
    (stream.all(), stream.id)
}

#[test]
fn conditions_directly_behind_a_stream_mean_what_they_mean_elsewhere() {
    let server = member();
    let mut client = Client::new(&server);
    let start = Stream::open(&server, ("test", "c"), "{}", "").unwrap().token;
    done(&mut client, "test", "{create: 'c', changeStreamPreAndPostImages: {enabled: true}}");
    change(&mut client);
    let mut found = 0;
    for at in [("test", "c"), ("test", "")] {
        for options in OPTIONS {
            let inner = options.trim_start_matches('{').trim_end_matches('}');
            let comma = if inner.is_empty() { "" } else { ", " };
            let options = format!("{{resumeAfter: {}{comma}{inner}}}", start.as_doc());
            for filter in FILTERS {
                let pushed = format!(", {{$match: {filter}}}");
                let expected = all(&server, at, &options, &behind(filter));
                let got = all(&server, at, &options, &pushed);
                assert_eq!(got.1 == 0, expected.1 == 0, "{at:?} {options} {filter}");
                assert_eq!(kinds(&got.0), kinds(&expected.0), "{at:?} {options} {filter}");
                assert!(got.0 == expected.0, "{at:?} {options} {filter}");
                found += got.0.len();
                let twice = format!("{pushed}, {{$match: {{operationType: {{$ne: 'delete'}}}}}}");
                let without =
                    expected.0.iter().filter(|e| e.get("operationType").as_str() != Some("delete"));
                assert!(all(&server, at, &options, &twice).0.iter().eq(without), "{filter}");
            }
        }
    }
    assert!(found > 500, "the conditions let something through: {found}");
}

#[test]
fn a_stream_resumes_behind_an_event_that_its_conditions_exclude() {
    let server = member();
    let mut client = Client::new(&server);
    let mut stream = Stream::open(&server, ("test", "c"), "{}", "").unwrap();
    // Another stream of the document keeps its watch.
    let only = ", {$match: {'documentKey._id': 2}}";
    let mut other = Stream::open(&server, ("test", "c"), "{}", only).unwrap();
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    assert_eq!(other.all().len(), 1);
    let events = stream.all();
    for (at, expected) in [(0, 1), (1, 1), (2, 2)] {
        let options = format!("{{resumeAfter: {}}}", token_of(&events[at]).as_doc());
        let mut resumed = Stream::open(&server, ("test", "c"), &options, only).unwrap();
        assert_eq!(resumed.all().len(), expected, "{at}");
        done(&mut client, "test", "{update: 'c', updates: [{q: {_id: 2}, u: {$inc: {n: 1}}}]}");
        done(&mut client, "test", "{update: 'c', updates: [{q: {_id: 3}, u: {$inc: {n: 1}}}]}");
        assert_eq!(kinds(&resumed.all()), ["update"]);
    }
    // The token moves past changes of other documents.
    let before = other.token.clone();
    other.all();
    assert!(other.token.get("_data").as_str() > before.get("_data").as_str());
}

/// Waits for an event for a minute while `write` runs; returns the event's `_id` or, without one, its kind.
fn awaited(stream: &mut Stream, write: impl FnOnce()) -> String {
    std::thread::scope(|scope| {
        let (id, collection) = (stream.id, stream.collection.clone());
        let client = &mut stream.client;
        let waits = scope.spawn(move || {
            let more = doc! {
                "getMore": id, "collection": (collection.as_str()), "maxTimeMS": 60_000
            };
            client.run("test", more.as_doc())
        });
        write();
        let reply = waits.join().unwrap();
        let batch = reply.get("cursor").as_doc().unwrap().get("nextBatch").as_array().unwrap();
        let event = batch.iter().next().unwrap().as_doc().unwrap();
        match event.get("documentKey") {
            Value::Doc(key) => key.get("_id").to_string(),
            _ => event.get("operationType").to_string(),
        }
    })
}

#[test]
fn a_stream_of_one_document_is_woken_by_its_changes() {
    let server = member();
    let mut writer = Client::new(&server);
    done(&mut writer, "test", "{create: 'c'}");
    let only = ", {$match: {$or: [{'documentKey._id': 'x'}, {operationType: 'invalidate'}]}}";
    let mut any = Stream::open(&server, ("test", "c"), "{}", only).unwrap();
    let only = ", {$match: {'documentKey._id': 'x'}}";
    let mut one = Stream::open(&server, ("test", "c"), "{}", only).unwrap();
    let within = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, txnNumber: NumberLong(1), \
        autocommit: false";
    let many: Vec<String> = (0..300).map(|n| format!("{{_id: {n}}}")).collect();
    let many = format!("{{insert: 'c', documents: [{}]}}", many.join(", "));
    let writes: [&[(&str, String)]; 4] = [
        &[("test", many), ("test", "{insert: 'c', documents: [{_id: 'x'}]}".to_owned())],
        &[("test", "{update: 'c', updates: [{q: {}, u: {$inc: {a: 1}}, multi: true}]}".to_owned())],
        &[
            (
                "test",
                format!(
                    "{{insert: 'c', documents: [{{_id: 'y'}}], startTransaction: true, {within}}}"
                ),
            ),
            (
                "test",
                format!("{{update: 'c', updates: [{{q: {{_id: 'x'}}, u: {{b: 1}}}}], {within}}}"),
            ),
            ("admin", format!("{{commitTransaction: 1, {within}}}")),
        ],
        &[("test", "{delete: 'c', deletes: [{q: {_id: 'x'}, limit: 1}]}".to_owned())],
    ];
    for commands in writes {
        let event = awaited(&mut one, || {
            commands.iter().for_each(|(db, command)| done(&mut writer, db, command));
        });
        assert_eq!(event, "\"x\"");
    }
    assert_eq!(any.all().len(), 4);
    let ended = awaited(&mut any, || done(&mut writer, "test", "{drop: 'c'}"));
    assert_eq!(ended, "\"invalidate\"");
    // Its conditions exclude what ends it.
    let more = doc! { "getMore": (one.id), "collection": "c", "maxTimeMS": 60_000 };
    let reply = one.client.run("test", more.as_doc());
    assert_eq!(reply.get("cursor").as_doc().unwrap().get("id"), Value::Int64(0), "{reply:?}");
    assert!(run(&mut writer, "test", "{ping: 1}").get("ok").is_truthy());
}
