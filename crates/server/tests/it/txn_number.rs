//! Retryable writes and transactions: records that survive a restart, transactions that are aborted, and
//! concurrent commands of one session.

use std::sync::{Arc, Barrier};

use nagi_bson::{DocBuf, Value, doc};
use nagi_kv::{Engine, Faults, Faulty, Memory, Point};
use nagi_server::Server;

use crate::client::{Client, is_ok, member, server_on};

const LSID: &str = "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddeeff\")}";
const OTHER: &str = "lsid: {id: UUID(\"00112233-4455-6677-8899-aabbccddee00\")}";

fn code(reply: &DocBuf) -> i32 {
    match reply.get("code") {
        Value::Int32(code) => code,
        _ => 0,
    }
}

fn number(reply: &DocBuf, name: &str) -> i64 {
    match reply.get(name) {
        Value::Int32(n) => i64::from(n),
        Value::Int64(n) => n,
        other => panic!("{name}: {other} in {reply:?}"),
    }
}

/// Runs a command on database `admin`.
fn admin(client: &mut Client, text: &str) -> DocBuf {
    client.run("admin", nagi_bson::json::parse(text).unwrap().as_doc())
}

fn count(client: &mut Client, collection: &str) -> i64 {
    number(&client.shell(&format!("{{count: '{collection}'}}")), "n")
}

/// A number of `serverStatus.transactions`.
fn counted(client: &mut Client, name: &str) -> i64 {
    let status = client.shell("{serverStatus: 1}");
    let section = status.get("transactions").as_doc().unwrap().to_buf();
    number(&section, name)
}

/// A write takes effect once, however often the driver retries it, even if the outcome of its commit is
/// unknown.
#[test]
fn what_an_undetermined_commit_did_is_found_out() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
    let mut client = Client::new(&server_on(engine, Some("rs")));
    admin(&mut client, "{replSetInitiate: {}}");
    client.shell("{create: 'c'}");
    let undetermined = || nagi_kv::Error::Undetermined;
    for (n, point) in [(1, Point::Committed), (2, Point::Commit)] {
        let inserted = format!(
            "{{insert: 'c', documents: [{{_id: {n}, v: 0}}], {LSID}, txnNumber: NumberLong({n}0)}}"
        );
        let updated = format!(
            "{{update: 'c', updates: [{{q: {{_id: {n}}}, u: {{$inc: {{v: 1}}}}}}], {OTHER}, \
             txnNumber: NumberLong({n}0)}}"
        );
        for (write, field) in [(&inserted, "insert"), (&updated, "update")] {
            faults.arm(point, 0, 1, undetermined);
            let reply = client.shell(write);
            let text = format!("{reply:?}");
            assert!(text.contains("11602") && text.contains("RetryableWriteError"), "{text}");
            let again = client.shell(write);
            assert_eq!(number(&again, "n"), 1, "{field}: {again:?}");
        }
        let found = client.shell(&format!("{{find: 'c', filter: {{_id: {n}, v: 1}}}}"));
        assert!(format!("{found:?}").contains("v: 1"), "once: {found:?}");
        let txn = format!("{LSID}, txnNumber: NumberLong({n}1), autocommit: false");
        client.shell(&format!(
            "{{insert: 'c', documents: [{{_id: {}}}], startTransaction: true, {txn}}}",
            10 + n
        ));
        faults.arm(point, 0, 1, undetermined);
        let commit = format!("{{commitTransaction: 1, {txn}}}");
        let reply = admin(&mut client, &commit);
        assert_eq!(code(&reply), 11602, "{reply:?}");
        let again = admin(&mut client, &commit);
        let is_there =
            count(&mut client, "c") == i64::from(n) * 2 - i64::from(point == Point::Commit);
        // A transaction that was not committed is lost; a committed one is not committed again.
        assert!(is_there && (is_ok(&again) == (point == Point::Committed)), "{again:?}");
    }
}

