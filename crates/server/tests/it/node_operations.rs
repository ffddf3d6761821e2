//! Several servers that share the data: operations and sessions of one of them, seen and ended at another one.

use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, Value, json};

use crate::client::{Client, is_ok};
use crate::login::log_in;
use crate::nodes::{another, batch, code, does, find, two, two_with};

/// Runs a command in the database `test`.
fn run(client: &mut Client, text: &str) -> DocBuf {
    client.run("test", json::parse(text).unwrap().as_doc())
}

fn in_progress(client: &mut Client, text: &str) -> Vec<DocBuf> {
    let reply = does(client, text);
    let list = reply.get("inprog").as_array().unwrap();
    list.iter().map(|op| op.as_doc().unwrap().to_buf()).collect()
}

/// Begins an insert that waits at this server, which is locked. The thread has the reply.
fn waiting_insert(mut client: Client) -> std::thread::JoinHandle<DocBuf> {
    std::thread::spawn(move || run(&mut client, "{insert: 'c', documents: [{_id: 1}]}"))
}

/// Polls `currentOp` at a server until it shows an insert that waits.
fn waiting(client: &mut Client, text: &str) -> DocBuf {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let ops = in_progress(client, text);
        let waits = |op: &&DocBuf| op.get("waitingForLock") == Value::Bool(true);
        if let Some(op) = ops.iter().find(waits) {
            return op.clone();
        }
        assert!(Instant::now() < until, "{text}: {ops:?}");
        std::thread::yield_now();
    }
}

fn text<'d>(doc: &'d DocBuf, name: &str) -> &'d str {
    doc.get(name).as_str().unwrap_or_else(|| panic!("{name}: {doc:?}"))
}

#[test]
fn an_operation_of_another_server_is_shown_and_killed_by_its_name() {
    let (mut one, mut other) = two();
    does(&mut one, "{fsync: 1, lock: true}");
    let thread = waiting_insert(another(&one));
    let op = waiting(&mut other, "{currentOp: 1, op: 'insert'}");
    assert_eq!((text(&op, "shard"), text(&op, "ns")), ("store", "test.c"));
    let name = text(&op, "opid");
    let (host, id) = name.rsplit_once(':').unwrap();
    assert_eq!(host, text(&op, "host"));
    assert_eq!(text(&waiting(&mut one, "{currentOp: 1, op: 'insert'}"), "opid"), name);
    let stage =
        "{aggregate: 1, pipeline: [{$currentOp: {}}, {$match: {op: 'insert'}}], cursor: {}}";
    let found = find(&mut other, "admin", stage);
    assert_eq!(found.iter().map(|op| text(op, "opid")).collect::<Vec<_>>(), [name]);
    // Of this server only.
    for local in [
        "{currentOp: 1, op: 'insert', localOps: true}",
        "{currentOp: 1, op: 'insert', host: 'elsewhere'}",
    ] {
        assert_eq!(in_progress(&mut other, local), [], "{local}");
    }
    let own = waiting(&mut one, "{currentOp: 1, op: 'insert', localOps: true}");
    assert_eq!(own.get("opid"), Value::Int32(id.parse().unwrap()));
    assert!(own.get("shard").is_missing());
    let stage = stage.replace("{}}, ", "{localOps: true}}, ");
    assert_eq!(find(&mut other, "admin", &stage), []);
    // Another one's number, a host that is not there, names that are none.
    for harmless in [format!("'{host}:{id}0'"), format!("'elsewhere:1:{id}'"), id.to_owned()] {
        let reply = does(&mut other, &format!("{{killOp: 1, op: {harmless}}}"));
        assert!(is_ok(&reply), "{harmless}: {reply:?}");
    }
    for bad in ["'x'", "''", "'a:b'", "':1'"] {
        let reply =
            other.run("admin", json::parse(&format!("{{killOp: 1, op: {bad}}}")).unwrap().as_doc());
        assert_eq!(code(&reply), 28625, "{bad}: {reply:?}");
    }
    assert!(!thread.is_finished());
    let reply = does(&mut other, &format!("{{killOp: 1, op: '{name}'}}"));
    assert_eq!((text(&reply, "shard"), reply.get("shardid").to_string()), (host, id.to_owned()));
    assert_eq!(code(&thread.join().unwrap()), 11601);
    does(&mut one, "{fsyncUnlock: 1}");
}

