//! Change streams through commands: events, tokens, ends, refusals, waiting.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, DocWriter, Value, json};
use nagi_server::Server;

use crate::client::{Client, is_ok, member, server};

pub(crate) fn run(client: &mut Client, db: &str, command: &str) -> DocBuf {
    client.run(db, json::parse(command).unwrap().as_doc())
}

pub(crate) fn done(client: &mut Client, db: &str, command: &str) {
    let reply = run(client, db, command);
    assert!(is_ok(&reply), "{command}: {reply:?}");
}

/// An open change stream.
pub(crate) struct Stream {
    pub(crate) client: Client,
    db: String,
    pub(crate) collection: String,
    pub(crate) id: i64,
    pub(crate) token: DocBuf,
}

impl Stream {
    /// Opens a stream on `db.collection`, or on the database. `options`: of the stage; `rest`: the stages behind it.
    pub(crate) fn open(
        server: &Arc<Server>,
        (db, collection): (&str, &str),
        options: &str,
        rest: &str,
    ) -> Result<Stream, DocBuf> {
        let mut client = Client::new(server);
        let on = if collection.is_empty() { "1".to_owned() } else { format!("'{collection}'") };
        let command = format!(
            "{{aggregate: {on}, pipeline: [{{$changeStream: {options}}} {rest}], cursor: {{batchSize: 0}}}}"
        );
        let reply = run(&mut client, db, &command);
        if !is_ok(&reply) {
            return Err(reply);
        }
        let cursor = reply.get("cursor").as_doc().unwrap();
        let Value::Int64(id) = cursor.get("id") else { panic!("{reply:?}") };
        let namespace = cursor.get("ns").as_str().unwrap();
        let collection = namespace.split_once('.').unwrap().1.to_owned();
        let token = cursor
            .get("postBatchResumeToken")
            .as_doc()
            .unwrap_or_else(|| panic!("{command}: {reply:?}"))
            .to_buf();
        Ok(Stream { client, db: db.to_owned(), collection, id, token })
    }

    /// Waits for so many milliseconds for events.
    pub(crate) fn wait(&mut self, ms: u32) -> Vec<DocBuf> {
        self.next(ms, "").unwrap()
    }

    /// The next batch without waiting.
    pub(crate) fn more(&mut self, arguments: &str) -> Result<Vec<DocBuf>, DocBuf> {
        self.next(1, arguments)
    }

    fn next(&mut self, ms: u32, arguments: &str) -> Result<Vec<DocBuf>, DocBuf> {
        let (id, collection) = (self.id, &self.collection);
        let command = format!(
            "{{getMore: NumberLong({id}), collection: '{collection}', maxTimeMS: {ms} {arguments}}}"
        );
        let reply = run(&mut self.client, &self.db, &command);
        if !is_ok(&reply) {
            return Err(reply);
        }
        let cursor = reply.get("cursor").as_doc().unwrap();
        let Value::Int64(id) = cursor.get("id") else { panic!("{reply:?}") };
        let token = cursor.get("postBatchResumeToken").as_doc().unwrap().to_buf();
        assert!(text(&token) >= text(&self.token), "tokens only grow");
        (self.id, self.token) = (id, token);
        let batch = cursor.get("nextBatch").as_array().unwrap();
        Ok(batch.iter().map(|event| event.as_doc().unwrap().to_buf()).collect())
    }

    /// All events that there are.
    pub(crate) fn all(&mut self) -> Vec<DocBuf> {
        let mut all = Vec::new();
        while self.id != 0 {
            let batch = self.more("").unwrap();
            if batch.is_empty() {
                break;
            }
            all.extend(batch);
        }
        all
    }
}

fn text(token: &DocBuf) -> String {
    token.get("_data").as_str().unwrap().to_owned()
}

pub(crate) fn token_of(event: &DocBuf) -> DocBuf {
    event.get("_id").as_doc().unwrap().to_buf()
}

/// An event without the fields that differ in every run.
pub(crate) fn short(event: &DocBuf) -> String {
    let varying = |name: &str| {
        matches!(name, "_id" | "clusterTime" | "wallTime" | "collectionUUID" | "lsid" | "txnNumber")
    };
    let mut bytes = Vec::new();
    let mut out = DocWriter::new(&mut bytes);
    event.as_doc().iter().filter(|e| !varying(e.name())).for_each(|e| out.put_element(e));
    out.finish();
    Doc::trusted(&bytes).to_string()
}

pub(crate) fn kinds(events: &[DocBuf]) -> Vec<String> {
    events.iter().map(|e| e.get("operationType").as_str().unwrap().to_owned()).collect()
}

fn code(reply: &Result<Stream, DocBuf>) -> i32 {
    match reply {
        Ok(_) => 0,
        Err(reply) => reply.get("code").to_string().parse().unwrap(),
    }
}

