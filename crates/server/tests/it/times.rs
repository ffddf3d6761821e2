//! Guarantees of `operationTime` and `atClusterTime`: each write has a time of its own, whichever command made
//! it, and a snapshot contains exactly the writes up to its time.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use nagi_bson::{Doc, DocBuf, Value, doc, json};
use nagi_server::Server;

use crate::client::{Client, is_ok, member};

fn parse(text: &str) -> DocBuf {
    json::parse(text).unwrap()
}

fn time(reply: &DocBuf) -> u64 {
    match reply.get("operationTime") {
        Value::Timestamp(time) => time,
        other => panic!("no time but {other} in {reply:?}"),
    }
}

fn run(client: &mut Client, command: &str) -> DocBuf {
    let reply = client.run("test", parse(command).as_doc());
    assert!(is_ok(&reply), "{command}: {reply:?}");
    reply
}

/// The cluster time that a read returns.
fn now(client: &mut Client) -> u64 {
    time(&run(client, "{ping: 1}"))
}

#[test]
fn whatever_writes_advances_the_time() {
    let server = member();
    let mut client = Client::new(&server);
    run(&mut client, "{insert: 'c', documents: [{_id: 1, a: 1}, {_id: 2, a: 2}]}");
    let writes = [
        "{insert: 'c', documents: [{_id: 3}]}",
        "{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {a: 1}}}]}",
        "{findAndModify: 'c', query: {_id: 2}, update: {$inc: {a: 1}}}",
        "{delete: 'c', deletes: [{q: {_id: 3}, limit: 1}]}",
        "{aggregate: 'c', pipeline: [{$out: 'out'}], cursor: {}}",
        "{aggregate: 'c', pipeline: [{$merge: 'merged'}], cursor: {}}",
        "{aggregate: 'c', pipeline: [{$set: {b: 1}}, {$merge: {into: 'merged'}}], cursor: {}}",
        "{aggregate: 'c', pipeline: [{$merge: {into: 'merged', whenMatched: 'replace'}}], cursor: {}, \
         writeConcern: {w: 1}}",
        "{create: 'd'}",
    ];
    for write in writes {
        let before = now(&mut client);
        let own = time(&run(&mut client, write));
        assert!(own > before, "{write}: {own} after {before}");
        assert_eq!(now(&mut client), own, "{write}: its own time is the newest");
    }
    let reads = [
        "{find: 'c'}",
        "{aggregate: 'c', pipeline: [], cursor: {}}",
        "{update: 'c', updates: [{q: {_id: 'none'}, u: {$inc: {a: 1}}}]}",
        "{delete: 'c', deletes: [{q: {_id: 'none'}, limit: 1}]}",
    ];
    for read in reads {
        let before = now(&mut client);
        assert_eq!(time(&run(&mut client, read)), before, "{read}");
    }
    // Dropped data is removed after the reply, and that removal has a time of its own.
    let changes = [
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}",
        "{collMod: 'c', index: {name: 'a', hidden: true}}",
        "{dropIndexes: 'c', index: 'a'}",
        "{drop: 'd'}",
        "{mapReduce: 'c', map: 'function() { emit(1, 1) }', reduce: 'function() { return 1 }', out: 'reduced'}",
    ];
    for change in changes {
        let before = now(&mut client);
        let own = time(&run(&mut client, change));
        assert!(own > before, "{change}: {own} after {before}");
        assert!(now(&mut client) >= own, "{change}: its own time is past");
    }
}

