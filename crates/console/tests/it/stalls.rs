//! Stalls of a running server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::{Doc, DocBuf, Value, json, number};
use nagi_kv::{Faults, Faulty, Memory, Point};
use nagi_server::{Peer, Server};

use crate::harness::{Running, start_member_on, start_with};

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

const TRANSACTION: &str = "lsid: {id: UUID('00112233-4455-6677-8899-aabbccddeeff')}, \
                           txnNumber: NumberLong(1), autocommit: false";

fn run_on(server: &Arc<Server>, command: Doc<'_>) {
    let peer = Peer { address: "127.0.0.1:2".to_owned(), unix_socket: false, local: None };
    let mut connection = server.connect(peer).unwrap();
    assert!(server.run_command(&mut connection, "test", command, None, &mut Vec::new()));
}

/// The stall in progress that has a cause, once there is one.
fn stall_of(running: &Running, cause: &str) -> DocBuf {
    let is_cause = |stall: &DocBuf| {
        let causes = stall.as_doc().get("causes").as_array().unwrap();
        // What they wait for is told first, unless the machine stands still.
        let told = |one: Value<'_>| one.as_doc().unwrap().get("cause").as_str() == Some(cause);
        causes.iter().take(2).any(told)
    };
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = stalls(running).into_iter().find(is_cause) {
            return found;
        }
        assert!(Instant::now() < until, "{cause}: {:?}", stalls(running));
        std::thread::yield_now();
    }
}

/// What a write waits for: the cause of the stall, its text, and the field of currentOp.
type Waited<'a> = (&'a str, &'a str, &'a str);

struct AtEnd<'a>(&'a dyn Fn());

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A write that waits between `begin` and `end` is a stall before it ends, which grows and keeps its place in the list.
fn waits_for(
    running: &Running,
    (cause, text, waiting): Waited<'_>,
    write: &str,
    (begin, end): (&dyn Fn(), &dyn Fn()),
    queued: i64,
) {
    begin();
    std::thread::scope(|scope| {
        let server = &running.server;
        let write = json::parse(write).unwrap();
        let writer = scope.spawn(move || run_on(server, write.as_doc()));
        // Also if an assertion fails: the writer is waited for.
        let end = AtEnd(end);
        let early = stall_of(running, cause);
        assert!(json::to_relaxed(early.as_doc()).contains(text), "{early:?}");
        assert!(!writer.is_finished());
        assert!(longest_us(&early) >= 1_000_000.0, "{early:?}");
        assert_eq!(number::as_i64_exact(early.as_doc().get("operations")), Some(1), "{early:?}");
        let list = json::parse("{currentOp: 1, ns: 'test.c'}").unwrap();
        let list = running.direct("admin", list.as_doc());
        let said = json::to_relaxed(list.as_doc());
        assert!(said.contains(waiting), "{said}");
        let status = DocBuf::build(|out| server.write_status(out));
        let at = |path: [&str; 3]| {
            let one = status.as_doc().get(path[0]).as_doc()?.get(path[1]);
            number::as_i64_exact(one.as_doc()?.get(path[2]))
        };
        assert_eq!(at(["globalLock", "currentQueue", "writers"]), Some(queued));
        assert_eq!(at(["globalLock", "activeClients", "writers"]), Some(1 - queued));
        drop(end);
        writer.join().unwrap();
        let from = |stall: &DocBuf| number::as_i64_exact(stall.as_doc().get("fromMs"));
        let all = stalls(running);
        let same: Vec<_> = all.iter().filter(|stall| from(stall) == from(&early)).collect();
        assert_eq!(same.len(), 1, "{all:?}");
    });
}

const UPDATE: &str = "{update: 'c', updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}]}";

/// A member with one document.
fn member_on(engine: Arc<dyn nagi_kv::Engine>) -> Running {
    let running = start_member_on(engine);
    run(
        &running,
        "test",
        "{createIndexes: 'c', indexes: [{key: {u: 1}, name: 'u', unique: true}]}",
    );
    run(&running, "test", "{insert: 'c', documents: [{_id: 1}]}");
    running
}

#[test]
fn a_write_that_waits_for_the_lock_of_fsync_is_a_stall() {
    let running = member_on(Arc::new(Memory::new()));
    let lock = ("lock", "fsyncUnlock", "\"waitingForLock\":true");
    let begin = || run(&running, "admin", "{fsync: 1, lock: true}");
    let end = || run(&running, "admin", "{fsyncUnlock: 1}");
    waits_for(&running, lock, UPDATE, (&begin, &end), 1);
}

#[test]
fn a_write_that_waits_for_a_transaction_is_a_stall() {
    for (held, write) in [
        ("update: 'c', updates: [{q: {_id: 1}, u: {$inc: {n: 1}}}]", UPDATE),
        ("insert: 'c', documents: [{_id: 2, u: 2}]", "{insert: 'c', documents: [{_id: 3, u: 2}]}"),
    ] {
        let running = member_on(Arc::new(Memory::new()));
        let transaction = ("transaction", "unique key", "\"waitingForTransaction\":true");
        let held = format!("{{{held}, startTransaction: true, {TRANSACTION}}}");
        let abort = format!("{{abortTransaction: 1, {TRANSACTION}}}");
        let (begin, end) = (|| run(&running, "test", &held), || run(&running, "admin", &abort));
        waits_for(&running, transaction, write, (&begin, &end), 0);
    }
}

/// One write waits for the disk, and one behind it for the write of the same document. There is no transaction.
#[test]
fn a_write_behind_one_that_waits_for_the_disk_does_not_wait_for_a_transaction() {
    let faults = Faults::default();
    let running = member_on(Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone())));
    let update = json::parse(UPDATE).unwrap();
    faults.hold(Point::Commit);
    std::thread::scope(|scope| {
        let server = &running.server;
        let run = || run_on(server, update.as_doc());
        let (one, other) = (scope.spawn(run), scope.spawn(run));
        let let_go = || faults.let_go();
        let end = AtEnd(&let_go);
        let stall = json::to_relaxed(stall_of(&running, "write").as_doc());
        assert!(stall.contains("\"disk\"") && !stall.contains("\"transaction\""), "{stall}");
        let list = json::parse("{currentOp: 1, ns: 'test.c'}").unwrap();
        let said = json::to_relaxed(running.direct("admin", list.as_doc()).as_doc());
        for field in ["waitingForDisk", "waitingForWrite"] {
            assert_eq!(said.matches(field).count(), 1, "{said}");
        }
        assert!(!said.contains("waitingForTransaction"), "{said}");
        drop(end);
        one.join().unwrap();
        other.join().unwrap();
    });
}

/// The disk stands still: the engine does not take the commit.
#[test]
fn a_write_that_waits_for_the_disk_is_a_stall() {
    let faults = Faults::default();
    let running = member_on(Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone())));
    let disk = ("disk", "waited for the disk to take its commit", "\"waitingForDisk\":true");
    let (begin, end) = (|| faults.hold(Point::Commit), || faults.let_go());
    waits_for(&running, disk, UPDATE, (&begin, &end), 0);
}