/// Changes of all kinds in `test.c`, which is dropped at the end.
pub(crate) fn change(client: &mut Client) {
    for command in [
        "{insert: 'c', documents: [{_id: 1, a: 1, b: {c: [1, 2, 3]}}, {_id: 2}]}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {a: 2, 'b.c.1': 9}}}]}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {$unset: {a: 1}, $push: {'b.c': {$each: [], $slice: 1}}}}]}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {z: 1}}]}",
        "{insert: 'c', documents: [{_id: 3}, {_id: 4}], lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, \
          txnNumber: NumberLong(1), startTransaction: true, autocommit: false}",
        "{delete: 'c', deletes: [{q: {_id: 2}, limit: 1}], lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, \
          txnNumber: NumberLong(1), autocommit: false}",
    ] {
        done(client, "test", command);
    }
    done(
        client,
        "admin",
        "{commitTransaction: 1, lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, txnNumber: NumberLong(1), \
          autocommit: false}",
    );
    for command in [
        "{createIndexes: 'c', indexes: [{key: {x: 1}, name: 'x_1'}, {key: {y: 1}, name: 'y_1'}]}",
        "{dropIndexes: 'c', index: ['x_1', 'y_1']}",
        "{create: 'v', viewOn: 'c', pipeline: []}",
        "{collMod: 'v', viewOn: 'c', pipeline: [{$match: {a: 1}}]}",
        "{collMod: 'c', validationLevel: 'off'}",
        "{insert: 'other', documents: [{_id: 5}]}",
        "{drop: 'c'}",
    ] {
        done(client, "test", command);
    }
}

#[test]
fn a_collection_shows_its_events_and_ends_with_it() {
    let server = member();
    let mut stream = Stream::open(&server, ("test", "c"), "{}", "").unwrap();
    change(&mut Client::new(&server));
    let events = stream.all();
    let shown: Vec<String> = events.iter().map(short).collect();
    let ns = "ns: { db: \"test\", coll: \"c\" }";
    assert_eq!(
        shown,
        [
            format!(
                "{{ operationType: \"insert\", fullDocument: {{ _id: 1, a: 1, b: {{ c: [ 1, 2, 3 ] }} }}, {ns}, \
                 documentKey: {{ _id: 1 }} }}"
            ),
            format!(
                "{{ operationType: \"insert\", fullDocument: {{ _id: 2 }}, {ns}, documentKey: {{ _id: 2 }} }}"
            ),
            format!(
                "{{ operationType: \"update\", {ns}, documentKey: {{ _id: 1 }}, updateDescription: {{ updatedFields: \
                 {{ a: 2, b.c.1: 9 }}, removedFields: [], truncatedArrays: [] }} }}"
            ),
            format!(
                "{{ operationType: \"update\", {ns}, documentKey: {{ _id: 1 }}, updateDescription: {{ updatedFields: \
                 {{}}, removedFields: [ \"a\" ], truncatedArrays: [ {{ field: \"b.c\", newSize: 1 }} ] }} }}"
            ),
            format!(
                "{{ operationType: \"replace\", fullDocument: {{ _id: 1, z: 1 }}, {ns}, documentKey: {{ _id: 1 }} }}"
            ),
            format!(
                "{{ operationType: \"insert\", fullDocument: {{ _id: 3 }}, {ns}, documentKey: {{ _id: 3 }} }}"
            ),
            format!(
                "{{ operationType: \"insert\", fullDocument: {{ _id: 4 }}, {ns}, documentKey: {{ _id: 4 }} }}"
            ),
            format!("{{ operationType: \"delete\", {ns}, documentKey: {{ _id: 2 }} }}"),
            format!("{{ operationType: \"drop\", {ns} }}"),
            "{ operationType: \"invalidate\" }".to_owned(),
        ]
    );
    assert_eq!(stream.id, 0);
    let times: Vec<Value<'_>> = events.iter().map(|event| event.get("clusterTime")).collect();
    assert!(times[5] == times[6] && times[6] == times[7], "a transaction has one time");
    assert!(events[5].get("txnNumber") == Value::Int64(1) && !events[5].get("lsid").is_missing());
    let names: Vec<&str> = events[5].as_doc().iter().map(|e| e.name()).collect();
    let (number, session) =
        (names.iter().position(|n| *n == "txnNumber"), names.iter().position(|n| *n == "lsid"));
    assert!(number.is_some() && number < session, "{names:?}");
    let tokens: Vec<String> = events.iter().map(|event| text(&token_of(event))).collect();
    assert!(tokens.is_sorted() && tokens.windows(2).all(|pair| pair[0] != pair[1]), "{tokens:?}");
}

