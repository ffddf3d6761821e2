//! Tickets: a reader beyond their number waits, is reported as waiting, and runs when a ticket is free.

use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, json};

use crate::client::{Client, is_ok, server};

const PATIENCE: Duration = Duration::from_secs(60);

fn admin(client: &mut Client, command: &str) -> DocBuf {
    client.run("admin", json::parse(command).unwrap().as_doc())
}

/// The operations in progress that match the `$match` filter `matching`.
fn ops(client: &mut Client, matching: &str) -> Vec<DocBuf> {
    let list = format!(
        "{{aggregate: 1, pipeline: [{{$currentOp: {{}}}}, {{$match: {matching}}}], cursor: {{}}}}"
    );
    let reply = admin(client, &list);
    assert!(is_ok(&reply), "{reply:?}");
    let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch");
    batch.as_array().unwrap().iter().map(|op| op.as_doc().unwrap().to_buf()).collect()
}

fn wait_for(client: &mut Client, matching: &str, count: usize) -> Vec<DocBuf> {
    let begun = Instant::now();
    loop {
        let found = ops(client, matching);
        if found.len() == count {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{matching}: {found:?}");
        std::thread::yield_now();
    }
}

#[test]
fn one_reader_too_many_waits_and_comes_in() {
    let server = server();
    let mut client = Client::new(&server);
    let few = "{setParameter: 1, storageEngineConcurrentReadTransactions: 5}";
    assert!(is_ok(&admin(&mut client, few)));
    let set = "{getParameter: 1, wiredTigerConcurrentReadTransactions: 1}";
    let twin = admin(&mut client, set).get("wiredTigerConcurrentReadTransactions").to_string();
    assert_eq!(twin, "5");
    let numbers: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let list = numbers.join(",");
    client.shell(&format!("{{insert: 'c', documents: [{{_id: 1, a: [{list}]}}]}}"));
    let long = "{aggregate: 'c', pipeline: [{$set: {b: '$a', c: '$a'}}, {$unwind: '$a'}, \
                {$unwind: '$b'}, {$unwind: '$c'}, {$match: {$expr: {$lt: ['$a', -1]}}}], \
                cursor: {}}";
    std::thread::scope(|scope| {
        let long_ones: Vec<_> = (0..5)
            .map(|_| {
                let mut reader = Client::new(&server);
                scope.spawn(move || reader.shell(long))
            })
            .collect();
        wait_for(&mut client, "{'command.aggregate': 'c', currentQueue: null}", 5);
        let mut late = Client::new(&server);
        let late = scope.spawn(move || late.shell("{find: 'c', filter: {_id: 1}, limit: 1}"));
        let queued = wait_for(&mut client, "{'currentQueue.name': 'execution'}", 1);
        assert!(!queued[0].get("command").as_doc().unwrap().get("find").is_missing());
        let status = admin(&mut client, "{serverStatus: 1}");
        let read = status.get("wiredTiger").as_doc().unwrap();
        let read = read.get("concurrentTransactions").as_doc().unwrap().get("read").to_string();
        assert_eq!(read, "{ out: 5, available: 0, totalTickets: 5 }");
        // Writers have tickets of their own, and other commands need none.
        assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 2}]}")));
        for op in ops(&mut client, "{'command.aggregate': 'c'}") {
            let kill = format!("{{killOp: 1, op: {}}}", op.get("opid"));
            assert!(is_ok(&admin(&mut client, &kill)));
        }
        assert!(is_ok(&late.join().unwrap()));
        for long in long_ones {
            assert_eq!(long.join().unwrap().get("code").to_string(), "11601");
        }
    });
}