/// What a reply with `j: true` reports is durable, even if the last statement has committed nothing.
#[test]
fn the_end_of_a_command_waits_for_the_disk() {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
    let mut client = Client::new(&server_on(engine, Some("rs")));
    admin(&mut client, "{replSetInitiate: {}}");
    client.shell("{insert: 'c', documents: [{_id: 1, v: 0}, {_id: 2, v: 0}]}");
    let changes = [
        "update: 'c', updates: [{q: {_id: 1}, u: {$inc: {v: 1}}}, {q: {_id: 9}, u: {$inc: {v: 1}}}]",
        "update: 'c', updates: [{q: {v: 0}, u: {$inc: {v: 1}}}, {q: {v: 9}, u: {$inc: {v: 1}}}]",
        "update: 'c', updates: [{q: {}, u: {$inc: {v: 1}}, multi: true}]",
        "insert: 'c', documents: [{_id: 7}, {_id: 7}], ordered: false",
        "findAndModify: 'c', query: {_id: 1}, update: {$inc: {v: 1}}",
        "delete: 'c', deletes: [{q: {_id: 1}, limit: 1}, {q: {_id: 9}, limit: 1}]",
    ];
    for (number, change) in changes.iter().enumerate() {
        let change = format!("{{{change}, writeConcern: {{w: 1, j: true}}");
        let retryable = match change.contains("multi") {
            true => format!("{change}}}"),
            false => format!("{change}, {LSID}, txnNumber: NumberLong({number})}}"),
        };
        faults.arm(Point::Maintain, 0, 1, || nagi_kv::Error::other("no disk"));
        let reply = client.shell(&retryable);
        assert!(!is_ok(&reply), "{change}: {reply:?}");
        assert!(is_ok(&client.shell(&retryable)));
        // The statements that an earlier attempt has executed are durable too.
        faults.arm(Point::Maintain, 0, 1, || nagi_kv::Error::other("no disk"));
        let reply = client.shell(&retryable);
        assert!(!is_ok(&reply), "{change}: {reply:?}");
    }
}

#[test]
fn records_survive_the_server() {
    let engine = Arc::new(Memory::new());
    let writes = [
        format!(
            "{{insert: 'c', documents: [{{_id: 1, n: 0}}, {{_id: 2}}], {LSID}, txnNumber: NumberLong(4)}}"
        ),
        format!(
            "{{findAndModify: 'c', query: {{_id: 1}}, update: {{$inc: {{n: 1}}}}, new: true, {OTHER}, \
             txnNumber: NumberLong(0)}}"
        ),
    ];
    let commit =
        format!("{{commitTransaction: 1, {LSID}, txnNumber: NumberLong(9), autocommit: false}}");
    let first = {
        let mut client = Client::new(&server_on(engine.clone(), Some("rs")));
        assert!(is_ok(&admin(&mut client, "{replSetInitiate: 1}")));
        writes.each_ref().map(|text| client.shell(text))
    };
    {
        let mut client = Client::new(&server_on(engine.clone(), Some("rs")));
        let again = writes.each_ref().map(|text| client.shell(text));
        assert_eq!(number(&again[0], "n"), 2);
        assert_eq!(again[0].get("retriedStmtIds").to_string(), "[ 0, 1 ]");
        assert_eq!(again[1].get("value").to_string(), first[1].get("value").to_string());
        assert_eq!(number(&again[1], "retriedStmtId"), 0);
        let old = client.shell(&writes[0].replace("NumberLong(4)", "NumberLong(3)"));
        assert_eq!(code(&old), 225);
        // A transaction of the same session: its number replaces that of the write.
        let insert = format!(
            "{{insert: 'c', documents: [{{_id: 3}}], {LSID}, txnNumber: NumberLong(9), autocommit: false, \
             startTransaction: true}}"
        );
        assert!(is_ok(&client.shell(&insert)));
        assert!(is_ok(&admin(&mut client, &commit)));
    }
    let mut client = Client::new(&server_on(engine, Some("rs")));
    admin(&mut client, "{replSetInitiate: {}}");
    assert!(is_ok(&admin(&mut client, &commit)));
    assert_eq!(code(&client.shell(&writes[0])), 225);
    assert_eq!(count(&mut client, "c"), 3);
}