#[test]
fn databases_and_the_cluster_show_definitions_if_asked() {
    let server = member();
    let plain = "{}";
    let expanded = "{showExpandedEvents: true}";
    let all = "{allChangesForCluster: true, showExpandedEvents: true}";
    let mut database = Stream::open(&server, ("test", ""), plain, "").unwrap();
    let mut detailed = Stream::open(&server, ("test", ""), expanded, "").unwrap();
    let mut cluster = Stream::open(&server, ("admin", ""), all, "").unwrap();
    let mut client = Client::new(&server);
    change(&mut client);
    done(&mut client, "test", "{dropDatabase: 1}");
    done(&mut client, "elsewhere", "{insert: 'd', documents: [{_id: 1}]}");
    done(&mut client, "admin", "{renameCollection: 'elsewhere.d', to: 'elsewhere.e'}");
    let plain = kinds(&database.all());
    let of_c = ["insert", "insert", "update", "update", "replace", "insert", "insert", "delete"];
    assert_eq!(plain[..8], of_c);
    assert_eq!(plain[8..], ["insert", "drop", "drop", "dropDatabase", "invalidate"]);
    let details = detailed.all();
    let kinds_of = kinds(&details);
    assert_eq!(kinds_of[..2], ["create", "insert"]);
    assert_eq!(
        kinds_of[9..],
        [
            "createIndexes",
            "dropIndexes",
            "dropIndexes",
            "create",
            "modify",
            "modify",
            "create",
            "insert",
            "drop",
            "drop",
            "dropDatabase",
            "invalidate"
        ]
    );
    let described = |at: usize| details[at].get("operationDescription").to_string();
    assert_eq!(described(0), "{ idIndex: { v: 2, key: { _id: 1 }, name: \"_id_\" } }");
    let indexes = "{ indexes: [ { v: 2, key: { x: 1 }, name: \"x_1\" }, { v: 2, key: { y: 1 }, name: \"y_1\" } ] }";
    assert_eq!(described(9), indexes);
    assert_eq!(described(10), "{ indexes: [ { v: 2, key: { x: 1 }, name: \"x_1\" } ] }");
    assert_eq!(described(11), "{ indexes: [ { v: 2, key: { y: 1 }, name: \"y_1\" } ] }");
    assert_eq!(described(12), "{ viewOn: \"c\", pipeline: [] }");
    assert_eq!(described(13), "{ viewOn: \"c\", pipeline: [ { $match: { a: 1 } } ] }");
    assert_eq!(described(14), "{ validationLevel: \"off\" }");
    let types: Vec<String> = details.iter().map(|e| e.get("nsType").to_string()).collect();
    for (at, (kind, named)) in kinds_of.iter().zip(&types).enumerate() {
        let expected = match (kind.as_str(), at) {
            ("create", 12) => "\"view\"",
            ("create", _) => "\"collection\"",
            _ => "MISSING",
        };
        assert_eq!(named, expected, "{at}");
    }
    let update = details[3].get("updateDescription").as_doc().unwrap();
    assert_eq!(update.get("disambiguatedPaths").to_string(), "{ b.c.1: [ \"b\", \"c\", 1 ] }");
    assert!(details[1..9].iter().all(|event| !event.get("collectionUUID").is_missing()));
    let cluster_kinds = kinds(&cluster.all());
    assert_eq!(cluster_kinds[..kinds_of.len() - 1], kinds_of[..kinds_of.len() - 1]);
    assert_eq!(cluster_kinds[kinds_of.len() - 1..], ["create", "insert", "rename"]);
    assert_ne!(cluster.id, 0);
}

/// The capped copy replaces the collection, whose streams therefore end.
#[test]
fn a_conversion_to_capped_is_a_rename_over_the_collection() {
    let server = member();
    let mut client = Client::new(&server);
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 1}]}");
    let expanded = "{showExpandedEvents: true}";
    let mut database = Stream::open(&server, ("test", ""), expanded, "").unwrap();
    let mut collection = Stream::open(&server, ("test", "c"), expanded, "").unwrap();
    done(&mut client, "test", "{convertToCapped: 'c', size: 4096}");
    let events = database.all();
    assert_eq!(kinds(&events), ["create", "insert", "rename"]);
    let described = events[2].get("operationDescription").as_doc().unwrap();
    assert_eq!(described.get("to").to_string(), "{ db: \"test\", coll: \"c\" }");
    assert!(matches!(described.get("dropTarget"), Value::Binary(_)), "{described}");
    assert_eq!(kinds(&collection.all()), ["rename", "invalidate"]);
}