#[test]
fn users_see_and_kill_their_own_operations_at_all_servers() {
    let (mut one, mut other) = two_with(true);
    does(&mut one, "{createUser: 'root', pwd: 'pwd', roles: ['root']}");
    assert!(is_ok(&log_in(&mut one, "admin", "root", "pwd")));
    for user in ["anne", "bob"] {
        let role = "[{role: 'readWrite', db: 'test'}]";
        does(&mut one, &format!("{{createUser: '{user}', pwd: 'pwd', roles: {role}}}"));
    }
    does(&mut one, "{fsync: 1, lock: true}");
    let mut writer = another(&one);
    assert!(is_ok(&log_in(&mut writer, "admin", "anne", "pwd")));
    let thread = waiting_insert(writer);
    let mut bob = another(&other);
    assert!(is_ok(&log_in(&mut bob, "admin", "bob", "pwd")));
    assert!(is_ok(&log_in(&mut other, "admin", "anne", "pwd")));
    let op = waiting(&mut other, "{currentOp: 1, $ownOps: true, op: 'insert'}");
    let name = text(&op, "opid");
    assert_eq!(in_progress(&mut bob, "{currentOp: 1, $ownOps: true, op: 'insert'}"), []);
    let kill = format!("{{killOp: 1, op: '{name}'}}");
    let nothing = format!("{{killOp: 1, op: '{name}0'}}");
    for text in [&kill, &nothing, &"{currentOp: 1}".to_owned()] {
        let reply = bob.run("admin", json::parse(text).unwrap().as_doc());
        assert_eq!(code(&reply), 13, "{text}: {reply:?}");
    }
    assert!(!thread.is_finished());
    does(&mut other, &kill);
    assert_eq!(code(&thread.join().unwrap()), 11601);
    does(&mut one, "{fsyncUnlock: 1}");
}

#[test]
fn sessions_end_at_all_servers() {
    for kill in [
        "{killSessions: [{id: UUID('00112233-4455-6677-8899-aabbccddeeff')}]}",
        "{killSessions: []}",
        "{killAllSessions: []}",
        "{killAllSessionsByPattern: [{}]}",
    ] {
        let (mut one, mut other) = two();
        let documents = "[{_id: 1}, {_id: 2}, {_id: 3}]";
        assert!(is_ok(&run(&mut one, &format!("{{insert: 'c', documents: {documents}}}"))));
        let session = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}";
        let reply = run(&mut one, &format!("{{find: 'c', batchSize: 1, {session}}}"));
        assert_eq!(batch(&reply).len(), 1);
        let cursor = reply.get("cursor").as_doc().unwrap().get("id").to_string();
        let in_txn = format!("{session}, txnNumber: NumberLong(1), autocommit: false");
        let insert =
            format!("{{insert: 'c', documents: [{{_id: 9}}], {in_txn}, startTransaction: true}}");
        assert!(is_ok(&run(&mut one, &insert)));
        does(&mut other, kill);
        let more = format!("{{getMore: NumberLong('{cursor}'), collection: 'c', {session}}}");
        assert_eq!(code(&run(&mut one, &more)), 43, "{kill}");
        let commit = format!("{{commitTransaction: 1, {in_txn}}}");
        let reply = one.run("admin", json::parse(&commit).unwrap().as_doc());
        assert_eq!(code(&reply), 251, "{kill}: {reply:?}");
        assert_eq!(find(&mut one, "test", "{find: 'c'}").len(), 3);
    }
}
