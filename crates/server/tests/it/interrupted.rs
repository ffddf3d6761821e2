//! Interrupt checks: each command that can take long checks at least every 64 documents or keys whether it was
//! killed, and leaves no partial changes behind. The tests use no clock: the fail point `checkForInterruptFail`
//! lets n checks pass and interrupts the operation at the next one.
//!
//! Commands whose cost does not depend on the size of the data are not tested here: `collStats`, `dbStats` and
//! `dataSize` without a range read counters; `drop`, `dropDatabase`, `dropIndexes` and a rename within a
//! database write one catalog entry, and the space is freed after the reply. They are not interrupted, as in
//! MongoDB, and block no other operation.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, doc, json};
use nagi_server::Server;

use crate::client::{Client, is_ok, server};

/// The number of documents in the collection.
const DOCS: i64 = 1280;
/// The largest number of documents or keys between two interrupt checks.
const BETWEEN: i64 = 64;
/// The number of indexes of the collection.
const INDEXES: i64 = 5;
const INTERRUPTED: i32 = 11601;

/// A command, its database, and a lower bound of the documents and keys that it handles.
struct Row {
    db: &'static str,
    command: &'static str,
    handled: i64,
}

const fn row(command: &'static str, handled: i64) -> Row {
    Row { db: "test", command, handled }
}

/// Each command only reads, or fails before its first change, or reverts its changes.
const ROWS: &[Row] = &[
    row(
        "{find: 'c', filter: {$text: {$search: 'common'}}, batchSize: 5000, \
         projection: {x: {$meta: 'textScore'}}, sort: {x: {$meta: 'textScore'}}}",
        2 * DOCS,
    ),
    row("{find: 'c', filter: {$text: {$search: '\"common w7\"'}}}", DOCS),
    row("{find: 'c', filter: {$text: {$search: 'common other -w7'}}, batchSize: 5000}", 2 * DOCS),
    row("{count: 'c', query: {$text: {$search: 'common'}}}", DOCS),
    row("{find: 'c', filter: {at: {$nearSphere: [0, 0]}, k: -1}}", DOCS),
    row("{find: 'c', filter: {flat: {$near: [0, 0]}, k: -1}}", DOCS),
    row(
        "{aggregate: 'c', cursor: {}, pipeline: [{$geoNear: {near: [1, 1], distanceField: 'd', \
         key: 'flat', spherical: false}}, {$match: {k: -1}}]}",
        DOCS,
    ),
    row("{distinct: 'c', key: 's'}", DOCS),
    row("{distinct: 'c', key: 'u'}", DOCS),
    row("{count: 'c', query: {s: 'x'}}", DOCS),
    row("{find: 'c', filter: {$where: 'this.k < 0'}}", DOCS),
    row("{find: 'c', filter: {}, min: {u: 0}, hint: {u: 1}, batchSize: 5000}", DOCS),
    row("{explain: {find: 'c', filter: {s: 'x'}}, verbosity: 'executionStats'}", DOCS),
    row(
        "{mapReduce: 'c', map: 'function() { emit(this.g, 1); }', \
         reduce: 'function(k, v) { return Array.sum(v); }', out: {inline: 1}}",
        DOCS,
    ),
    row("{aggregate: 'c', cursor: {}, pipeline: [{$match: {k: {$gte: 0}}}, {$out: 'o'}]}", DOCS),
    row(
        "{aggregate: 'c', cursor: {}, pipeline: [{$lookup: {from: 'c', localField: 'g', \
         foreignField: 'g', as: 'x'}}, {$limit: 64}, {$project: {n: {$size: '$x'}}}]}",
        64 * (DOCS / 37),
    ),
    row("{validate: 'c'}", (1 + INDEXES) * DOCS),
    row("{validate: 'c', full: true}", (1 + INDEXES) * DOCS),
    row("{dbHash: 1}", DOCS),
    row("{dataSize: 'test.c', keyPattern: {u: 1}, min: {u: 0}, max: {u: 100000}}", DOCS),
    row("{createIndexes: 'c', indexes: [{key: {s: 1}, name: 's_1'}]}", DOCS),
    row("{createIndexes: 'c', indexes: [{key: {'$**': 1}, name: 'all'}]}", DOCS),
    row("{reIndex: 'c'}", DOCS),
    row("{cloneCollectionAsCapped: 'c', toCollection: 'd', size: 10000000}", DOCS),
    row(
        "{aggregate: 'c', cursor: {}, allowDiskUse: true, pipeline: [{$graphLookup: {from: 'c', \
         startWith: '$u', connectFromField: 'g', connectToField: 'u', as: 'x'}}, \
         {$group: {_id: '$x.k', n: {$push: '$$ROOT'}}}, {$out: {db: 'other', coll: 'o'}}]}",
        3 * DOCS,
    ),
    row(
        "{aggregate: 'c', cursor: {}, pipeline: [{$setWindowFields: {sortBy: {k: 1}, output: \
         {n: {$sum: '$u', window: {documents: [-5, 5]}}}}}, {$merge: {into: 'c', on: '_id', \
         whenMatched: 'keepExisting', whenNotMatched: 'insert'}}]}",
        2 * DOCS,
    ),
    row(
        "{explain: {aggregate: 'c', cursor: {}, pipeline: [{$sort: {s: 1}}, {$group: {_id: '$u'}}]}, \
         verbosity: 'executionStats'}",
        2 * DOCS,
    ),
    row("{collMod: 'c', index: {name: 'u_1', unique: true}}", DOCS),
    row("{findAndModify: 'c', query: {s: 'x'}, update: {$set: {k: 1}}}", DOCS),
    row("{update: 'c', updates: [{q: {s: 'x'}, u: {$set: {k: 1}}, multi: true}]}", DOCS),
    row("{delete: 'c', deletes: [{q: {s: 'x'}, limit: 0}]}", DOCS),
    Row { db: "admin", command: "{renameCollection: 'test.c', to: 'other.c'}", handled: DOCS },
];

