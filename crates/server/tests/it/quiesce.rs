//! Quiesce mode: between `shutdown` and its exit a member of a replica set finishes the work in progress, and
//! its `hello` directs drivers to other members.

use std::sync::Arc;
use std::thread::JoinHandle;

use nagi_bson::{DocBuf, Value, ValueBuf, doc, json};
use nagi_server::Server;

use crate::client::{Client, is_ok, member, router, server};

const SHUTDOWN_IN_PROGRESS: i32 = 91;
const TIMEOUT_MS: i64 = 600_000;

/// An endless read, and a `shutdown` that waits for it.
struct Ending {
    read: JoinHandle<DocBuf>,
    shutdown: JoinHandle<DocBuf>,
}

fn end(server: &Arc<Server>) -> Ending {
    let mut reader = Client::new(server);
    reader.shell("{insert: 'c', documents: [{_id: 1}]}");
    let read = std::thread::spawn(move || {
        reader.shell("{find: 'c', filter: {$where: 'while (true) {}'}, comment: 'endless'}")
    });
    let mut other = Client::new(server);
    while opid(&mut other, "find").is_none() {
        std::thread::yield_now();
    }
    let mut stopper = Client::new(server);
    let shutdown = std::thread::spawn(move || {
        stopper.run("admin", doc! { "shutdown": 1, "timeoutSecs": TIMEOUT_MS / 1000 }.as_doc())
    });
    while opid(&mut other, "shutdown").is_none() {
        assert!(!shutdown.is_finished(), "it waits for the read");
        std::thread::yield_now();
    }
    Ending { read, shutdown }
}

/// The id of the operation that runs this command; a name with the server's at a router.
fn opid(client: &mut Client, command: &str) -> Option<ValueBuf> {
    let reply = client.run("admin", doc! { "currentOp": 1 }.as_doc());
    let Value::Array(ops) = reply.get("inprog") else { panic!("{reply:?}") };
    let found = ops.iter().filter_map(|op| op.as_doc()).find(|op| {
        op.get("command").as_doc().and_then(|doc| doc.first()).is_some_and(|e| e.name() == command)
    })?;
    match found.get("opid") {
        id @ (Value::Int32(_) | Value::String(_)) => Some(ValueBuf::new(id)),
        other => panic!("{other}"),
    }
}

fn kill(client: &mut Client, command: &str) {
    let id = opid(client, command).unwrap();
    assert!(is_ok(&client.run("admin", doc! { "killOp": 1, "op": (id.value()) }.as_doc())));
}

/// Repeats `hello` until the reply is an error (`refused`) or is none.
fn hello(client: &mut Client, refused: bool) -> DocBuf {
    loop {
        let reply = client.shell("{hello: 1}");
        if is_ok(&reply) != refused {
            return reply;
        }
        std::thread::yield_now();
    }
}

fn counter(reply: &DocBuf) -> i64 {
    match reply.get("topologyVersion").as_doc().unwrap().get("counter") {
        Value::Int64(n) => n,
        other => panic!("{other}"),
    }
}

#[test]
fn a_member_that_ends_says_so_and_works_on() {
    says_so_and_works_on(&member());
}

#[test]
fn a_router_that_ends_says_so_and_works_on() {
    says_so_and_works_on(&router());
}

fn says_so_and_works_on(server: &Arc<Server>) {
    let mut client = Client::new(server);
    let before = counter(&client.shell("{hello: 1}"));
    let ending = end(server);
    let reply = hello(&mut client, true);
    assert_eq!(reply.get("code"), Value::Int32(SHUTDOWN_IN_PROGRESS));
    assert_eq!(
        reply.get("errmsg"),
        Value::String("The server is in quiesce mode and will shut down")
    );
    let Value::Int64(remaining) = reply.get("remainingQuiesceTimeMillis") else {
        panic!("{reply:?}")
    };
    assert!((1..=TIMEOUT_MS).contains(&remaining), "{remaining}");
    assert_eq!(counter(&reply), before + 1);
    // A monitor that knows this topology version does not wait for the next one.
    let known = DocBuf::build(|w| {
        w.put("hello", 1);
        w.put("maxAwaitTimeMS", TIMEOUT_MS);
        w.put("topologyVersion", reply.get("topologyVersion"));
    });
    let again = client.run("admin", known.as_doc());
    assert_eq!(again.get("code"), Value::Int32(SHUTDOWN_IN_PROGRESS));
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 2}]}")));
    assert!(is_ok(&client.shell("{count: 'c'}")));
    kill(&mut client, "find");
    assert!(!is_ok(&ending.read.join().unwrap()));
    assert!(is_ok(&ending.shutdown.join().unwrap()));
    server.wait_for_shutdown();
}