/// Statements by `_id` are executed together; each is recorded, whatever becomes of the others.
#[test]
fn statements_by_id_are_retried_one_by_one() {
    let mut client = Client::new(&server_on(Arc::new(Memory::new()), Some("rs")));
    admin(&mut client, "{replSetInitiate: 1}");
    client.shell(
        "{insert: 'c', documents: [{_id: 1, n: 0}, {_id: 2, n: 0}, {_id: 3, n: 'x'}, {_id: 4, n: 0}]}",
    );
    let values = |client: &mut Client| {
        let found = client.shell("{find: 'c', sort: {_id: 1}, projection: {n: 1}}");
        let docs = found.get("cursor").as_doc().unwrap().get("firstBatch");
        docs.as_array()
            .unwrap()
            .iter()
            .map(|doc| doc.as_doc().unwrap().get("n").to_string())
            .collect::<Vec<String>>()
    };
    let add = |id: i32| format!("{{q: {{_id: {id}}}, u: {{$inc: {{n: 1}}}}}}");
    let update = |ids: &[i32], number: i32| {
        let updates = ids.iter().map(|id| add(*id)).collect::<Vec<_>>().join(", ");
        format!(
            "{{update: 'c', updates: [{updates}], ordered: false, {LSID}, txnNumber: NumberLong({number})}}"
        )
    };
    // One id does not exist, and one occurs twice.
    let all = update(&[1, 2, 9, 4, 1], 1);
    assert_eq!(number(&client.shell(&all), "n"), 4);
    let again = client.shell(&all);
    assert_eq!((number(&again, "n"), number(&again, "nModified")), (4, 4));
    assert_eq!(again.get("retriedStmtIds").to_string(), "[ 0, 1, 3, 4 ]");
    let expected: Vec<String> = vec!["2".into(), "1".into(), "\"x\"".into(), "1".into()];
    assert_eq!(expected, values(&mut client));
    // One statement fails.
    let all = update(&[1, 2, 3, 4], 2);
    for _ in 0..2 {
        let reply = client.shell(&all);
        assert_eq!(number(&reply, "n"), 3);
        assert!(reply.get("writeErrors").to_string().contains("index: 2"), "{reply:?}");
    }
    let expected: Vec<String> = vec!["3".into(), "2".into(), "\"x\"".into(), "2".into()];
    assert_eq!(expected, values(&mut client));
    let delete = format!(
        "{{delete: 'c', deletes: [{{q: {{_id: 1}}, limit: 1}}, {{q: {{_id: 9}}, limit: 1}}, \
         {{q: {{_id: 2}}, limit: 1}}], {LSID}, txnNumber: NumberLong(3)}}"
    );
    assert_eq!(number(&client.shell(&delete), "n"), 2);
    let again = client.shell(&delete);
    assert_eq!(number(&again, "n"), 2);
    assert_eq!(again.get("retriedStmtIds").to_string(), "[ 0, 2 ]");
    assert_eq!(count(&mut client, "c"), 2);
}

#[test]
fn a_large_batch_is_answered_piece_by_piece() {
    let mut client = Client::new(&member());
    let insert = |ids: std::ops::Range<i32>| {
        nagi_bson::DocBuf::build(|w| {
            w.put("insert", "c");
            w.array("documents", |list| ids.for_each(|id| list.doc(|w| w.put("_id", id))));
            w.doc("lsid", |w| {
                w.put("id", Value::Binary(nagi_bson::Binary { subtype: 4, bytes: &[7; 16] }));
            });
            w.put("txnNumber", 1_i64);
        })
    };
    // A connection that broke in the middle of the command: only a part was executed.
    assert_eq!(number(&client.run("test", insert(0..1500).as_doc()), "n"), 1500);
    let whole = client.run("test", insert(0..2500).as_doc());
    assert_eq!(number(&whole, "n"), 2500);
    let retried = whole.get("retriedStmtIds").as_array().unwrap().count();
    assert_eq!((retried, count(&mut client, "c")), (1500, 2500));
}