fn document(n: i64) -> String {
    format!(
        "{{_id: {n}, k: {}, g: {}, u: {n}, s: '{n}', t: 'common other w{n}', at: [{x}, {y}], \
         flat: [{x}, {y}]}}",
        (n * 7919) % 1000,
        n % 37,
        x = n % 90,
        y = n % 70
    )
}

fn filled() -> (Arc<Server>, Client) {
    let server = server();
    let mut client = Client::new(&server);
    let insert = |from: i64| {
        let docs: Vec<String> = (from..from + 128).map(document).collect();
        client.shell(&format!("{{insert: 'c', documents: [{}]}}", docs.join(", ")))
    };
    assert!((0..DOCS / 128).map(|n| n * 128).map(insert).all(|reply| is_ok(&reply)));
    let made = client.shell(
        "{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u_1', prepareUnique: true}, \
         {key: {t: 'text'}, name: 't'}, {key: {at: '2dsphere'}, name: 'at'}, \
         {key: {flat: '2d'}, name: 'flat'}]}",
    );
    assert!(is_ok(&made), "{made:?}");
    (server, client)
}

/// Runs a command that is interrupted after `skip` interrupt checks.
fn stopped(
    admin: &mut Client,
    client: &mut Client,
    db: &str,
    command: &DocBuf,
    skip: i64,
) -> DocBuf {
    let thread = thread_name(client);
    let data = doc! { "threadName": thread.as_str(), "chance": 1.0 };
    let set = DocBuf::build(|out| {
        out.put("configureFailPoint", "checkForInterruptFail");
        out.doc("mode", |out| out.put("skip", skip));
        out.doc("data", |out| out.extend(data.as_doc()));
    });
    assert!(is_ok(&admin.run("admin", set.as_doc())));
    let reply = client.run(db, command.as_doc());
    let off = doc! { "configureFailPoint": "checkForInterruptFail", "mode": "off" };
    assert!(is_ok(&admin.run("admin", off.as_doc())));
    reply
}