#[test]
fn a_shutdown_that_is_killed_ends_the_mode() {
    let server = member();
    let mut client = Client::new(&server);
    let before = counter(&client.shell("{hello: 1}"));
    let ending = end(&server);
    hello(&mut client, true);
    kill(&mut client, "shutdown");
    assert!(!is_ok(&ending.shutdown.join().unwrap()));
    assert_eq!(counter(&hello(&mut client, false)), before + 2);
    kill(&mut client, "find");
    ending.read.join().unwrap();
}

#[test]
fn a_standalone_has_no_such_mode() {
    let server = server();
    let mut client = Client::new(&server);
    let ending = end(&server);
    assert!(is_ok(&client.shell("{hello: 1}")));
    kill(&mut client, "find");
    ending.read.join().unwrap();
    assert!(is_ok(&ending.shutdown.join().unwrap()));
    assert!(is_ok(&client.shell("{hello: 1}")));
    server.wait_for_shutdown();
}

#[test]
fn a_signal_lets_a_member_finish_what_runs() {
    let server = member();
    let mut client = Client::new(&server);
    let ms = json::parse("{setParameter: 1, shutdownTimeoutMillisForSignaledShutdown: 600000}");
    assert!(is_ok(&client.run("admin", ms.unwrap().as_doc())));
    let mut reader = Client::new(&server);
    reader.shell("{insert: 'c', documents: [{_id: 1}]}");
    let read = std::thread::spawn(move || {
        reader.shell("{find: 'c', filter: {$where: 'while (true) {}'}}")
    });
    while opid(&mut client, "find").is_none() {
        std::thread::yield_now();
    }
    let ending = server.clone();
    let signal = std::thread::spawn(move || ending.request_shutdown_by_signal());
    let reply = hello(&mut client, true);
    assert_eq!(reply.get("code"), Value::Int32(SHUTDOWN_IN_PROGRESS));
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 2}]}")));
    assert!(!signal.is_finished());
    kill(&mut client, "find");
    assert!(!is_ok(&read.join().unwrap()));
    signal.join().unwrap();
    server.wait_for_shutdown();
}

#[test]
fn a_signal_ends_an_idle_member_and_a_standalone_at_once() {
    let idle = member();
    idle.request_shutdown_by_signal();
    idle.wait_for_shutdown();
    assert!(is_ok(&Client::new(&idle).shell("{hello: 1}")));
    let standalone = server();
    let mut reader = Client::new(&standalone);
    reader.shell("{insert: 'c', documents: [{_id: 1}]}");
    let read = std::thread::spawn(move || {
        reader.shell("{find: 'c', filter: {$where: 'while (true) {}'}}")
    });
    let mut client = Client::new(&standalone);
    while opid(&mut client, "find").is_none() {
        std::thread::yield_now();
    }
    standalone.request_shutdown_by_signal();
    standalone.wait_for_shutdown();
    assert!(!read.is_finished());
    kill(&mut client, "find");
    read.join().unwrap();
}

/// Clients that reconnect to a server that stops are closed: that there were too many would send operators astray.
#[test]
fn connections_at_the_stop_are_not_too_many() {
    let server = server();
    let refuse = || {
        let address = "127.0.0.1:50001".to_owned();
        server.refuse(&nagi_server::Peer { address, unix_socket: false, local: None });
        let status = DocBuf::build(|out| server.write_status(out));
        let connections = status.get("connections").as_doc().unwrap();
        nagi_bson::number::as_f64(connections.get("rejected"))
    };
    assert_eq!(refuse(), Some(1.0));
    server.stop();
    assert_eq!(refuse(), Some(1.0));
}
