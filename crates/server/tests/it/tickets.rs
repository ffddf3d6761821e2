//! Tickets: an operation beyond their number waits, is reported as waiting, and runs when another one is finished or
//! long.

use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, json};

use crate::client::{Client, is_ok, member, server};

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

fn wait_for(client: &mut Client, matching: &str, enough: impl Fn(usize) -> bool) -> Vec<DocBuf> {
    let begun = Instant::now();
    loop {
        let found = ops(client, matching);
        if enough(found.len()) {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{matching}: {found:?}");
        std::thread::yield_now();
    }
}

fn set_five(client: &mut Client, kind: &str) {
    let few = format!("{{setParameter: 1, storageEngineConcurrent{kind}Transactions: 5}}");
    assert!(is_ok(&admin(client, &few)));
}

/// Many more than there are tickets, so that some wait for a while.
const LONG: usize = 40;

#[test]
fn long_readers_wait_for_a_ticket_and_hand_it_over() {
    let server = server();
    let mut client = Client::new(&server);
    set_five(&mut client, "Read");
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
        let long_ones: Vec<_> = (0..LONG)
            .map(|_| {
                let mut reader = Client::new(&server);
                scope.spawn(move || reader.shell(long))
            })
            .collect();
        let queued = wait_for(&mut client, "{'currentQueue.name': 'execution'}", |count| count > 0);
        assert!(!queued[0].get("command").as_doc().unwrap().get("aggregate").is_missing());
        let status = admin(&mut client, "{serverStatus: 1}");
        let read = status.get("wiredTiger").as_doc().unwrap();
        let read = read.get("concurrentTransactions").as_doc().unwrap().get("read").to_string();
        assert!(read.ends_with("totalTickets: 5 }"), "{read}");
        // Writers have tickets of their own, and other commands need none.
        assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 2}]}")));
        // A short read comes in, although none of them ends.
        assert!(is_ok(&client.shell("{find: 'c', filter: {_id: 1}, limit: 1}")));
        let running = wait_for(&mut client, "{'command.aggregate': 'c'}", |count| count == LONG);
        for op in running {
            let kill = format!("{{killOp: 1, op: {}}}", op.get("opid"));
            assert!(is_ok(&admin(&mut client, &kill)));
        }
        for long in long_ones {
            assert_eq!(long.join().unwrap().get("code").to_string(), "11601");
        }
    });
    let status = format!("{:?}", admin(&mut client, "{serverStatus: 1}"));
    assert!(status.contains("read: { out: 0, available: 5, totalTickets: 5 }"));
}

#[test]
fn writers_that_wait_for_a_transaction_hand_their_tickets_over() {
    let server = member();
    let mut client = Client::new(&server);
    set_five(&mut client, "Write");
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1, n: 0}]}")));
    let txn = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, txnNumber: NumberLong(1), autocommit: false";
    let first = format!(
        "{{update: 'c', updates: [{{q: {{_id: 1}}, u: {{$set: {{t: 1}}}}}}], startTransaction: true, {txn}}}"
    );
    let mut holder = Client::new(&server);
    let reply = holder.shell(&first);
    assert!(is_ok(&reply), "{reply:?}");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..LONG)
            .map(|_| {
                let mut writer = Client::new(&server);
                let add = "{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}]}";
                scope.spawn(move || writer.shell(add))
            })
            .collect();
        wait_for(&mut client, "{op: 'update', 'command.q._id': 1}", |count| count == LONG);
        assert!(is_ok(&client.shell("{insert: 'other', documents: [{_id: 1}]}")));
        assert!(waiting.iter().all(|writer| !writer.is_finished()));
        let abort = format!("{{abortTransaction: 1, {txn}}}");
        assert!(is_ok(&admin(&mut holder, &abort)));
        for writer in waiting {
            assert!(is_ok(&writer.join().unwrap()));
        }
    });
    let found =
        format!("{:?}", client.shell("{find: 'c', filter: {_id: 1, n: 40, t: {$exists: false}}}"));
    assert!(found.contains("n: 40"), "{found}");
}
