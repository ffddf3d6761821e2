//! A server that is a router: what drivers see of it, and sessions and transactions without an oplog, over an engine
//! that promises as little as a cluster does.

use std::sync::{Arc, Barrier};

use nagi_bson::{DocBuf, Value, json, text::doc_text};
use nagi_kv::{Engine, Faults, Faulty, Minimal, Point};
use nagi_server::ServerBuilder;
use nagi_store::Store;

use crate::client::{Client, is_ok, router, router_config, router_on, router_over};
use crate::login::log_in;
use crate::nodes::member;

const LSID: &str = "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddeeff\")}";
const OTHER: &str = "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddee00\")}";

fn code(reply: &DocBuf) -> i32 {
    match reply.get("code") {
        Value::Int32(code) => code,
        _ => 0,
    }
}

fn admin(client: &mut Client, text: &str) -> DocBuf {
    client.run("admin", json::parse(text).unwrap().as_doc())
}

fn labels(reply: &DocBuf) -> String {
    format!("{}", reply.get("errorLabels"))
}

/// The value of `v` in the document with this `_id`.
fn value(client: &mut Client, id: i32) -> String {
    let reply = client.shell(&format!("{{find: 'c', filter: {{_id: {id}}}}}"));
    let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    batch.iter().next().map_or(String::new(), |doc| format!("{}", doc.as_doc().unwrap().get("v")))
}

fn time(reply: &DocBuf, name: &str) -> u64 {
    let found = match name {
        "operationTime" => reply.get(name),
        _ => reply.get("$clusterTime").as_doc().unwrap().get("clusterTime"),
    };
    match found {
        Value::Timestamp(time) => time,
        other => panic!("{name}: {other} in {reply:?}"),
    }
}

/// A server on the same engine, after an orderly stop of the other one.
fn next(engine: &Arc<Minimal>, before: (Client, Arc<Store>)) -> (Client, Arc<Store>) {
    let (client, store) = before;
    client.server.stop();
    client.server.join_jobs();
    drop(client);
    store.close().unwrap();
    drop(store);
    first(engine)
}

fn first(engine: &Arc<Minimal>) -> (Client, Arc<Store>) {
    let store = member(engine, 0);
    (Client::new(&router_over(store.clone())), store)
}

#[test]
fn every_reply_has_times_that_no_client_can_set() {
    let mut client = Client::new(&router());
    let hello = client.shell("{hello: 1}");
    assert_eq!(hello.get("msg").as_str(), Some("isdbgrid"));
    assert!(hello.get("setName").is_missing() && hello.get("hosts").is_missing(), "{hello:?}");
    assert_eq!(hello.get("isWritablePrimary"), Value::Bool(true));
    let old = client.shell("{ismaster: 1}");
    assert_eq!(
        (old.get("ismaster"), old.get("msg").as_str()),
        (Value::Bool(true), Some("isdbgrid"))
    );
    let mut last = time(&hello, "$clusterTime");
    for command in [
        "{insert: 'c', documents: [{_id: 1}]}",
        "{find: 'c'}",
        "{find: 'c', nonsense: 1}",
        "{ping: 1}",
    ] {
        let reply = client.shell(command);
        let (operation, cluster) = (time(&reply, "operationTime"), time(&reply, "$clusterTime"));
        assert!(operation <= cluster && cluster >= last, "{command}: {reply:?}");
        last = cluster;
    }
    let ahead = (last >> 32) + 100_000;
    let gossip = format!("{{ping: 1, $clusterTime: {{clusterTime: Timestamp({ahead}, 1)}}}}");
    let reply = client.shell(&gossip);
    assert!(is_ok(&reply) && time(&reply, "$clusterTime") >> 32 < ahead, "{reply:?}");
    let reply = client
        .shell(&format!("{{find: 'c', readConcern: {{afterClusterTime: Timestamp({ahead}, 1)}}}}"));
    assert_eq!(code(&reply), 72, "{reply:?}");
    let (seconds, number) = (last >> 32, last & 0xFFFF_FFFF);
    let after =
        format!("{{find: 'c', readConcern: {{afterClusterTime: Timestamp({seconds}, {number})}}}}");
    let reply = client.shell(&after);
    assert!(is_ok(&reply) && time(&reply, "operationTime") >= last, "{reply:?}");
}