#[test]
fn the_same_write_from_many_connections_happens_once() {
    let server = member();
    assert!(is_ok(&Client::new(&server).shell("{insert: 'c', documents: [{_id: 1, n: 0}]}")));
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (server, barrier) = (server.clone(), barrier.clone());
            std::thread::spawn(move || increments(&server, &barrier))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut client = Client::new(&server);
    let reply = client.shell("{find: 'c'}");
    let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    assert_eq!(batch.iter().next().unwrap().to_string(), "{ _id: 1, n: 30 }");
}

fn increments(server: &Arc<Server>, barrier: &Barrier) {
    let mut client = Client::new(server);
    for number in 0..30 {
        barrier.wait();
        let reply = client.shell(&format!(
            "{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$inc: {{n: 1}}}}}}], {LSID}, \
             txnNumber: NumberLong({number})}}"
        ));
        assert_eq!(self::number(&reply, "nModified"), 1);
    }
}

fn begin(client: &mut Client, lsid: &str, number: i64, id: i32) -> DocBuf {
    client.shell(&format!(
        "{{insert: 'c', documents: [{{_id: {id}}}], {lsid}, txnNumber: NumberLong({number}), \
         autocommit: false, startTransaction: true}}"
    ))
}

fn find(client: &mut Client, lsid: &str, number: i64) -> DocBuf {
    client.shell(&format!(
        "{{find: 'c', batchSize: 1, {lsid}, txnNumber: NumberLong({number}), autocommit: false}}"
    ))
}

#[test]
fn sessions_that_end_take_their_transactions_along() {
    let server = member();
    let mut client = Client::new(&server);
    let ends = [
        "{endSessions: [{id: UUID('00112233-4455-6677-8899-aabbccddeeff')}]}",
        "{killSessions: [{id: UUID('00112233-4455-6677-8899-aabbccddeeff')}]}",
        "{killAllSessions: []}",
    ];
    for (number, end) in (1..).zip(ends) {
        assert!(is_ok(&begin(&mut client, LSID, number, 1)));
        assert_eq!(counted(&mut client, "currentOpen"), 1);
        assert!(is_ok(&client.shell(end)), "{end}");
        assert_eq!(counted(&mut client, "currentOpen"), 0);
        assert_eq!(code(&find(&mut client, LSID, number)), 251);
        assert_eq!(count(&mut client, "c"), 0);
    }
    assert_eq!(counted(&mut client, "totalAborted"), 3);
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}]}")));
}

#[test]
fn a_greater_number_leaves_the_transaction_before() {
    let mut client = Client::new(&member());
    assert!(is_ok(&begin(&mut client, LSID, 1, 1)));
    let write =
        format!("{{insert: 'c', documents: [{{_id: 1}}], {LSID}, txnNumber: NumberLong(2)}}");
    assert!(is_ok(&client.shell(&write)));
    assert_eq!(code(&find(&mut client, LSID, 1)), 225);
    assert_eq!((count(&mut client, "c"), counted(&mut client, "currentOpen")), (1, 0));
    // A number of a write cannot be used for a transaction, nor the reverse.
    assert_eq!(code(&begin(&mut client, LSID, 2, 5)), 117);
    assert!(is_ok(&begin(&mut client, LSID, 3, 5)));
    assert_eq!(code(&client.shell(&write.replace("NumberLong(2)", "NumberLong(3)"))), 217);
}