/// The name of the client's connection in fail points and in currentOp.
fn thread_name(client: &mut Client) -> String {
    let hello = client.shell("{hello: 1}");
    let Value::Int32(id) = hello.get("connectionId") else { panic!("{hello:?}") };
    format!("conn{id}")
}

/// The code of a reply, of the execution that it explains, or of its first write error.
fn code(reply: &DocBuf) -> i32 {
    let cursor = reply.get("stages").as_array().and_then(|stages| stages.iter().next());
    let cursor = cursor.and_then(|first| first.as_doc()).map(|first| first.get("$cursor"));
    let planned = cursor.and_then(|cursor| cursor.as_doc()).unwrap_or(reply.as_doc());
    let explained = planned.get("executionStats").as_doc().map(|stats| stats.get("errorCode"));
    let own = explained.unwrap_or(reply.get("code"));
    let listed = reply.get("writeErrors").as_array().and_then(|all| all.iter().next());
    let listed = listed.and_then(|first| first.as_doc()).map(|first| first.get("code"));
    match (own, listed) {
        (Value::Int32(code), _) | (_, Some(Value::Int32(code))) => code,
        _ => 0,
    }
}

/// Databases, collections and indexes, without fields that change by themselves.
fn catalog(client: &mut Client) -> String {
    let mut out = String::new();
    for db in ["test", "other"] {
        let list = client.run(db, doc! { "listCollections": 1, "nameOnly": true }.as_doc());
        let names = list.get("cursor").as_doc().unwrap().get("firstBatch");
        out.push_str(&format!("{db}: {names}\n"));
    }
    out + &format!(
        "{:?}\n{:?}",
        client.shell("{listIndexes: 'c'}"),
        client.shell("{dbHash: 1}").get("md5")
    )
}