#[test]
fn what_needs_a_replica_set_is_refused_as_a_mongos_refuses_it() {
    let mut client = Client::new(&router());
    let status = admin(&mut client, "{replSetGetStatus: 1}");
    assert_eq!(code(&status), 59);
    assert_eq!(
        status.get("errmsg").as_str(),
        Some("replSetGetStatus is not supported through mongos")
    );
    assert_eq!(status.get("info").as_str(), Some("mongos"));
    let listed = admin(&mut client, "{listCommands: 1}");
    for name in ["replSetInitiate", "replSetGetConfig", "replSetStepDown", "replSetReconfig"] {
        let reply = admin(&mut client, &format!("{{{name}: 1}}"));
        let text = format!("no such command: '{name}'");
        assert_eq!((code(&reply), reply.get("errmsg").as_str()), (59, Some(&*text)));
        assert!(listed.get("commands").as_doc().unwrap().get(name).is_missing(), "{name}");
    }
    let stream = client.shell("{aggregate: 'c', pipeline: [{$changeStream: {}}], cursor: {}}");
    assert_eq!(code(&stream), 40573, "{stream:?}");
    let images = client.shell("{create: 'i', changeStreamPreAndPostImages: {enabled: true}}");
    assert_eq!(code(&images), 72, "{images:?}");
    let status = admin(&mut client, "{serverStatus: 1}");
    assert_eq!(status.get("process").as_str(), Some("mongos"));
    assert!(status.get("repl").is_missing() && status.get("oplog").is_missing());
}

#[test]
fn concerns_are_those_of_a_mongos() {
    let mut client = Client::new(&router());
    for concern in ["{w: 3}", "{w: 'majority', j: true, wtimeout: 5}", "{w: 0}"] {
        let reply =
            client.shell(&format!("{{insert: 'c', documents: [{{}}], writeConcern: {concern}}}"));
        assert!(is_ok(&reply) && reply.get("writeConcernError").is_missing(), "{reply:?}");
    }
    let reply = client.shell("{insert: 'c', documents: [{}], writeConcern: {w: 'mode'}}");
    let error = reply.get("writeConcernError").as_doc().map(|error| error.get("code"));
    assert_eq!(error, Some(Value::Int32(79)), "{reply:?}");
    for level in ["local", "available", "majority", "linearizable", "snapshot"] {
        let reply = client.shell(&format!("{{find: 'c', readConcern: {{level: '{level}'}}}}"));
        assert!(is_ok(&reply), "{level}: {reply:?}");
    }
    let reply =
        admin(&mut client, "{setDefaultRWConcern: 1, defaultWriteConcern: {w: 'majority'}}");
    assert!(is_ok(&reply), "{reply:?}");
}

#[test]
fn snapshots_are_read_again_by_their_time_until_they_are_too_old() {
    let mut client = Client::new(&router());
    client.shell("{insert: 'c', documents: [{_id: 1, v: 1}]}");
    let snapshot = client.shell("{find: 'c', readConcern: {level: 'snapshot'}}");
    let Value::Timestamp(at) = snapshot.get("cursor").as_doc().unwrap().get("atClusterTime") else {
        panic!("{snapshot:?}")
    };
    client.shell("{update: 'c', updates: [{q: {_id: 1}, u: {$set: {v: 2}}}]}");
    let read = |at: u64| {
        let (seconds, number) = (at >> 32, at & 0xFFFF_FFFF);
        format!(
            "{{find: 'c', readConcern: {{level: 'snapshot', atClusterTime: Timestamp({seconds}, {number})}}}}"
        )
    };
    let again = client.shell(&read(at));
    assert!(format!("{again:?}").contains("v: 1") && value(&mut client, 1) == "2", "{again:?}");
    let old = client.shell(&read(at - (1000 << 32)));
    assert_eq!(code(&old), 239, "{old:?}");
}