#[test]
fn cursors_belong_to_their_transaction() {
    let mut client = Client::new(&member());
    client.shell("{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    assert!(is_ok(&begin(&mut client, LSID, 1, 4)));
    let opened = find(&mut client, LSID, 1);
    let Value::Int64(id) = opened.get("cursor").as_doc().unwrap().get("id") else { panic!() };
    let outside =
        client.shell(&format!("{{getMore: NumberLong('{id}'), collection: 'c', {LSID}}}"));
    assert_eq!(code(&outside), 50740);
    client.shell("{insert: 'c', documents: [{_id: 9}]}");
    let more = format!(
        "{{getMore: NumberLong('{id}'), collection: 'c', {LSID}, txnNumber: NumberLong(1), autocommit: false}}"
    );
    let rest = client.shell(&more);
    let batch = rest.get("cursor").as_doc().unwrap().get("nextBatch").to_string();
    assert_eq!(batch, "[ { _id: 2 }, { _id: 3 }, { _id: 4 } ]");
    let opened = find(&mut client, LSID, 1);
    let Value::Int64(id) = opened.get("cursor").as_doc().unwrap().get("id") else { panic!() };
    let abort =
        format!("{{abortTransaction: 1, {LSID}, txnNumber: NumberLong(1), autocommit: false}}");
    assert!(is_ok(&admin(&mut client, &abort)));
    let gone = client.run("test", doc! { "getMore": id, "collection": "c" }.as_doc());
    assert_eq!(code(&gone), 43);
}

#[test]
fn ddl_ends_transactions_and_does_not_wait() {
    let server = member();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    for (number, ddl) in (1..).zip([
        "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a'}]}",
        "{dropIndexes: 'c', index: 'a'}",
        "{collMod: 'c', validator: {a: {$exists: false}}}",
        "{renameCollection: 'test.c', to: 'test.d'}",
        "{dropDatabase: 1}",
    ]) {
        assert!(is_ok(&begin(&mut client, LSID, number, 10)), "{ddl}");
        let done = match ddl.contains("renameCollection") {
            true => admin(&mut client, ddl),
            false => client.shell(ddl),
        };
        assert!(is_ok(&done), "{done:?}");
        let ended = find(&mut client, LSID, number);
        assert_eq!(code(&ended), 246, "{ddl}");
        assert_eq!(ended.get("errorLabels").to_string(), "[ \"TransientTransactionError\" ]");
        assert_eq!(code(&find(&mut client, LSID, number)), 251);
        if ddl.contains("renameCollection") {
            client.shell("{insert: 'c', documents: [{_id: 1}]}");
        }
    }
}

#[test]
fn nobody_gets_into_the_transaction_of_another_user() {
    let server = crate::client::server_with(Arc::new(Memory::new()), Some("rs"), true);
    let mut local = Client::new(&server);
    assert!(is_ok(&admin(&mut local, "{replSetInitiate: 1}")));
    for user in ["ann", "bob"] {
        let create = format!(
            "{{createUser: '{user}', pwd: 'pwd', roles: ['root'], mechanisms: ['SCRAM-SHA-256']}}"
        );
        if user == "bob" {
            assert!(is_ok(&crate::login::log_in(&mut local, "admin", "ann", "pwd")));
        }
        assert!(is_ok(&admin(&mut local, &create)), "{user}");
    }
    let mut bob = Client::new(&server);
    assert!(is_ok(&crate::login::log_in(&mut bob, "admin", "bob", "pwd")));
    assert!(is_ok(&begin(&mut local, LSID, 1, 1)));
    // His session with the same UUID is another one, which has no transaction.
    assert_eq!(code(&find(&mut bob, LSID, 1)), 251);
    let commit =
        format!("{{commitTransaction: 1, {LSID}, txnNumber: NumberLong(1), autocommit: false}}");
    assert_eq!(code(&admin(&mut bob, &commit)), 251);
    let end = "{endSessions: [{id: UUID('00112233-4455-6677-8899-aabbccddeeff')}]}";
    assert!(is_ok(&bob.shell(end)));
    assert!(is_ok(&admin(&mut local, &commit)));
    assert!(is_ok(&begin(&mut bob, OTHER, 1, 2)));
}

#[test]
fn snapshot_reads_keep_their_state() {
    let server = member();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1, v: 1}, {_id: 2, v: 1}, {_id: 3, v: 1}]}");
    let first = client.shell("{find: 'c', batchSize: 2, readConcern: {level: 'snapshot'}}");
    let cursor = first.get("cursor").as_doc().unwrap();
    let (Value::Int64(id), Value::Timestamp(time)) =
        (cursor.get("id"), cursor.get("atClusterTime"))
    else {
        panic!("{first:?}")
    };
    client.shell("{update: 'c', updates: [{q: {}, u: {$set: {v: 2}}, multi: true}]}");
    client.shell("{insert: 'c', documents: [{_id: 4, v: 1}]}");
    let rest = client.run("test", doc! { "getMore": id, "collection": "c" }.as_doc());
    let batch = rest.get("cursor").as_doc().unwrap().get("nextBatch").to_string();
    assert_eq!(batch, "[ { _id: 3, v: 1 } ]");
    let concern = |time: u64| {
        let mut concern = doc! { "level": "snapshot" };
        concern = DocBuf::build(|w| {
            w.extend(concern.as_doc());
            w.put("atClusterTime", Value::Timestamp(time));
        });
        concern
    };
    let distinct = doc! { "distinct": "c", "key": "v", "readConcern": (&concern(time)) };
    let reply = client.run("test", distinct.as_doc());
    assert_eq!(reply.get("values").to_string(), "[ 1 ]");
    assert_eq!(reply.get("atClusterTime"), Value::Timestamp(time));
    let point = doc! { "find": "c", "filter": { "_id": 1 }, "readConcern": (&concern(time)) };
    let reply = client.run("test", point.as_doc());
    let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch").to_string();
    assert_eq!(batch, "[ { _id: 1, v: 1 } ]");
    let other = |time| doc! { "find": "c", "readConcern": (&concern(time)) };
    assert_eq!(code(&client.run("test", other(time - 1).as_doc())), 239);
    assert_eq!(code(&client.run("test", other(time + (1 << 40)).as_doc())), 72);
    client.shell("{drop: 'c'}");
    assert_eq!(code(&client.run("test", other(time).as_doc())), 246);
    let count = client.shell("{count: 'c', readConcern: {level: 'snapshot'}}");
    assert_eq!(code(&count), 72);
    let out =
        "{aggregate: 'c', pipeline: [{$out: 'x'}], cursor: {}, readConcern: {level: 'snapshot'}}";
    assert_eq!(code(&client.shell(out)), 72);
}

