//! Tailable cursors that wait for data are woken by an insert, by a kill, and by the shutdown of the server.

use std::sync::Arc;
use std::time::Instant;

use nagi_bson::{Doc, DocBuf, Value};
use nagi_server::Server;

use crate::client::{Client, is_ok, server};
use crate::login::{guarded_member, log_in};

/// A getMore that is not woken ends after this time, with another reply. Longer than any step takes on a busy machine.
const PATIENCE_MS: u64 = 600_000;

fn cursor_on_capped(client: &mut Client) -> i64 {
    client.shell("{create: 'c', capped: true, size: 4096}");
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    let reply = client.shell("{find: 'c', tailable: true, awaitData: true}");
    match reply.get("cursor").as_doc().map(|cursor| cursor.get("id")) {
        Some(Value::Int64(id)) if id != 0 => id,
        _ => panic!("no cursor: {reply:?}"),
    }
}

/// Runs `act` while a getMore waits, and returns the reply of the getMore.
fn while_waiting(act: impl FnOnce(&Arc<Server>, &mut Client, i64)) -> DocBuf {
    let server = server();
    let mut client = Client::new(&server);
    let id = cursor_on_capped(&mut client);
    let mut waiter = Client::new(&server);
    let more =
        format!("{{getMore: NumberLong('{id}'), collection: 'c', maxTimeMS: {PATIENCE_MS}}}");
    std::thread::scope(|scope| {
        let getting = scope.spawn(|| waiter.shell(&more));
        let running = "{aggregate: 1, pipeline: [{$currentOp: {}}], cursor: {}}";
        loop {
            let ops = client.run("admin", nagi_bson::json::parse(running).unwrap().as_doc());
            let batch = ops.get("cursor").as_doc().unwrap().get("firstBatch");
            let waiting = batch.as_array().unwrap().iter().find(|op| {
                let command = op.as_doc().unwrap().get("command");
                command.as_doc().is_some_and(|c| !c.get("getMore").is_missing())
            });
            // Before it has checked out the cursor the operation has none.
            let cursor = waiting.map_or(Value::Missing, |op| op.as_doc().unwrap().get("cursor"));
            if let (Some(op), Value::Doc(cursor)) = (waiting, cursor) {
                check_cursor(op.as_doc().unwrap(), cursor, id);
                break;
            }
            assert!(!getting.is_finished(), "it did not wait: {:?}", getting.join());
            std::thread::yield_now();
        }
        act(&server, &mut client, id);
        getting.join().unwrap()
    })
}

/// Checks what currentOp tells of the cursor for which an operation waits.
fn check_cursor(op: Doc<'_>, cursor: Doc<'_>, id: i64) {
    let names: Vec<&str> = cursor.iter().map(|field| field.name()).collect();
    let expected = "cursorId createdDate lastAccessDate nDocsReturned nBatchesReturned noCursorTimeout tailable \
                    awaitData originatingCommand planSummary operationUsingCursorId";
    assert_eq!(names.join(" "), expected);
    assert_eq!(cursor.get("cursorId"), Value::Int64(id));
    assert_eq!(cursor.get("awaitData"), Value::Bool(true));
    assert_eq!(cursor.get("operationUsingCursorId").to_string(), op.get("opid").to_string());
    let command = cursor.get("originatingCommand").as_doc().unwrap();
    assert_eq!(command.get("find").as_str(), Some("c"), "{cursor}");
}

#[test]
fn an_insert_wakes_it() {
    let reply = while_waiting(|_, client, _| {
        assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 2}]}")));
    });
    assert_eq!(
        reply.get("cursor").as_doc().unwrap().get("nextBatch").to_string(),
        "[ { _id: 2 } ]"
    );
}

#[test]
fn a_kill_wakes_it() {
    let reply = while_waiting(|_, client, id| {
        let kill = format!("{{killCursors: 'c', cursors: [NumberLong('{id}')]}}");
        assert!(is_ok(&client.shell(&kill)));
    });
    assert_eq!(reply.get("code").to_string(), "237");
}