#[test]
fn a_retried_statement_is_executed_once_also_after_a_restart() {
    let engine = Arc::new(Minimal::new());
    let mut node = first(&engine);
    node.0.shell("{insert: 'c', documents: [{_id: 1, v: 0}]}");
    let writes = [
        "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {v: 1}}}]",
        "insert: 'c', documents: [{_id: 2, v: 0}, {_id: 3, v: 0}]",
        "findAndModify: 'c', query: {_id: 1}, update: {$inc: {v: 1}}, new: true",
        "delete: 'c', deletes: [{q: {_id: 3}, limit: 1}]",
        "bulkWrite: 1, ops: [{update: 0, filter: {_id: 2}, updateMods: {$inc: {v: 1}}}], nsInfo: [{ns: 'test.c'}]",
    ];
    let run = |client: &mut Client, number: usize, write: &str| {
        let db = if write.starts_with("bulkWrite") { "admin" } else { "test" };
        let text = format!("{{{write}, {LSID}, txnNumber: NumberLong({number})}}");
        client.run(db, json::parse(&text).unwrap().as_doc())
    };
    for (number, write) in writes.iter().enumerate() {
        assert!(is_ok(&run(&mut node.0, number, write)), "{write}");
        let again = run(&mut node.0, number, write);
        assert!(is_ok(&again) && format!("{again:?}").contains("retriedStmtId"), "{again:?}");
        node = next(&engine, node);
        let again = run(&mut node.0, number, write);
        assert!(is_ok(&again) && format!("{again:?}").contains("retriedStmtId"), "{again:?}");
    }
    let values: Vec<_> = (1..=3).map(|id| value(&mut node.0, id)).collect();
    assert_eq!(values, ["2", "1", ""]);
    let old = run(&mut node.0, 1, writes[1]);
    assert_eq!(code(&old), 225, "{old:?}");
}

#[test]
fn a_transaction_spans_statements_and_its_commit_may_be_repeated_at_another_node() {
    let engine = Arc::new(Minimal::new());
    let mut node = first(&engine);
    node.0.shell("{insert: 'c', documents: [{_id: 1, v: 0}]}");
    let txn = format!("{LSID}, txnNumber: NumberLong(7), autocommit: false");
    let read = node.0.shell(&format!("{{find: 'c', startTransaction: true, {txn}}}"));
    assert_eq!(format!("{}", read.get("recoveryToken")), "{}", "{read:?}");
    let write =
        format!("{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$inc: {{v: 1}}}}}}], {txn}}}");
    let token = "{ recoveryShardId: \"store\" }";
    let reply = node.0.shell(&write);
    assert_eq!(format!("{}", reply.get("recoveryToken")), token, "{reply:?}");
    assert_eq!(value(&mut node.0, 1), "0", "not visible to others");
    let commit =
        format!("{{commitTransaction: 1, recoveryToken: {{recoveryShardId: 'store'}}, {txn}}}");
    let reply = admin(&mut node.0, &commit);
    assert!(is_ok(&reply), "{reply:?}");
    assert_eq!(format!("{}", reply.get("recoveryToken")), token, "{reply:?}");
    assert!(is_ok(&admin(&mut node.0, &commit)));
    node = next(&engine, node);
    assert!(is_ok(&admin(&mut node.0, &commit)), "its record is there");
    assert_eq!(value(&mut node.0, 1), "1");
    // A transaction that the node does not know.
    let unknown = commit.replace("NumberLong(7)", "NumberLong(8)");
    for _ in 0..2 {
        let reply = admin(&mut node.0, &unknown);
        assert_eq!(
            (code(&reply), labels(&reply).contains("TransientTransactionError")),
            (251, true)
        );
        node = next(&engine, node);
    }
    let empty = unknown.replace("recoveryShardId: 'store'", "").replace("(8)", "(9)");
    let reply = admin(&mut node.0, &empty);
    assert!(format!("{reply:?}").contains("Recovery token is empty"), "{reply:?}");
    let aborted = txn.replace("(7)", "(10)");
    node.0.shell(&format!(
        "{{insert: 'c', documents: [{{_id: 5}}], startTransaction: true, {aborted}}}"
    ));
    let reply = admin(&mut node.0, &format!("{{abortTransaction: 1, {aborted}}}"));
    assert!(is_ok(&reply) && value(&mut node.0, 5).is_empty(), "{reply:?}");
}

