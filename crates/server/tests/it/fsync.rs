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

/// What the server writes by itself waits, and so do commands that write something else than documents.
#[test]
fn nothing_is_written_under_a_lock() {
    let server = server_on(Arc::new(Memory::new()), Some("rs"));
    let (mut client, mut admin) = (Client::new(&server), Client::new(&server));
    let mut does = |text: &str| {
        let reply = admin.run("admin", json::parse(text).unwrap().as_doc());
        assert!(is_ok(&reply), "{text}: {reply:?}");
        reply
    };
    does("{replSetInitiate: {}}");
    does("{setParameter: 1, ttlMonitorSleepSecs: 3600}");
    for text in [
        "{createIndexes: 'c', indexes: [{key: {t: 1}, name: 't', expireAfterSeconds: 0}]}",
        "{insert: 'c', documents: [{_id: 1, t: ISODate('2000-01-01T00:00:00Z')}, {_id: 2}]}",
        "{profile: 2}",
    ] {
        assert!(is_ok(&client.shell(text)), "{text}");
    }
    does("{fsync: 1, lock: true}");
    let profiled = "{count: 'system.profile', query: {'command.comment': 'under the lock'}}";
    let reply = client.shell("{find: 'c', comment: 'under the lock'}");
    assert!(is_ok(&reply), "a read does not wait for its entry in the profile: {reply:?}");
    let config = does("{replSetGetConfig: 1}").get("config").as_doc().unwrap().to_buf();
    let newer = config.get("version").to_string().parse::<i32>().unwrap() + 1;
    let config = DocBuf::build(|w| {
        let fields = config.as_doc();
        fields.iter().filter(|e| e.name() != "version").for_each(|e| w.put_element(e));
        w.put("version", newer);
    });
    let limited = |name: &str, value: Value<'_>, more: &str| {
        let more = json::parse(more).unwrap();
        let command = DocBuf::build(|w| {
            w.put(name, value);
            w.extend(more.as_doc());
            w.put("maxTimeMS", 50);
        });
        let reply = Client::new(&server).run("admin", command.as_doc());
        assert_eq!(code(reply.as_doc()), "50", "{name}: {reply:?}");
    };
    let one = Value::Int32(1);
    limited("appendOplogNote", one, "{data: {a: 1}}");
    limited("replSetResizeOplog", one, "{size: 991.0}");
    limited("replSetReconfig", Value::Doc(config.as_doc()), "{}");
    limited("replSetStepDown", one, "{force: true, secondaryCatchUpPeriodSecs: 0}");
    // A pass each second from now on, were it not for the lock.
    does("{setParameter: 1, ttlMonitorSleepSecs: 1}");
    let mut up = || number::truncate_to_i64(does("{serverStatus: 1}").get("uptimeMillis"));
    let begun = up();
    while up() < begun.map(|ms| ms + 2500) {
        std::thread::yield_now();
    }
    assert_eq!(client.shell("{find: 'c'}").get("cursor").to_string().matches("_id").count(), 2);
    does("{fsyncUnlock: 1}");
    while client.shell("{count: 'c', query: {t: {$exists: true}}}").get("n") != Value::Int32(0) {
        std::thread::yield_now();
    }
    assert_eq!(client.shell(profiled).get("n"), Value::Int32(0));
}

fn ops(admin: &mut Client, text: &str) -> String {
    admin.run("admin", json::parse(text).unwrap().as_doc()).get("inprog").to_string()
}

/// A statement over many documents lets a lock in between two of its transactions, and continues after it.
#[test]
fn a_lock_does_not_wait_for_all_documents_of_an_update() {
    let (server, faults) = on_a_slow_disk();
    let (mut client, mut admin) = (Client::new(&server), Client::new(&server));
    let documents: Vec<String> = (0..1000).map(|id| format!("{{_id: {id}}}")).collect();
    let insert = format!("{{insert: 'c', documents: [{}]}}", documents.join(", "));
    assert!(is_ok(&client.shell(&insert)));
    for write in [
        "{update: 'c', updates: [{q: {}, u: {$set: {a: 1}}, multi: true}]}",
        "{delete: 'c', deletes: [{q: {}, limit: 0}]}",
    ] {
        faults.hold(Point::Commit);
        std::thread::scope(|threads| {
            let _goes_on = LetsGo(&faults);
            let writing = threads.spawn(|| Client::new(&server).shell(write));
            while ops(&mut admin, "{currentOp: 1, ns: 'test.c', active: true}") == "[]" {
                std::thread::yield_now();
            }
            let before = stops(&mut admin);
            let lock = threads.spawn(|| {
                Client::new(&server).run("admin", doc! { "fsync": 1, "lock": true }.as_doc())
            });
            let waits = "{currentOp: 1, 'command.lock': true, waitingForLock: true}";
            while ops(&mut admin, waits) == "[]" {
                std::thread::yield_now();
            }
            faults.let_go();
            assert!(is_ok(&lock.join().unwrap()));
            assert_eq!(stops(&mut admin), before + 1);
            assert!(!writing.is_finished(), "{write}");
            assert!(is_ok(&admin.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
            let reply = writing.join().unwrap();
            assert_eq!(reply.get("n"), Value::Int32(1000), "{reply:?}");
        });
    }
}