#[test]
fn commands_look_whether_to_go_on() {
    let (server, mut client) = filled();
    let mut admin = Client::new(&server);
    let before = catalog(&mut admin);
    let mut wrong = Vec::new();
    for Row { db, command, handled } in ROWS {
        let body = json::parse(command).unwrap();
        let looks = handled / BETWEEN - 1;
        for skip in [0, looks / 2, looks - 1] {
            let reply = stopped(&mut admin, &mut client, db, &body, skip);
            if code(&reply) != INTERRUPTED {
                wrong.push(format!("{command}: went on at look {skip}: {reply:?}"));
            }
            let after = catalog(&mut admin);
            if after != before {
                wrong.push(format!("{command}: left something: {before} {after}"));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_interrupted_commands_have_read_is_recorded() {
    let (server, mut client) = filled();
    let mut admin = Client::new(&server);
    assert!(is_ok(&client.shell("{profile: 2}")));
    for command in [
        "{count: 'c', query: {s: 'x'}}",
        "{distinct: 'c', key: 's'}",
        "{find: 'c', filter: {s: 'x'}}",
        "{aggregate: 'c', pipeline: [{$group: {_id: '$s'}}], cursor: {}}",
        "{mapReduce: 'c', map: 'function() { emit(this.g, 1); }', \
         reduce: 'function(k, v) { return Array.sum(v); }', out: {inline: 1}}",
        "{update: 'c', updates: [{q: {s: 'x'}, u: {$set: {y: 1}}, multi: true}]}",
        "{delete: 'c', deletes: [{q: {s: 'x'}, limit: 0}]}",
    ] {
        let skip = DOCS / BETWEEN / 2;
        let reply = stopped(&mut admin, &mut client, "test", &json::parse(command).unwrap(), skip);
        assert_eq!(code(&reply), INTERRUPTED, "{command}: {reply:?}");
        let entries = client.shell(
            "{find: 'system.profile', filter: {errCode: 11601}, sort: {$natural: -1}, limit: 1}",
        );
        let batch = entries.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
        let Some(Value::Doc(entry)) = batch.iter().next() else { panic!("{command}: {entries:?}") };
        let docs = nagi_bson::number::as_i64_exact(entry.get("docsExamined"));
        let some = BETWEEN..=DOCS;
        assert!(docs.is_some_and(|docs| some.contains(&docs)), "{command}: {entry:?}");
    }
}

/// A conversion that is interrupted leaves the collection as it was, and no copy.
#[test]
fn a_conversion_that_was_stopped_changes_nothing() {
    let (server, mut client) = filled();
    let mut admin = Client::new(&server);
    let body = json::parse("{convertToCapped: 'c', size: 8192}").unwrap();
    for skip in [0, 1] {
        let reply = stopped(&mut admin, &mut client, "test", &body, skip);
        assert_eq!(code(&reply), INTERRUPTED, "{skip}: {reply:?}");
        let count = client.shell("{count: 'c'}");
        assert_eq!(count.get("n").to_string(), DOCS.to_string());
        let valid = client.shell("{validate: 'c'}");
        assert_eq!(valid.get("valid"), Value::Bool(true), "{valid:?}");
        let listed = client.shell("{listCollections: 1, nameOnly: true}").as_doc().to_string();
        assert!(!listed.contains("convertToCapped"), "{listed}");
    }
    assert!(is_ok(&client.run("test", body.as_doc())));
    let stats = client.shell("{collStats: 'c'}");
    let bytes = nagi_bson::number::as_i64_exact(stats.get("size"));
    assert!(bytes.is_some_and(|bytes| bytes <= 8192), "{bytes:?}");
}

/// Interrupt checks also happen in the batches of a cursor, and an interrupted cursor is closed.
#[test]
fn batches_look_whether_to_go_on() {
    let (server, mut client) = filled();
    let mut admin = Client::new(&server);
    let open = "{aggregate: 'c', pipeline: [{$match: {k: {$gte: 0}}}, {$set: {z: {$add: ['$k', 1]}}}], \
                cursor: {batchSize: 0}}";
    for skip in [0, DOCS / BETWEEN / 2, DOCS / BETWEEN - 1] {
        let opened = client.shell(open);
        let id = opened.get("cursor").as_doc().map(|cursor| cursor.get("id"));
        let Some(Value::Int64(id)) = id else { panic!("{opened:?}") };
        let next = doc! { "getMore": id, "collection": "c", "batchSize": 5000 };
        let reply = stopped(&mut admin, &mut client, "test", &next, skip);
        assert_eq!(code(&reply), INTERRUPTED, "{skip}: {reply:?}");
        let again = client.run("test", next.as_doc());
        assert_eq!(code(&again), 43, "{again:?}");
    }
}

/// Interrupted writes keep the documents that are already changed; no document is changed in part.
#[test]
fn writes_look_whether_to_go_on() {
    const ALL: i64 = DOCS - 1;
    let (server, mut client) = filled();
    let mut admin = Client::new(&server);
    for (command, seen, range) in [
        (
            "{update: 'c', updates: [{q: {}, u: {$inc: {z: 1}}, multi: true}]}",
            "{count: 'c', query: {z: {$gte: 2}}}",
            0..=ALL,
        ),
        (
            "{aggregate: 'c', cursor: {}, pipeline: [{$set: {z: 5}}, {$merge: 'm'}]}",
            "{count: 'm'}",
            0..=ALL,
        ),
        ("{delete: 'c', deletes: [{q: {}, limit: 0}]}", "{count: 'c'}", 1..=DOCS),
    ] {
        let body = json::parse(command).unwrap();
        for skip in [0, DOCS / BETWEEN / 2] {
            let reply = stopped(&mut admin, &mut client, "test", &body, skip);
            assert_eq!(code(&reply), INTERRUPTED, "{command} at {skip}: {reply:?}");
            let count = client.shell(seen);
            let Value::Int32(n) = count.get("n") else { panic!("{count:?}") };
            assert!(range.contains(&i64::from(n)), "{command}: {n}");
            let valid = client.shell("{validate: 'c'}");
            assert_eq!(valid.get("valid"), Value::Bool(true), "{command}: {valid:?}");
        }
    }
}