#[test]
fn time_series_are_not_watched() {
    let server = member();
    let expanded = "{showExpandedEvents: true}";
    let system = "{showExpandedEvents: true, showSystemEvents: true}";
    let mut database = Stream::open(&server, ("test", ""), expanded, "").unwrap();
    let mut internal = Stream::open(&server, ("test", ""), system, "").unwrap();
    let mut before = Stream::open(&server, ("test", "m"), expanded, "").unwrap();
    let mut client = Client::new(&server);
    done(&mut client, "test", "{create: 'm', timeseries: {timeField: 't'}}");
    done(
        &mut client,
        "test",
        "{insert: 'm', documents: [{t: ISODate('2026-01-01T00:00:00Z'), a: 1}]}",
    );
    let of = |events: &[DocBuf]| -> Vec<String> {
        let shown = |event: &DocBuf| {
            let named = |name: &str| event.get(name).as_str().unwrap_or("-").to_owned();
            let ns = event.get("ns").as_doc().unwrap().get("coll").to_string();
            format!("{} {ns} {}", named("operationType"), named("nsType"))
        };
        events.iter().map(shown).collect()
    };
    assert_eq!(of(&database.all()), ["create \"m\" timeseries"]);
    let mut internal = of(&internal.all());
    internal.sort_unstable();
    assert_eq!(
        internal,
        [
            "create \"m\" timeseries",
            "create \"system.buckets.m\" collection",
            "create \"system.views\" collection",
            "insert \"system.buckets.m\" -"
        ]
    );
    assert!(before.all().is_empty());
    let refused = Stream::open(&server, ("test", "m"), "{}", "").err().unwrap();
    assert_eq!(refused.get("code"), Value::Int32(166));
    let text = "Namespace test.m is a timeseries collection";
    assert_eq!(refused.get("errmsg").as_str(), Some(text));
    let buckets = ("test", "system.buckets.m");
    assert_eq!(code(&Stream::open(&server, buckets, "{}", "")), 73);
}

#[test]
fn a_stream_resumes_behind_every_event() {
    let server = member();
    let places = [("test", "c", "{"), ("test", "", "{showExpandedEvents: true, ")];
    let mut streams: Vec<Stream> = Vec::new();
    for (db, collection, options) in places {
        streams.push(Stream::open(&server, (db, collection), &format!("{options}}}"), "").unwrap());
    }
    change(&mut Client::new(&server));
    for (stream, (db, collection, options)) in streams.iter_mut().zip(places) {
        let begin = stream.token.clone();
        let events = stream.all();
        let again = |how: &str| {
            let options = format!("{options}{how}}}");
            Stream::open(&server, (db, collection), &options, "").map(|mut stream| stream.all())
        };
        assert!(again(&format!("resumeAfter: {}", begin.as_doc())).unwrap() == events);
        for (at, event) in events.iter().enumerate() {
            let token = token_of(event);
            let rest = again(&format!("startAfter: {}", token.as_doc())).unwrap();
            assert!(rest == events[at + 1..], "{at}: {rest:?}");
            let is_last = kinds(&events)[at] == "invalidate";
            match again(&format!("resumeAfter: {}", token.as_doc())) {
                Ok(rest) => assert!(!is_last && rest == events[at + 1..], "{at}"),
                Err(reply) => {
                    assert!(is_last && reply.get("code") == Value::Int32(260), "{reply:?}")
                }
            }
            let time = event.get("clusterTime");
            let from = events.iter().position(|other| other.get("clusterTime") == time).unwrap();
            let rest = again(&format!("startAtOperationTime: {time}")).unwrap();
            assert!(rest == events[from..], "{at}");
        }
    }
}