#[test]
fn a_transaction_has_the_time_of_its_commit() {
    let server = member();
    let mut client = Client::new(&server);
    run(&mut client, "{create: 'c'}");
    let session = "lsid: {id: {$uuid: '11111111-1111-4111-8111-111111111111'}}, \
                   txnNumber: {$numberLong: '1'}, autocommit: false";
    let before = now(&mut client);
    run(
        &mut client,
        &format!("{{insert: 'c', documents: [{{_id: 1}}], startTransaction: true, {session}}}"),
    );
    assert_eq!(now(&mut client), before, "nothing is committed yet");
    let commit = format!("{{commitTransaction: 1, {session}}}");
    let reply = client.run("admin", parse(&commit).as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    assert!(time(&reply) > before, "{reply:?}");
}

const WRITERS: i64 = 3;

/// Inserts until `over` is set. Returns each document's number and the time of its reply.
/// A transaction at a time has the state of that time, or is refused: it must not see what was committed since.
#[test]
fn a_transaction_at_a_time_sees_no_later_commit() {
    let server = member();
    let mut client = Client::new(&server);
    let read = |client: &mut Client, number: i32, time: u64| {
        let time = format!("{{$timestamp: {{t: {}, i: {}}}}}", time >> 32, time & 0xFFFF_FFFF);
        let command = format!(
            "{{find: 'c', lsid: {{id: {{$uuid: '11111111-1111-4111-8111-111111111111'}}}}, \
              txnNumber: {{$numberLong: '{number}'}}, autocommit: false, startTransaction: true, \
              readConcern: {{level: 'snapshot', atClusterTime: {time}}}}}"
        );
        client.run("test", parse(&command).as_doc())
    };
    let first = time(&run(&mut client, "{insert: 'c', documents: [{_id: 1}]}"));
    let same = read(&mut client, 1, first);
    assert!(is_ok(&same), "{same:?}");
    run(&mut client, "{insert: 'c', documents: [{_id: 2}]}");
    assert_eq!(read(&mut client, 2, first).get("code"), Value::Int32(239));
    assert_eq!(read(&mut client, 3, first + (60 << 32)).get("code"), Value::Int32(72));
}

fn insert_all(server: &Arc<Server>, writer: i64, over: &AtomicBool) -> Vec<(i64, u64)> {
    let mut client = Client::new(server);
    let mut done = Vec::new();
    while !over.load(SeqCst) {
        let id = done.len() as i64 * WRITERS + writer;
        let insert = doc! { "insert": "c", "documents": [(&doc! { "_id": id })] };
        let reply = client.run("test", insert.as_doc());
        assert!(is_ok(&reply), "{reply:?}");
        done.push((id, time(&reply)));
    }
    done
}

/// Reads the newest documents in one snapshot. Returns the time of the snapshot and the `_id`s.
fn look(client: &mut Client) -> (u64, Vec<i64>) {
    let find = "{find: 'c', sort: {$natural: -1}, limit: 40, batchSize: 40, singleBatch: true, \
                projection: {_id: 1}, readConcern: {level: 'snapshot'}}";
    let reply = run(client, find);
    let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
    let Value::Timestamp(time) = cursor.get("atClusterTime") else {
        panic!("no time in {reply:?}");
    };
    let batch = cursor.get("firstBatch").as_array().unwrap();
    let id = |doc: Value<'_>| nagi_bson::number::truncate_to_i64(doc.as_doc()?.get("_id"));
    (time, batch.iter().filter_map(id).collect())
}

/// A snapshot contains each write that was acknowledged with a time not greater than the snapshot's. The
/// writers number their documents consecutively, so a snapshot with one document of a writer contains all its
/// earlier ones.
#[test]
fn a_state_has_every_write_of_a_smaller_time() {
    let server = member();
    run(&mut Client::new(&server), "{create: 'c'}");
    let over = AtomicBool::new(false);
    let (written, seen) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (server, over) = (&server, &over);
                scope.spawn(move || insert_all(server, writer, over))
            })
            .collect();
        let mut client = Client::new(&server);
        let seen: Vec<_> = (0..1500).map(|_| look(&mut client)).collect();
        over.store(true, SeqCst);
        let written: Vec<_> = writers.into_iter().map(|w| w.join().unwrap()).collect();
        (written, seen)
    });
    for (at, ids) in seen {
        for (writer, done) in written.iter().enumerate() {
            let own = ids.iter().filter(|id| **id % WRITERS == writer as i64).max();
            let newest = own.map_or(-1, |id| id / WRITERS);
            let due = done.partition_point(|(_, time)| *time <= at) as i64 - 1;
            // Only the newest 40 documents are read, so a slow writer may have none among them.
            assert!(
                newest >= due || ids.len() == 40 && own.is_none(),
                "the state of {at} lacks document {due} of writer {writer}, it has {newest}"
            );
        }
    }
}
