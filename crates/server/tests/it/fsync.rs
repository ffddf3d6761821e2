//! `fsync` and its lock while the disk stands still.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, doc, json, number};
use nagi_kv::{Engine, Faults, Faulty, Memory, Point};
use nagi_server::Server;

use crate::client::{Client, is_ok, server_on};

fn on_a_slow_disk() -> (Arc<Server>, Faults) {
    let faults = Faults::default();
    let engine: Arc<dyn Engine> = Arc::new(Faulty::new(Arc::new(Memory::new()), faults.clone()));
    (server_on(engine, None), faults)
}

fn is_locked(client: &mut Client) -> bool {
    let reply = client.run("admin", doc! { "currentOp": 1 }.as_doc());
    reply.get("fsyncLock") == Value::Bool(true)
}

/// Kills the first operation that has this field, once there is one.
fn kill(admin: &mut Client, field: &str) {
    let asked = json::parse(&format!("{{currentOp: 1, '{field}': {{$exists: true}}}}")).unwrap();
    let op = loop {
        let reply = admin.run("admin", asked.as_doc());
        let first = reply.get("inprog").as_array().and_then(|list| list.iter().next());
        match first.and_then(|op| op.as_doc().map(|op| op.get("opid").to_string())) {
            Some(op) => break op,
            None => std::thread::yield_now(),
        }
    };
    let kill = json::parse(&format!("{{killOp: 1, op: {op}}}")).unwrap();
    assert!(is_ok(&admin.run("admin", kill.as_doc())));
}

fn code(reply: Doc<'_>) -> String {
    reply.get("code").to_string()
}

/// What `command` replies that ends while the disk stands still, by a time limit and by `killOp`.
fn codes_on_a_disk_that_stands_still(command: &str) {
    let (server, faults) = on_a_slow_disk();
    let (mut client, mut admin) = (Client::new(&server), Client::new(&server));
    let limited = json::parse(&format!("{{{command}, maxTimeMS: 50}}")).unwrap();
    let unlimited = json::parse(&format!("{{{command}}}")).unwrap();
    faults.hold(Point::Maintain);
    assert_eq!(code(client.run("admin", limited.as_doc()).as_doc()), "50");
    std::thread::scope(|threads| {
        let killed = threads.spawn(|| Client::new(&server).run("admin", unlimited.as_doc()));
        kill(&mut admin, "command.fsync");
        assert_eq!(code(killed.join().unwrap().as_doc()), "11601");
    });
    // The disk still stands still, but there is no lock.
    assert!(!is_locked(&mut admin));
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}], maxTimeMS: 20000}")));
    let unlocked = admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc());
    assert!(!is_ok(&unlocked), "{unlocked:?}");
    faults.let_go();
    let reply = client.run("admin", unlimited.as_doc());
    assert!(is_ok(&reply), "{reply:?}");
}

#[test]
fn an_fsync_can_be_interrupted_while_the_disk_stands_still() {
    codes_on_a_disk_that_stands_still("fsync: 1");
}

#[test]
fn an_fsync_lock_can_be_interrupted_and_leaves_nothing_locked() {
    codes_on_a_disk_that_stands_still("fsync: 1, lock: true");
    codes_on_a_disk_that_stands_still("fsync: 1, lock: true, allowFsyncFailure: true");
}

#[test]
fn the_time_limit_of_the_lock_covers_the_disk() {
    let (server, faults) = on_a_slow_disk();
    let mut client = Client::new(&server);
    faults.hold(Point::Maintain);
    let lock = doc! { "fsync": 1, "lock": true, "fsyncLockAcquisitionTimeoutMillis": 50 };
    assert_eq!(code(client.run("admin", lock.as_doc()).as_doc()), "24");
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}], maxTimeMS: 20000}")));
    faults.let_go();
}