#[test]
fn a_conflict_at_the_commit_is_transient() {
    let mut client = Client::new(&router());
    client.shell("{insert: 'c', documents: [{_id: 1, v: 0}]}");
    let txn = format!("{LSID}, txnNumber: NumberLong(1), autocommit: false");
    let update = |rest: &str| {
        format!("{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$inc: {{v: 1}}}}}}]{rest}}}")
    };
    client.shell(&update(&format!(", startTransaction: true, {txn}")));
    assert!(is_ok(&client.shell(&update(""))), "nothing is locked before the commit");
    let commit = format!("{{commitTransaction: 1, {txn}}}");
    let reply = admin(&mut client, &commit);
    assert_eq!(
        (code(&reply), labels(&reply).contains("TransientTransactionError")),
        (112, true),
        "{reply:?}"
    );
    let again = admin(&mut client, &commit);
    assert_eq!(
        (code(&again), labels(&again).contains("TransientTransactionError")),
        (251, true),
        "{again:?}"
    );
    assert_eq!(value(&mut client, 1), "1");
    let too_large = admin(&mut client, "{serverStatus: 1}");
    let transactions = too_large.get("transactions").as_doc().unwrap().to_buf();
    assert_eq!(transactions.get("totalAborted"), Value::Int64(1), "{transactions:?}");
}

/// The node that has lost the reply of its commit decides by the record, and one that has not stored any never will.
#[test]
fn a_commit_without_an_answer_is_decided_once() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Minimal::new()), faults.clone()));
    let mut client = Client::new(&router_on(engine));
    client.shell("{create: 'c'}");
    for (n, point, found) in [(1, Point::Committed, true), (2, Point::Commit, false)] {
        let txn = format!("{LSID}, txnNumber: NumberLong({n}), autocommit: false");
        client.shell(&format!(
            "{{insert: 'c', documents: [{{_id: {n}, v: 0}}], startTransaction: true, {txn}}}"
        ));
        faults.arm(point, 0, 1, || nagi_kv::Error::Undetermined);
        let commit =
            format!("{{commitTransaction: 1, recoveryToken: {{recoveryShardId: 'store'}}, {txn}}}");
        // The fence tells at once.
        let reply = admin(&mut client, &commit);
        assert_eq!(is_ok(&reply), found, "{reply:?}");
        let again = admin(&mut client, &commit);
        assert_eq!(is_ok(&again), found, "{again:?}");
        assert_eq!(!value(&mut client, n).is_empty(), found);
        let written = format!(
            "{{insert: 'c', documents: [{{_id: 1{n}, v: 0}}], {OTHER}, txnNumber: NumberLong({n})}}"
        );
        faults.arm(point, 0, 1, || nagi_kv::Error::Undetermined);
        for _ in 0..2 {
            let reply = client.shell(&written);
            assert!(is_ok(&reply) && reply.get("writeErrors").is_missing(), "{reply:?}");
        }
    }
}

/// Two routers with sessions of their own, over two stores that share the data.
fn two() -> (Client, Client) {
    let engine = Arc::new(Minimal::new());
    let ((one, _), (other, _)) = (first(&engine), first(&engine));
    (one, other)
}

#[test]
fn another_router_decides_a_transaction_that_is_open_at_the_first() {
    let (mut one, mut other) = two();
    one.shell("{create: 'c'}");
    let txn = |number: i32| format!("{LSID}, txnNumber: NumberLong({number}), autocommit: false");
    let commit = |number: i32| {
        format!(
            "{{commitTransaction: 1, recoveryToken: {{recoveryShardId: 'store'}}, {}}}",
            txn(number)
        )
    };
    let begin = |one: &mut Client, number: i32| {
        let insert =
            format!("insert: 'c', documents: [{{_id: {number}, v: 0}}], startTransaction: true");
        assert!(is_ok(&one.shell(&format!("{{{insert}, {}}}", txn(number)))));
    };
    begin(&mut one, 1);
    let reply = admin(&mut other, &commit(1));
    assert_eq!(code(&reply), 251, "aborted from now on: {reply:?}");
    let reply = admin(&mut one, &commit(1));
    assert_eq!(
        (code(&reply), labels(&reply).contains("TransientTransactionError")),
        (112, true),
        "{reply:?}"
    );
    assert!(value(&mut one, 1).is_empty());
    begin(&mut one, 2);
    assert!(is_ok(&admin(&mut one, &commit(2))));
    assert!(is_ok(&admin(&mut other, &commit(2))), "committed at the other one");
    let write = format!(
        "{{insert: 'c', documents: [{{_id: 3, v: 0}}], {OTHER}, txnNumber: NumberLong(3)}}"
    );
    assert!(is_ok(&one.shell(&write)));
    let again = other.shell(&write);
    assert!(format!("{again:?}").contains("retriedStmtId"), "{again:?}");
}

