//! Clients that disconnect while their request runs.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, Value, json};

use crate::harness::{Running, body, message, start};

/// The maximum time of each wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

fn run(stream: &mut TcpStream, db: &str, command: &str) -> DocBuf {
    stream.write_all(&message(db, json::parse(command).unwrap().as_doc())).unwrap();
    body(stream)
}

/// The number of running operations with this command name.
fn running(watcher: &mut TcpStream, name: &str) -> usize {
    let list = "{aggregate: 1, pipeline: [{$currentOp: {}}], cursor: {}}";
    let reply = run(watcher, "admin", list);
    let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch");
    let is = |op: &Value<'_>| {
        let command = op.as_doc().unwrap().get("command");
        command.as_doc().is_some_and(|c| c.first().is_some_and(|first| first.name() == name))
    };
    batch.as_array().unwrap().iter().filter(is).count()
}

fn wait_until(watcher: &mut TcpStream, name: &str, count: usize) {
    let begun = Instant::now();
    while running(watcher, name) != count {
        assert!(begun.elapsed() < PATIENCE, "{name} does not become {count}");
        std::thread::yield_now();
    }
}

/// Sends a command and disconnects while it runs; returns when the server has cancelled it.
fn leave_during(running: &Running, command: &str) {
    let body = json::parse(command).unwrap();
    let name = body.as_doc().first().unwrap().name().to_owned();
    let mut watcher = running.connect();
    let before = self::running(&mut watcher, &name);
    let mut leaver = running.connect();
    leaver.write_all(&message("test", body.as_doc())).unwrap();
    wait_until(&mut watcher, &name, before + 1);
    drop(leaver);
    wait_until(&mut watcher, &name, before);
}

#[test]
fn a_long_read_ends_with_its_client() {
    let running = start("gone-read", 10, |_| ());
    let mut client = running.connect();
    let numbers: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let list = numbers.join(",");
    run(&mut client, "test", &format!("{{insert: 'c', documents: [{{a: [{list}]}}]}}"));
    // A thousand million documents, none of which matches.
    let stages = "{$set: {b: '$a', c: '$a'}}, {$unwind: '$a'}, {$unwind: '$b'}, {$unwind: '$c'}, \
                  {$match: {$expr: {$lt: [{$add: ['$a', '$b', '$c']}, -1]}}}";
    // `$currentOp` is an aggregation too. The view lets this test use `find`, so that the names differ.
    let view = format!("{{create: 'v', viewOn: 'c', pipeline: [{stages}]}}");
    run(&mut client, "test", &view);
    leave_during(&running, "{find: 'v'}");
    running.stop();
}

#[test]
fn a_wait_for_data_ends_with_its_client() {
    let running = start("gone-wait", 10, |_| ());
    let mut client = running.connect();
    run(&mut client, "test", "{create: 'c', capped: true, size: 4096}");
    run(&mut client, "test", "{insert: 'c', documents: [{_id: 1}]}");
    let opened = run(&mut client, "test", "{find: 'c', tailable: true, awaitData: true}");
    let Value::Int64(id) = opened.get("cursor").as_doc().unwrap().get("id") else {
        panic!("{opened:?}");
    };
    let more = format!("{{getMore: NumberLong('{id}'), collection: 'c', maxTimeMS: 600000}}");
    leave_during(&running, &more);
    running.stop();
}