#[test]
fn batches_have_tokens_from_which_they_continue() {
    let server = member();
    let mut client = Client::new(&server);
    let filter = ", {$match: {'fullDocument.a': 1}}, {$set: {added: '$documentKey._id'}}";
    let mut stream = Stream::open(&server, ("test", "c"), "{}", filter).unwrap();
    let first = stream.token.clone();
    let docs: Vec<String> = (0..40).map(|n| format!("{{_id: {n}, a: {}}}", n % 2)).collect();
    done(&mut client, "test", &format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")));
    let (mut tokens, mut found) = (vec![first], Vec::new());
    for _ in 0..30 {
        let batch = stream.more(", batchSize: 3").unwrap();
        if let Some(last) = batch.last()
            && batch.len() == 3
        {
            assert!(token_of(last) == stream.token);
        }
        found.extend(batch);
        tokens.push(stream.token.clone());
    }
    assert_eq!(found.len(), 20);
    assert!(found.iter().all(|event| !event.get("added").is_missing()));
    for token in tokens {
        let options = format!("{{resumeAfter: {}}}", token.as_doc());
        let rest = Stream::open(&server, ("test", "c"), &options, filter).unwrap().all();
        let seen = found.iter().filter(|event| text(&token_of(event)) <= text(&token)).count();
        assert!(rest == found[seen..], "{token:?}");
    }
    // Without events of its own, its token follows the log.
    let before = text(&stream.token);
    done(&mut client, "test", "{insert: 'other', documents: [{_id: 1}]}");
    assert!(stream.more("").unwrap().is_empty() && text(&stream.token) > before);
}

#[test]
fn documents_before_and_after_a_change() {
    let server = member();
    let mut client = Client::new(&server);
    done(&mut client, "test", "{create: 'p', changeStreamPreAndPostImages: {enabled: true}}");
    let both = "{fullDocument: 'required', fullDocumentBeforeChange: 'required'}";
    let maybe = "{fullDocument: 'whenAvailable', fullDocumentBeforeChange: 'whenAvailable'}";
    let newest = "{fullDocument: 'updateLookup'}";
    let mut images = Stream::open(&server, ("test", "p"), both, "").unwrap();
    let mut optional = Stream::open(&server, ("test", "q"), maybe, "").unwrap();
    let mut required = Stream::open(&server, ("test", "q"), both, "").unwrap();
    let mut lookup = Stream::open(&server, ("test", "p"), newest, "").unwrap();
    for name in ["p", "q"] {
        for command in [
            "{insert: '@', documents: [{_id: 1, a: [1, 2], s: 'a long text that is in no difference'}]}",
            "{update: '@', updates: [{q: {_id: 1}, u: {$set: {'a.0': 7}}}]}",
            "{update: '@', updates: [{q: {_id: 1}, u: {$set: {b: 8}}}]}",
            "{update: '@', updates: [{q: {_id: 1}, u: {q: 1}}]}",
        ] {
            done(&mut client, "test", &command.replace('@', name));
        }
    }
    let looked_up = lookup.all();
    let full: Vec<String> = looked_up.iter().map(|e| e.get("fullDocument").to_string()).collect();
    assert_eq!(full[1..], ["{ _id: 1, q: 1 }", "{ _id: 1, q: 1 }", "{ _id: 1, q: 1 }"]);
    done(&mut client, "test", "{delete: 'p', deletes: [{q: {}, limit: 0}]}");
    let events = images.all();
    let pairs: Vec<(String, String)> = events
        .iter()
        .map(|event| {
            let of = |name: &str| {
                event.get(name).as_doc().map_or("-".to_owned(), |doc| {
                    doc.iter()
                        .filter(|e| e.name() != "s")
                        .map(|e| format!("{}={} ", e.name(), e.value()))
                        .collect()
                })
            };
            (of("fullDocumentBeforeChange"), of("fullDocument"))
        })
        .collect();
    let states = ["_id=1 a=[ 1, 2 ] ", "_id=1 a=[ 7, 2 ] ", "_id=1 a=[ 7, 2 ] b=8 ", "_id=1 q=1 "];
    let state = |at: usize| states[at].to_owned();
    let expected: Vec<(String, String)> = (0..5)
        .map(|at| match at {
            0 => ("-".to_owned(), state(0)),
            4 => (state(3), "-".to_owned()),
            at => (state(at - 1), state(at)),
        })
        .collect();
    assert_eq!(pairs, expected);
    let without = optional.all();
    assert!(
        without[1].get("fullDocument").is_nullish() && !without[1].get("fullDocument").is_missing()
    );
    assert!(without[1].get("fullDocumentBeforeChange") == Value::Null);
    assert!(without[0].element_count() < without[1].element_count() + 1);
    let refused = loop {
        match required.more(", batchSize: 1") {
            Ok(batch) => assert_eq!(kinds(&batch), ["insert"]),
            Err(reply) => break reply,
        }
    };
    assert_eq!(refused.get("code"), Value::Int32(47));
    expire(&server, &token_of(&events[0]));
}

/// Pre-images expire, although the log has them still. Behind `token` there are four changes.
fn expire(server: &Arc<Server>, token: &DocBuf) {
    let mut client = Client::new(server);
    let expire =
        "{setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 1}}}}";
    done(&mut client, "admin", expire);
    let from =
        format!("{{fullDocumentBeforeChange: 'whenAvailable', startAfter: {}}}", token.as_doc());
    let expired = || {
        let later = Stream::open(server, ("test", "p"), &from, "").unwrap().all();
        assert_eq!(later.len(), 4);
        later.iter().all(|event| event.get("fullDocumentBeforeChange") == Value::Null)
    };
    let mut idle = Stream::open(server, ("test", "idle"), "{}", "").unwrap();
    // Each round waits for 100 ms.
    assert!((0..100).any(|_| expired() || !idle.wait(100).is_empty()));
}

#[test]
fn refusals() {
    let server = member();
    let mut client = Client::new(&server);
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 1}]}");
    done(&mut client, "test", "{create: 'v', viewOn: 'c', pipeline: []}");
    let mut stream = Stream::open(&server, ("test", "c"), "{}", "").unwrap();
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 2}]}");
    let event = stream.all().remove(0);
    let token = token_of(&event);
    let token = token.as_doc();
    let open = |at: (&str, &str), options: &str, rest: &str| {
        code(&Stream::open(&server, at, options, rest))
    };
    let c = ("test", "c");
    for (at, options, rest, expected) in [
        (c, "1", "", 50808),
        (c, "{unknown: 1}", "", 40415),
        (c, "{fullDocument: 1}", "", 14),
        (c, "{fullDocument: 'x'}", "", 2),
        (c, "{fullDocumentBeforeChange: 'x'}", "", 2),
        (c, "{resumeAfter: 1}", "", 14),
        (c, "{resumeAfter: {}}", "", 40647),
        (c, "{resumeAfter: {_data: 'zz'}}", "", 9),
        (c, "{resumeAfter: {_data: ''}}", "", 40649),
        (c, "{resumeAfter: {_data: '82'}}", "", 50811),
        (c, "{startAtOperationTime: 1}", "", 14),
        (c, "{allChangesForCluster: true}", "", 72),
        (("admin", ""), "{}", "", 73),
        (("admin", "c"), "{}", "", 73),
        (("local", ""), "{}", "", 73),
        (("config", "c"), "{}", "", 73),
        (("test", "system.js"), "{}", "", 73),
        (("test", "v"), "{}", "", 166),
        (c, "{}", ", {$group: {_id: 1}}", 20),
        (c, "{}", ", {$sort: {a: 1}}", 20),
        (c, "{}", ", {$lookup: {from: 'c', pipeline: [], as: 'x'}}", 20),
        (c, "{}", ", {$changeStreamSplitLargeEvent: {}}, {$match: {}}", 7_182_802),
        (c, "{}", ", {$changeStreamSplitLargeEvent: {a: 1}}", 7_182_800),
        (c, "{}", ", {$match: {}}, {$changeStream: {}}", 40602),
    ] {
        assert_eq!(open(at, options, rest), expected, "{at:?} {options} {rest}");
    }
    let both = format!("{{resumeAfter: {token}, startAfter: {token}}}");
    assert_eq!(open(c, &both, ""), 50865);
    let both = format!("{{resumeAfter: {token}, startAtOperationTime: Timestamp(1, 1)}}");
    assert_eq!(open(c, &both, ""), 40674);
    for (pipeline, expected) in [
        ("[{$match: {}}, {$changeStream: {}}]", 40602),
        ("[{$facet: {a: [{$changeStream: {}}]}}]", 40600),
        ("[{$lookup: {from: 'c', pipeline: [{$changeStream: {}}], as: 'x'}}]", 51047),
        ("[{$unionWith: {coll: 'c', pipeline: [{$changeStream: {}}]}}]", 31441),
        ("[{$changeStreamSplitLargeEvent: {}}]", 20),
    ] {
        let reply =
            client.shell(&format!("{{aggregate: 'c', pipeline: {pipeline}, cursor: {{}}}}"));
        assert_eq!(reply.get("code"), Value::Int32(expected), "{pipeline}");
    }
    let local = "{aggregate: 'c', pipeline: [{$changeStream: {}}], cursor: {}, readConcern: {level: 'local'}}";
    assert_eq!(client.shell(local).get("code"), Value::Int32(72));
    // The token of another stream.
    done(&mut client, "test", "{insert: 'd', documents: [{_id: 2}]}");
    let mut other =
        Stream::open(&server, ("test", "d"), &format!("{{resumeAfter: {token}}}"), "").unwrap();
    let refused = other.more("").unwrap_err();
    assert_eq!(refused.get("code"), Value::Int32(280));
    assert!(refused.get("errorLabels").to_string().contains("NonResumableChangeStreamError"));
    // A pipeline that changes tokens.
    let mut changed = Stream::open(&server, c, "{}", ", {$project: {_id: 0}}").unwrap();
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 3}]}");
    assert_eq!(changed.more("").unwrap_err().get("code"), Value::Int32(280));
    let alone = self::server();
    assert_eq!(code(&Stream::open(&alone, c, "{}", "")), 40573);
}