/// The documents of a cursor's first batch, in shell notation.
fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let Some(cursor) = reply.get("cursor").as_doc() else { panic!("{reply:?}") };
    let batch = cursor.get("firstBatch").as_array().unwrap();
    batch.iter().map(|doc| doc.as_doc().unwrap().to_buf()).collect()
}

fn config(client: &mut Client, text: &str) -> DocBuf {
    client.run("config", json::parse(text).unwrap().as_doc())
}

#[test]
fn the_collections_of_config_describe_one_shard() {
    let mut client = Client::new(&router());
    client.shell("{insert: 'a', documents: [{_id: 1}]}");
    admin(&mut client, "{shardCollection: 'test.c', key: {k: 1}}");
    admin(&mut client, "{shardCollection: 'other.h', key: {k: 'hashed'}}");
    let shards = batch(&config(&mut client, "{find: 'shards'}"));
    assert_eq!(shards.len(), 1);
    assert_eq!(shards[0].get("_id").as_str(), Some("store"));
    let listed = admin(&mut client, "{listShards: 1}");
    let listed = listed.get("shards").as_array().unwrap().iter().next().unwrap();
    assert_eq!(listed, Value::Doc(shards[0].as_doc()));
    let databases = batch(&config(&mut client, "{find: 'databases', sort: {_id: -1}}"));
    let names: Vec<_> =
        databases.iter().map(|db| db.get("_id").as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["test", "other"]);
    let found = batch(&config(&mut client, "{find: 'collections', filter: {_id: /^test/}}"));
    assert_eq!(format!("{}", found[0].get("key")), "{ k: 1 }");
    let joined = config(
        &mut client,
        "{aggregate: 'collections', cursor: {}, pipeline: [{$lookup: {from: 'chunks', localField: 'uuid', \
          foreignField: 'uuid', as: 'chunks'}}, {$unwind: '$chunks'}, {$group: {_id: '$chunks.shard', n: {$sum: 1}}}]}",
    );
    assert_eq!(format!("{:?}", batch(&joined)[0]), "{ _id: \"store\", n: 2 }", "{joined:?}");
    let counted = config(&mut client, "{count: 'chunks', query: {shard: 'store'}}");
    assert_eq!(counted.get("n"), Value::Int32(2));
    let distinct = config(&mut client, "{distinct: 'mongos', key: 'mongoVersion'}");
    assert_eq!(format!("{}", distinct.get("values")), "[ \"8.0.4\" ]");
    assert!(is_ok(&config(&mut client, "{explain: {find: 'shards'}}")));
    let version = batch(&config(&mut client, "{find: 'version'}"));
    assert!(matches!(version[0].get("clusterId"), Value::ObjectId(_)), "{version:?}");
    let out = config(&mut client, "{aggregate: 'shards', cursor: {}, pipeline: [{$out: 'mine'}]}");
    assert_eq!(code(&out), 20, "{out:?}");
    // A cursor goes on, and what was dropped is not shown any more.
    let opened = config(&mut client, "{find: 'collections', batchSize: 1}");
    let Value::Int64(id) = opened.get("cursor").as_doc().unwrap().get("id") else {
        panic!("{opened:?}")
    };
    let more =
        config(&mut client, &format!("{{getMore: NumberLong('{id}'), collection: 'collections'}}"));
    assert!(is_ok(&more) && format!("{more:?}").contains("test.c"), "{more:?}");
    client.shell("{drop: 'c'}");
    let left = batch(&config(&mut client, "{find: 'collections'}"));
    assert_eq!((left.len(), left[0].get("_id").as_str()), (1, Some("other.h")));
    client.run(
        "admin",
        json::parse("{renameCollection: 'other.h', to: 'other.i'}").unwrap().as_doc(),
    );
    let left = batch(&config(&mut client, "{find: 'collections'}"));
    assert_eq!(left[0].get("_id").as_str(), Some("other.i"));
    for write in [
        "{insert: 'shards', documents: [{_id: 1}]}",
        "{update: 'chunks', updates: [{q: {}, u: {$set: {a: 1}}}]}",
        "{delete: 'mongos', deletes: [{q: {}, limit: 0}]}",
        "{drop: 'databases'}",
        "{createIndexes: 'collections', indexes: [{key: {a: 1}, name: 'a'}]}",
    ] {
        assert_eq!(code(&config(&mut client, write)), 166, "{write}");
    }
    assert!(is_ok(&config(
        &mut client,
        "{insert: 'settings', documents: [{_id: 'chunksize', value: 64}]}"
    )));
}

