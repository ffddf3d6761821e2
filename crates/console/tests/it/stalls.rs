//! Stalls of a running server.

use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, Value, json, number};

use crate::harness::{Running, start_with};

fn run(running: &Running, db: &str, command: &str) {
    let command = json::parse(command).unwrap();
    let reply = running.direct(db, command.as_doc());
    assert_eq!(number::as_f64(reply.as_doc().get("ok")), Some(1.0), "{reply:?}");
}

fn stalls(running: &Running) -> Vec<DocBuf> {
    let reply = running.get("/api/stalls", "").json();
    let Value::Array(list) = reply.as_doc().get("stalls") else { panic!("{reply:?}") };
    list.iter().filter_map(|stall| Some(stall.as_doc()?.to_buf())).collect()
}

fn longest_us(stall: &DocBuf) -> f64 {
    number::as_f64(stall.as_doc().get("longestUs")).unwrap()
}

/// A script that takes three seconds is no stall of the server; a command that waits for half a second is one.
#[test]
fn only_what_waits_is_a_stall() {
    let running = start_with(false, None, &[("enableTestCommands", "1")]);
    run(&running, "test", "{insert: 'c', documents: [{_id: 1}]}");
    run(&running, "test", "{find: 'c', filter: {$where: 'sleep(3000) || true'}}");
    let waits = "{configureFailPoint: 'failCommand', mode: {times: 1}, \
                 data: {failCommands: ['count'], blockConnection: true, blockTimeMS: 500}}";
    run(&running, "admin", waits);
    run(&running, "test", "{count: 'c'}");
    let long = running.server.long_operations_after(0);
    let told = |name: &str| {
        let one = long.iter().find(|one| one.name == name && one.micros >= 500_000);
        one.map(|one| (one.namespace.as_str(), one.is_command, one.ran()))
    };
    assert_eq!(told("find"), Some(("test.c", false, true)), "{long:?}");
    assert_eq!(told("count"), Some(("test.c", false, false)), "{long:?}");
    let until = Instant::now() + Duration::from_secs(60);
    while !stalls(&running).iter().any(|stall| longest_us(stall) >= 500_000.0) {
        assert!(Instant::now() < until, "{:?}", stalls(&running));
        std::thread::yield_now();
    }
    // The script ended before the command that waited.
    let all = stalls(&running);
    assert!(all.iter().all(|stall| longest_us(stall) < 3_000_000.0), "{all:?}");
}