/// The log's own failure is allowed, an interruption is not.
#[test]
fn a_log_that_cannot_be_synced_leaves_a_lock_only_if_that_is_allowed() {
    let (server, faults) = on_a_slow_disk();
    let mut client = Client::new(&server);
    let error = || nagi_kv::Error::Full;
    for (allowed, skipped) in [(false, 1), (true, 1)] {
        faults.arm(Point::Maintain, skipped, 1, error);
        let lock = doc! { "fsync": 1, "lock": true, "allowFsyncFailure": allowed };
        let reply = client.run("admin", lock.as_doc());
        assert_eq!(is_ok(&reply), allowed, "{reply:?}");
        assert_eq!(is_locked(&mut client), allowed);
    }
    assert!(is_ok(&client.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
    assert!(!is_locked(&mut client));
}

/// How many fsync locks have stopped writes so far.
fn stops(client: &mut Client) -> i64 {
    let reply = client.shell("{serverStatus: 1}");
    let global = reply.get("locks").as_doc().map(|locks| locks.get("Global"));
    let count = global.and_then(|global| global.as_doc()?.get("acquireCount").as_doc());
    count.map_or(0, |count| number::truncate_to_i64(count.get("W")).unwrap_or(0))
}

/// An `fsync` lock in a thread of its own. Once this returns it has stopped writes, and next it waits for the disk.
fn begin_lock<'s>(
    threads: &'s std::thread::Scope<'s, '_>,
    server: &'s Arc<Server>,
    admin: &mut Client,
) -> std::thread::ScopedJoinHandle<'s, DocBuf> {
    let before = stops(admin);
    let lock = threads
        .spawn(|| Client::new(server).run("admin", doc! { "fsync": 1, "lock": true }.as_doc()));
    while stops(admin) == before {
        std::thread::yield_now();
    }
    lock
}

/// Lets the disk go on also when a test fails, so that its threads end.
struct LetsGo<'f>(&'f Faults);

impl Drop for LetsGo<'_> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// Whether a write goes on.
fn writes(client: &mut Client) -> bool {
    let reply = client.shell("{insert: 'c', documents: [{}], maxTimeMS: 100}");
    assert!(is_ok(&reply) || code(reply.as_doc()) == "50", "{reply:?}");
    is_ok(&reply)
}

/// A lock that fails while another one waits for the disk leaves that alone, and an unlock takes neither.
#[test]
fn a_lock_that_fails_leaves_the_next_one_locked() {
    let (server, faults) = on_a_slow_disk();
    let (mut client, mut admin) = (Client::new(&server), Client::new(&server));
    faults.hold(Point::Maintain);
    std::thread::scope(|threads| {
        let _goes_on = LetsGo(&faults);
        let first = begin_lock(threads, &server, &mut admin);
        let unlock = |admin: &mut Client| admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc());
        assert_eq!(code(unlock(&mut admin).as_doc()), "20");
        assert!(!writes(&mut client) && !is_locked(&mut admin));
        kill(&mut admin, "command.lock");
        let error = first.join().unwrap();
        assert_eq!(code(error.as_doc()), "11601");
        assert!(writes(&mut client));
        // The same with another one that goes on.
        let first = begin_lock(threads, &server, &mut admin);
        let second = begin_lock(threads, &server, &mut admin);
        assert_eq!(code(unlock(&mut admin).as_doc()), "20");
        kill(&mut admin, "command.lock");
        while !first.is_finished() && !second.is_finished() {
            std::thread::yield_now();
        }
        let (ended, goes_on) = if first.is_finished() { (first, second) } else { (second, first) };
        assert_eq!(code(ended.join().unwrap().as_doc()), "11601");
        assert!(!writes(&mut client), "that of the other one");
        faults.let_go();
        let reply = goes_on.join().unwrap();
        assert!(is_ok(&reply), "{reply:?}");
        assert_eq!(reply.get("lockCount").to_string(), "1");
        assert!(is_locked(&mut admin) && !writes(&mut client));
        assert_eq!(unlock(&mut admin).get("lockCount").to_string(), "0");
        assert!(!is_locked(&mut admin) && writes(&mut client));
    });
}

/// An unlock takes the lock that a client was told of, and the one that waits is answered with one that is there.
#[test]
fn an_unlock_takes_a_lock_that_is_held_and_none_that_waits() {
    let (server, faults) = on_a_slow_disk();
    let (mut client, mut admin) = (Client::new(&server), Client::new(&server));
    let lock = doc! { "fsync": 1, "lock": true };
    assert!(is_ok(&client.run("admin", lock.as_doc())));
    faults.hold(Point::Maintain);
    std::thread::scope(|threads| {
        let _goes_on = LetsGo(&faults);
        let second = begin_lock(threads, &server, &mut admin);
        let reply = admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc());
        faults.let_go();
        let locked = second.join().unwrap();
        assert!(is_ok(&reply) && is_ok(&locked), "{reply:?} {locked:?}");
        assert_eq!(reply.get("lockCount").to_string(), "0");
        assert_eq!(locked.get("lockCount").to_string(), "1");
        assert!(is_locked(&mut admin) && !writes(&mut client));
    });
    assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
    assert!(writes(&mut client));
}