#[test]
fn what_is_recorded_is_there_after_a_restart() {
    let engine = Arc::new(Minimal::new());
    let mut node = first(&engine);
    admin(&mut node.0, "{shardCollection: 'test.c', key: {k: 1}}");
    admin(&mut node.0, "{balancerStop: 1}");
    let id = |client: &mut Client| batch(&config(client, "{find: 'version'}"))[0].clone();
    let before = id(&mut node.0);
    let mut node = next(&engine, node);
    assert_eq!(id(&mut node.0), before);
    assert_eq!(batch(&config(&mut node.0, "{find: 'chunks'}")).len(), 1);
    let status = admin(&mut node.0, "{balancerStatus: 1}");
    assert_eq!(status.get("mode").as_str(), Some("off"));
}

/// The answers to `shardCollection`, and what can be read of the collections afterwards.
#[test]
fn empty_collections_are_spread_when_they_are_sharded() {
    let mut client = Client::new(&router());
    let note = |client: &mut Client, text: &str| {
        admin(client, text).get("note").as_str().unwrap_or_default().to_owned()
    };
    let all = |parts: u32| {
        format!(
            "the key is recorded; records and the index on _id are spread over the store in {parts} parts"
        )
    };
    assert_eq!(note(&mut client, "{shardCollection: 'test.c', key: {k: 1}}"), all(16));
    assert_eq!(
        note(&mut client, "{shardCollection: 'test.c', key: {k: 1}}"),
        "the key was recorded before"
    );
    let hashed = "{shardCollection: 'test.h', key: {_id: 'hashed'}, numInitialChunks: 5}";
    assert_eq!(note(&mut client, hashed), all(8));
    let most = "{shardCollection: 'test.m', key: {a: 1, k: 'hashed'}, numInitialChunks: 8192}";
    assert_eq!(note(&mut client, most), all(32));
    let ids = note(&mut client, "{shardCollection: 'test.ids', key: {_id: 1}}");
    assert_eq!(ids, "the key is recorded; records are spread over the store in 16 parts");
    let one = "{shardCollection: 'test.one', key: {k: 'hashed'}, numInitialChunks: 1}";
    assert!(note(&mut client, one).contains("not spread: one chunk was asked for"));
    client.shell("{insert: 'full', documents: [{_id: 1, k: 1}]}");
    client.shell("{createIndexes: 'full', indexes: [{key: {k: 'hashed'}, name: 'k'}]}");
    for (refused, code_of_it) in [
        ("{shardCollection: 'test.full', key: {k: 'hashed'}, numInitialChunks: 4}", 72),
        ("{shardCollection: 'test.r', key: {k: 1}, numInitialChunks: 4}", 72),
        ("{shardCollection: 'test.r', key: {k: 'hashed'}, numInitialChunks: 8193}", 72),
    ] {
        assert_eq!(code(&admin(&mut client, refused)), code_of_it, "{refused}");
    }
    let full = note(&mut client, "{shardCollection: 'test.full', key: {k: 'hashed'}}");
    assert!(full.contains("not spread: the collection has documents"), "{full}");
    for id in 0..300 {
        let text = format!("{{insert: 'c', documents: [{{_id: {id}, k: {}}}]}}", id % 7);
        assert!(is_ok(&client.shell(&text)));
    }
    let sorted =
        "{find: 'c', filter: {_id: {$gte: 40, $lt: 60}}, sort: {_id: -1}, projection: {k: 0}}";
    let found = batch(&client.shell(sorted));
    let expected: Vec<_> = (40..60).rev().map(|id| format!("{{ _id: {id} }}")).collect();
    assert_eq!(found.iter().map(|doc| doc_text(doc.as_doc())).collect::<Vec<_>>(), expected);
    let some = "{find: 'c', filter: {_id: {$in: [299, 7, 1000, 12.0, -1]}}, sort: {_id: 1}, projection: {k: 0}}";
    let found = batch(&client.shell(some));
    let found: Vec<_> = found.iter().map(|doc| doc_text(doc.as_doc())).collect();
    assert_eq!(found, ["{ _id: 7 }", "{ _id: 12 }", "{ _id: 299 }"]);
    let twice = client.shell("{insert: 'c', documents: [{_id: 12.0}]}");
    assert!(doc_text(twice.as_doc()).contains("11000"), "{twice:?}");
    assert_eq!(client.shell("{validate: 'c'}").get("valid"), Value::Bool(true));
}