/// mongostat reports the clients that are active without a ticket as queued.
#[test]
fn it_is_no_active_client_while_it_waits() {
    let begun = Instant::now();
    while_waiting(|_, client, _| {
        let status = nagi_bson::json::parse("{serverStatus: 1}").unwrap();
        loop {
            let reply = client.run("admin", status.as_doc());
            let lock = reply.get("globalLock").as_doc().unwrap();
            let readers = lock.get("activeClients").as_doc().unwrap().get("readers");
            if readers == Value::Int32(0) {
                break;
            }
            assert!(begun.elapsed().as_millis() < u128::from(PATIENCE_MS) / 2, "{lock}");
            std::thread::yield_now();
        }
        assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 2}]}")));
    });
}

#[test]
fn a_drop_wakes_it() {
    let reply = while_waiting(|_, client, _| {
        assert!(is_ok(&client.shell("{drop: 'c'}")));
    });
    assert_eq!(reply.get("code").to_string(), "175");
}

#[test]
fn the_end_of_the_server_wakes_it() {
    let reply = while_waiting(|server, _, _| server.stop());
    assert_eq!(reply.get("code").to_string(), "11600");
}

/// Waits until an operation of `user` waits in a getMore with its cursor checked out.
fn until_waiting(watcher: &mut Client) {
    let running = "{aggregate: 1, pipeline: [{$currentOp: {allUsers: true}}], cursor: {}}";
    loop {
        let ops = watcher.run("admin", nagi_bson::json::parse(running).unwrap().as_doc());
        let batch = ops.get("cursor").as_doc().unwrap().get("firstBatch");
        let waits = batch.as_array().unwrap().iter().any(|op| {
            let op = op.as_doc().unwrap();
            op.get("command").as_doc().is_some_and(|command| !command.get("getMore").is_missing())
                && !op.get("cursor").is_missing()
        });
        if waits {
            return;
        }
        std::thread::yield_now();
    }
}

/// A getMore that waits while its user is dropped, or loses the right to read, replies nothing of what comes then.
#[test]
fn rights_are_checked_again_after_the_wait() {
    let server = guarded_member();
    let mut root = Client::new(&server);
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    root.shell("{create: 'c', capped: true, size: 4096}");
    root.shell("{create: 'd'}");
    for (collection, open) in [
        ("c", "{find: 'c', tailable: true, awaitData: true}"),
        ("d", "{aggregate: 'd', pipeline: [{$changeStream: {}}], cursor: {}}"),
    ] {
        for end in ["{dropUser: 'u'}", "{revokeRolesFromUser: 'u', roles: ['readWrite']}"] {
            root.shell("{dropUser: 'u'}");
            assert!(is_ok(&root.shell("{createUser: 'u', pwd: 'p', roles: ['readWrite']}")));
            let mut user = Client::new(&server);
            assert!(is_ok(&log_in(&mut user, "test", "u", "p")));
            root.shell(&format!("{{insert: '{collection}', documents: [{{a: 1}}]}}"));
            let opened = user.shell(open);
            let Some(Value::Int64(id)) = opened.get("cursor").as_doc().map(|c| c.get("id")) else {
                panic!("{opened:?}");
            };
            let more = format!(
                "{{getMore: NumberLong('{id}'), collection: '{collection}', maxTimeMS: {PATIENCE_MS}}}"
            );
            let reply = std::thread::scope(|scope| {
                let waiting = scope.spawn(|| user.shell(&more));
                until_waiting(&mut root);
                assert!(is_ok(&root.shell(end)));
                root.shell(&format!("{{insert: '{collection}', documents: [{{late: 'late'}}]}}"));
                waiting.join().unwrap()
            });
            assert_eq!(reply.get("code"), Value::Int32(13), "{open} {end}: {reply:?}");
            assert!(!reply.as_doc().to_string().contains("late"), "{reply:?}");
        }
    }
}