#[test]
fn cursors_on_equal_snapshots_live_as_long_as_the_snapshot() {
    let server = member();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}]}");
    let find = "{find: 'c', batchSize: 2, readConcern: {level: 'snapshot'}}";
    let open = |client: &mut Client| {
        let reply = client.shell(find);
        let cursor = reply.get("cursor").as_doc().unwrap();
        (cursor.get("id").to_string(), cursor.get("atClusterTime").to_string())
    };
    let more = |client: &mut Client, id: &str| {
        client.shell(&format!("{{getMore: {id}, collection: 'c', batchSize: 1}}"))
    };
    let (first, second) = (open(&mut client), open(&mut client));
    assert_eq!(first.1, second.1, "no commit in between");
    for (id, _) in [&first, &second] {
        let reply = more(&mut client, id);
        assert!(is_ok(&reply), "{reply:?}");
    }
    // More snapshots than the server keeps: the cursor's own is among the dropped ones.
    let (id, _) = open(&mut client);
    for number in 10..200 {
        client.shell(&format!("{{insert: 'c', documents: [{{_id: {number}}}]}}"));
        open(&mut client);
    }
    assert_eq!(code(&more(&mut client, &id)), 239);
}

#[test]
fn drivers_may_have_retryable_writes_fail() {
    let server = member();
    let mut client = Client::new(&server);
    let write =
        format!("{{insert: 'c', documents: [{{_id: 1}}], {LSID}, txnNumber: NumberLong(1)}}");
    let set = |client: &mut Client, data: &str| {
        let text = format!(
            "{{configureFailPoint: 'onPrimaryTransactionalWrite', mode: {{times: 1}}, data: {data}}}"
        );
        assert!(is_ok(&admin(client, &text)));
    };
    let body = nagi_bson::json::parse(&write).unwrap();
    // The commit fails: the connection closes, and the next attempt executes the write.
    set(&mut client, "{failBeforeCommitExceptionCode: 1}");
    client.message("test", 0, body.as_doc());
    assert_eq!(client.send(), nagi_server::Outcome::Close);
    assert_eq!(count(&mut client, "c"), 0);
    // The commit succeeds but the reply is lost: the next attempt is answered from the record.
    set(&mut client, "{}");
    client.message("test", 0, body.as_doc());
    assert_eq!(client.send(), nagi_server::Outcome::Close);
    assert_eq!(count(&mut client, "c"), 1);
    let again = client.shell(&write);
    assert_eq!(again.get("retriedStmtIds").to_string(), "[ 0 ]");
    // Without closing the connection, the client gets the error.
    set(&mut client, "{failBeforeCommitExceptionCode: 91, closeConnection: false}");
    let other = write.replace("_id: 1", "_id: 2").replace("NumberLong(1)", "NumberLong(2)");
    let failed = client.shell(&other);
    assert!(failed.as_doc().to_string().contains("must not be reflected"), "{failed:?}");
    assert_eq!(count(&mut client, "c"), 1);
}