#[test]
fn commands_of_routers_need_privileges() {
    let store = member(&Arc::new(Minimal::new()), 0);
    let server = ServerBuilder::new(router_config(store, true)).unwrap().start().unwrap();
    // Not from this machine, whose clients may do something before there are users.
    let mut client = Client::from(&server, "192.0.2.1:50000");
    let listed = admin(&mut client, "{listCommands: 1}");
    let other = Client::new(&crate::client::server())
        .run("admin", json::parse("{listCommands: 1}").unwrap().as_doc());
    let names = |reply: &DocBuf| -> Vec<String> {
        reply.get("commands").as_doc().unwrap().iter().map(|one| one.name().to_owned()).collect()
    };
    let others = names(&other);
    let only: Vec<_> = names(&listed).into_iter().filter(|name| !others.contains(name)).collect();
    assert_eq!(only.len(), 49, "{only:?}");
    for name in only.iter().filter(|name| *name != "isdbgrid") {
        let argument =
            if name.contains("alancerSta") || name == "balancerStop" { "1" } else { "'test.c'" };
        let reply = admin(&mut client, &format!("{{{name}: {argument}}}"));
        assert_eq!(code(&reply), 13, "{name}: {reply:?}");
    }
    assert!(is_ok(&admin(&mut client, "{isdbgrid: 1}")), "before a login");
}

#[test]
fn a_statement_that_is_repeated_at_another_router_is_executed_once() {
    let (mut one, mut other) = two();
    one.shell("{insert: 'c', documents: [{_id: 1, v: 0}]}");
    let run = |client: &mut Client, number: usize, write: &str| {
        let db = if write.starts_with("bulkWrite") { "admin" } else { "test" };
        let text = format!("{{{write}, {LSID}, txnNumber: NumberLong({number})}}");
        client.run(db, json::parse(&text).unwrap().as_doc())
    };
    // Both know the session.
    run(&mut one, 1, "update: 'c', updates: [{q: {_id: 1}, u: {$set: {v: 0}}}]");
    run(&mut other, 2, "insert: 'c', documents: [{_id: 9}]");
    let writes = [
        "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {v: 1}}}]",
        // What it looks for, or has to be new, is not there any more at the second time.
        "update: 'c', updates: [{q: {v: 1}, u: {$set: {v: 2}}}]",
        "insert: 'c', documents: [{_id: 2, v: 0}, {_id: 3, v: 0}]",
        "findAndModify: 'c', query: {v: 2}, update: {$inc: {v: 1}}, new: true",
        "delete: 'c', deletes: [{q: {_id: 3}, limit: 1}]",
        "update: 'c', updates: [{q: {_id: 8}, u: {$inc: {v: 1}}, upsert: true}, {q: {_id: 2}, u: {$inc: {v: 1}}}]",
        "bulkWrite: 1, ops: [{insert: 0, document: {_id: 7, v: 0}}, {update: 0, filter: {_id: 2}, updateMods: \
         {$inc: {v: 1}}}], nsInfo: [{ns: 'test.c'}]",
    ];
    for (at, write) in writes.iter().enumerate() {
        let number = 10 + at;
        let (first, second) =
            if at % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        let done = run(first, number, write);
        assert!(is_ok(&done) && done.get("writeErrors").is_missing(), "{write}: {done:?}");
        let again = run(second, number, write);
        assert!(is_ok(&again) && again.get("writeErrors").is_missing(), "{write}: {again:?}");
        assert!(format!("{again:?}").contains("retriedStmtId"), "{write}: {again:?}");
        for field in ["n", "nModified", "value", "nInserted", "nErrors"] {
            assert_eq!(done.get(field), again.get(field), "{write}");
        }
    }
    let values: Vec<_> = [1, 2, 3, 7, 8].map(|id| value(&mut one, id)).into();
    assert_eq!(values, ["3", "2", "", "0", "1"]);
    // A statement that arrives late, when the session is at a later one.
    run(&mut other, 30, "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {v: 1}}}]");
    let late = run(&mut one, 29, "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {v: 1}}}]");
    assert_eq!(code(&late), 225, "{late:?}");
    // One that does nothing is repeated as one that does nothing.
    let nothing = "update: 'c', updates: [{q: {_id: 'none'}, u: {$inc: {v: 1}}}]";
    for client in [&mut one, &mut other] {
        let reply = run(client, 31, nothing);
        assert_eq!((reply.get("n"), is_ok(&reply)), (Value::Int32(0), true), "{reply:?}");
    }
}