#[test]
fn large_events_are_split_if_asked() {
    let server = member();
    let mut client = Client::new(&server);
    done(&mut client, "test", "{create: 'p', changeStreamPreAndPostImages: {enabled: true}}");
    let options = "{fullDocument: 'required', fullDocumentBeforeChange: 'required' @}";
    let (whole, split) = (options.replace('@', ""), ", {$changeStreamSplitLargeEvent: {}}");
    let mut large = Stream::open(&server, ("test", "p"), &whole, "").unwrap();
    let mut stream = Stream::open(&server, ("test", "p"), &whole, split).unwrap();
    let filler = "x".repeat(9 << 20);
    done(&mut client, "test", &format!("{{insert: 'p', documents: [{{_id: 1, s: '{filler}'}}]}}"));
    done(&mut client, "test", "{update: 'p', updates: [{q: {_id: 1}, u: {$set: {a: 1}}}]}");
    done(&mut client, "test", "{insert: 'p', documents: [{_id: 2}]}");
    assert_eq!(kinds(&large.more(", batchSize: 1").unwrap()), ["insert"]);
    assert_eq!(large.more("").unwrap_err().get("code"), Value::Int32(10334));
    let events = stream.all();
    let parts: Vec<String> = events.iter().map(|e| e.get("splitEvent").to_string()).collect();
    assert_eq!(parts.len(), 4, "{parts:?}");
    assert_eq!(parts[1..3], ["{ fragment: 1, of: 2 }", "{ fragment: 2, of: 2 }"]);
    assert!(events[1].element_count() + events[2].element_count() > 10);
    let after = format!(", resumeAfter: {}", token_of(&events[1]).as_doc());
    let resumed = options.replace('@', &after);
    let rest = Stream::open(&server, ("test", "p"), &resumed, split).unwrap().all();
    assert!(rest == events[2..], "{}", rest.len());
    // Behind the last fragment the next event follows.
    for start in ["resumeAfter", "startAfter"] {
        let behind = format!(", {start}: {}", token_of(&events[2]).as_doc());
        let behind = options.replace('@', &behind);
        let rest = Stream::open(&server, ("test", "p"), &behind, split).unwrap().all();
        assert!(rest == events[3..], "{}", rest.len());
    }
    // Without its document before the change, the event is no longer split.
    let second = format!(", resumeAfter: {}", token_of(&events[2]).as_doc());
    let options = format!("{{fullDocument: 'required' {second}}}");
    let refused = Stream::open(&server, ("test", "p"), &options, split).unwrap().more("");
    assert_eq!(refused.unwrap_err().get("code"), Value::Int32(280));
    // The fragment that was delivered is of another event than the first that passes.
    let others = ", {$match: {'documentKey._id': 2}}, {$changeStreamSplitLargeEvent: {}}";
    let rest = Stream::open(&server, ("test", "p"), &resumed, others).unwrap().all();
    assert_eq!(kinds(&rest), ["insert"]);
    assert_eq!(code(&Stream::open(&server, ("test", "p"), &resumed, "")), 280);
}