#[test]
fn a_transaction_creates_no_collection_twice() {
    let mut client = Client::new(&member());
    let create = |number: i32| {
        format!(
            "{{create: 'c', {LSID}, txnNumber: NumberLong({number}), startTransaction: true, \
             autocommit: false}}"
        )
    };
    assert!(is_ok(&client.shell("{create: 'c'}")));
    assert!(is_ok(&client.shell("{create: 'c'}")), "the same again is nothing");
    assert_eq!(code(&client.shell(&create(1))), 48);
}

#[test]
fn open_transactions_are_shown() {
    let mut client = Client::new(&member());
    assert!(is_ok(&begin(&mut client, LSID, 7, 1)));
    let reply = admin(&mut client, "{currentOp: 1, type: 'idleSession'}");
    let list = reply.get("inprog").as_array().unwrap();
    let shown: Vec<_> = list.iter().filter_map(|op| op.as_doc()).collect();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].get("desc").as_str(), Some("inactive transaction"));
    let txn = shown[0].get("transaction").as_doc().unwrap().get("parameters").to_string();
    assert_eq!(txn, "{ txnNumber: 7, autocommit: false }");
    // Who to ask about it, and when it ends by itself.
    assert_eq!(shown[0].get("client").as_str(), Some("127.0.0.1:50000"));
    assert!(matches!(shown[0].get("connectionId"), Value::Int64(id) if id > 0), "{}", shown[0]);
    let txn = shown[0].get("transaction").as_doc().unwrap();
    let micros = |name: &str| nagi_bson::number::truncate_to_i64(txn.get(name)).unwrap();
    let (open, active) = (micros("timeOpenMicros"), micros("timeActiveMicros"));
    assert!(active > 0 && open >= active && micros("timeInactiveMicros") == open - active, "{txn}");
    let iso = |name: &str| txn.get(name).as_str().unwrap().to_owned();
    assert!(iso("expiryTime") > iso("startWallClockTime"), "{txn}");
    for (idle, count) in [("idleSessions: true", 1), ("", 1), ("idleSessions: false", 0)] {
        let reply = admin(
            &mut client,
            &format!(
                "{{aggregate: 1, cursor: {{}}, pipeline: [{{$currentOp: {{{idle}}}}}, \
                 {{$match: {{type: 'idleSession'}}}}]}}"
            ),
        );
        let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch");
        assert_eq!(batch.as_array().unwrap().iter().count(), count, "{idle}");
    }
}