/// The same statements at two routers at once: each takes effect once, whoever is first.
#[test]
fn statements_at_two_routers_at_once_are_executed_once() {
    const COUNT: usize = 60;
    let (mut one, other) = two();
    one.shell("{insert: 'c', documents: [{_id: 1, v: 0}]}");
    let barrier = Arc::new(Barrier::new(2));
    let work = |mut client: Client| {
        let barrier = Arc::clone(&barrier);
        std::thread::spawn(move || {
            for number in 0..COUNT {
                barrier.wait();
                let increment = "{q: {_id: 1}, u: {$inc: {v: 1}}}";
                let update = format!("update: 'c', updates: [{increment}, {increment}]");
                let reply =
                    client.shell(&format!("{{{update}, {LSID}, txnNumber: NumberLong({number})}}"));
                assert!(is_ok(&reply) && reply.get("writeErrors").is_missing(), "{reply:?}");
                assert_eq!(reply.get("n"), Value::Int32(2), "{reply:?}");
                let insert = format!(
                    "{{insert: 'd', documents: [{{_id: {number}}}], {OTHER}, txnNumber: NumberLong({number})}}"
                );
                let reply = client.shell(&insert);
                assert!(is_ok(&reply) && reply.get("writeErrors").is_missing(), "{reply:?}");
            }
            client
        })
    };
    let workers = [work(one), work(other)];
    let mut clients = workers.map(|worker| worker.join().unwrap());
    assert_eq!(value(&mut clients[0], 1), format!("{}", 2 * COUNT));
}

#[test]
fn the_roles_of_clusters_are_enough() {
    let store = member(&Arc::new(Minimal::new()), 0);
    let server = ServerBuilder::new(router_config(store, true)).unwrap().start().unwrap();
    let mut root = Client::new(&server);
    for (user, role) in [("root", "root"), ("admin", "clusterAdmin"), ("monitor", "clusterMonitor")]
    {
        let create = format!("{{createUser: '{user}', pwd: 'pwd', roles: ['{role}']}}");
        assert!(is_ok(&admin(&mut root, &create)));
        if user == "root" {
            log_in(&mut root, "admin", "root", "pwd");
        }
    }
    let refused = |user: &str| -> Vec<String> {
        let mut client = Client::new(&server);
        assert!(is_ok(&log_in(&mut client, "admin", user, "pwd")));
        let listed = admin(&mut client, "{listCommands: 1}");
        let rows = listed.get("commands").as_doc().unwrap();
        let ordinary = Client::new(&crate::client::server())
            .run("admin", json::parse("{listCommands: 1}").unwrap().as_doc());
        let ordinary = ordinary.get("commands").as_doc().unwrap();
        let names = rows.iter().map(|row| row.name());
        let names: Vec<_> = names.filter(|name| ordinary.get(name).is_missing()).collect();
        let refused = names.into_iter().filter(|name| {
            let argument = if name.starts_with("enableSh") { "'test'" } else { "'test.c'" };
            code(&admin(&mut client, &format!("{{{name}: {argument}, nonsense: 1}}"))) == 13
        });
        refused.map(str::to_owned).collect()
    };
    assert_eq!(refused("root"), Vec::<String>::new());
    assert_eq!(refused("admin"), Vec::<String>::new());
    let monitors = refused("monitor");
    for name in ["listShards", "getShardMap", "balancerStatus"] {
        assert!(!monitors.contains(&name.to_owned()), "{name}");
    }
    for name in ["addShard", "shardCollection", "balancerStop", "flushRouterConfig"] {
        assert!(monitors.contains(&name.to_owned()), "{name}");
    }
}