#[test]
fn what_differs_from_other_pipelines() {
    let server = member();
    let mut client = Client::new(&server);
    done(&mut client, "test", "{create: 'c', collation: {locale: 'en', strength: 2}}");
    let upper = ", {$match: {'fullDocument.a': 'X'}}";
    let nulls = "{resumeAfter: null, fullDocument: null, startAtOperationTime: null}";
    // The collation of a collection is not that of its streams.
    let mut stream = Stream::open(&server, ("test", "c"), nulls, upper).unwrap();
    done(&mut client, "test", "{insert: 'c', documents: [{a: 'x'}, {a: 'X'}]}");
    let found = stream.all();
    assert_eq!(found.len(), 1);
    // The event that ends a stream does not pass its filter, but it ends, with a token of its own.
    done(&mut client, "test", "{drop: 'c'}");
    while stream.id != 0 {
        assert!(stream.more("").unwrap().is_empty());
    }
    let token = stream.token.as_doc();
    let again =
        |how: &str| Stream::open(&server, ("test", "c"), &format!("{{{how}: {token}}}"), "");
    assert_eq!(code(&again("resumeAfter")), 260);
    let mut next = again("startAfter").unwrap();
    done(&mut client, "test", "{insert: 'c', documents: [{a: 'x'}]}");
    assert_eq!(kinds(&next.all()), ["insert"]);
    let raw = "{showRawUpdateDescription: true}";
    let mut stream = Stream::open(&server, ("test", "c"), raw, "").unwrap();
    done(&mut client, "test", "{update: 'c', updates: [{q: {}, u: {$set: {a: 'y'}}}]}");
    let update = stream.all().remove(0);
    let raw = update.get("rawUpdateDescription").to_string();
    assert_eq!(raw, "{ $v: 2, diff: { u: { a: \"y\" } } }");
}

#[test]
fn transactions_larger_than_a_document_have_one_time() {
    let server = member();
    let mut client = Client::new(&server);
    done(&mut client, "test", "{create: 'c'}");
    let mut stream = Stream::open(&server, ("test", "c"), "{}", "").unwrap();
    let session = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, \
                   txnNumber: NumberLong(1), autocommit: false";
    let filler = "x".repeat(1 << 20);
    for n in 0..40 {
        let start = if n == 0 { ", startTransaction: true" } else { "" };
        let insert =
            format!("{{insert: 'c', documents: [{{_id: {n}, s: '{filler}'}}], {session}{start}}}");
        done(&mut client, "test", &insert);
    }
    done(&mut client, "admin", &format!("{{commitTransaction: 1, {session}}}"));
    let logged = "{count: 'oplog.rs', query: {'o.applyOps': {$exists: true}}}";
    assert_eq!(run(&mut client, "local", logged).get("n"), Value::Int32(3));
    let mut events = Vec::new();
    while events.len() < 40 {
        events.extend(stream.more(", batchSize: 3").unwrap());
    }
    assert!(stream.all().is_empty());
    let times: Vec<Value<'_>> = events.iter().map(|event| event.get("clusterTime")).collect();
    assert!(times.iter().all(|time| *time == times[0]));
    for at in [0, 13, 14, 15, 28, 29, 30, 39] {
        let options = format!("{{resumeAfter: {}}}", token_of(&events[at]).as_doc());
        let rest = Stream::open(&server, ("test", "c"), &options, "").unwrap().all();
        assert!(rest == events[at + 1..], "{at}");
    }
    let options = format!("{{startAtOperationTime: {}}}", times[0]);
    assert!(Stream::open(&server, ("test", "c"), &options, "").unwrap().all() == events);
}

#[test]
fn a_stream_is_woken_by_changes_in_its_scope_only() {
    let server = member();
    let mut stream = Stream::open(&server, ("test", "c"), "{}", "").unwrap();
    let mut writer = Client::new(&server);
    done(&mut writer, "test", "{insert: 'c', documents: [{_id: 0}]}");
    assert_eq!(stream.all().len(), 1);
    for n in 1..20 {
        std::thread::scope(|scope| {
            let (id, collection) = (stream.id, stream.collection.clone());
            let client = &mut stream.client;
            let waits = scope.spawn(move || {
                // It would wait for a minute.
                let more = format!(
                    "{{getMore: NumberLong({id}), collection: '{collection}', maxTimeMS: 60000}}"
                );
                run(client, "test", &more)
            });
            done(&mut writer, "test", &format!("{{insert: 'other', documents: [{{_id: {n}}}]}}"));
            done(&mut writer, "test", &format!("{{insert: 'c', documents: [{{_id: {n}}}]}}"));
            let reply = waits.join().unwrap();
            let batch = reply.get("cursor").as_doc().unwrap().get("nextBatch").as_array().unwrap();
            assert_eq!(batch.count(), 1);
            let event = batch.iter().next().unwrap().as_doc().unwrap();
            assert_eq!(event.get("documentKey").as_doc().unwrap().get("_id"), Value::Int32(n));
        });
    }
}

trait ElementCount {
    fn element_count(&self) -> usize;
}

impl ElementCount for DocBuf {
    fn element_count(&self) -> usize {
        self.as_doc().count()
    }
}

#[test]
fn a_run_without_the_set_ends_the_log() {
    let engine = Arc::new(nagi_kv::Memory::new());
    let server = crate::client::server_on(engine.clone(), Some("rs"));
    let mut client = Client::new(&server);
    done(&mut client, "admin", "{replSetInitiate: 1}");
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 1}]}");
    let token = Stream::open(&server, ("test", "c"), "{}", "").unwrap().token;
    drop((client, server));
    // Nothing was missed so far.
    let server = crate::client::server_on(engine.clone(), Some("rs"));
    let resume = format!("{{resumeAfter: {}}}", token.as_doc());
    let token = Stream::open(&server, ("test", "c"), &resume, "").unwrap().token;
    drop(server);
    let server = crate::client::server_on(engine.clone(), None);
    let mut client = Client::new(&server);
    done(&mut client, "test", "{insert: 'c', documents: [{_id: 2}]}");
    drop((client, server));
    for _ in 0..2 {
        let server = crate::client::server_on(engine.clone(), Some("rs"));
        let resume = format!("{{resumeAfter: {}}}", token.as_doc());
        // The error comes with the first request for events.
        let mut lost = Stream::open(&server, ("test", "c"), &resume, "").unwrap();
        let refused = lost.more("").unwrap_err();
        assert_eq!(refused.get("code"), Value::Int32(286));
        assert!(refused.get("errorLabels").to_string().contains("NonResumableChangeStreamError"));
        let mut client = Client::new(&server);
        let at_once =
            format!("{{aggregate: 'c', pipeline: [{{$changeStream: {resume}}}], cursor: {{}}}}");
        let refused = run(&mut client, "test", &at_once);
        assert_eq!(refused.get("code"), Value::Int32(286), "{refused:?}");
        let log = run(&mut client, "local", "{find: 'oplog.rs'}");
        assert!(log.as_doc().to_string().contains("new primary"), "{log:?}");
        let count = run(&mut client, "local", "{count: 'oplog.rs'}");
        let found = log.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
        assert_eq!(count.get("n"), Value::Int32(i32::try_from(found.iter().count()).unwrap()));
        assert!(Stream::open(&server, ("test", "c"), "{}", "").is_ok());
    }
}
