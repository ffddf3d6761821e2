//! Peers that hold memory which other requests wait for.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, Value, doc};
use nagi_budget::{Budget, Pool};
use socket2::{Domain, Socket, Type};

use crate::harness::{Running, body, message, start_within};

/// A budget in which a message of this size is admitted only if no other holds memory.
const BUDGET_BYTES: u64 = 256 << 20;
const LARGE_BYTES: usize = 14 << 20;
/// The maximum time of each wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(name: &str, crowded_time_max: Duration) -> Running {
    start_within(name, 10, Budget::new(BUDGET_BYTES), |net| net.crowded_time_max = crowded_time_max)
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// The memory of messages or of replies.
fn held(running: &Running, pool: Pool) -> u64 {
    running.server.budget().pool(pool).used
}

/// A request of 14 MB that does nothing.
fn large() -> Vec<u8> {
    let text = "x".repeat(LARGE_BYTES);
    message("admin", doc! { "ping": 1, "comment": text.as_str() }.as_doc())
}

/// Another client sends a large request, which waits for memory. The thread returns the reply.
fn wait(running: &Running) -> JoinHandle<DocBuf> {
    let mut stream = running.connect();
    let thread = std::thread::spawn(move || {
        stream.write_all(&large()).unwrap();
        body(&mut stream)
    });
    until("a request waits", || running.server.budget().has_waiting());
    thread
}

/// Waits 10 ms for a byte from the server. False if the connection was closed.
fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(count) => count > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[test]
fn a_message_byte_by_byte_gives_way_to_others() {
    let time_max = Duration::from_millis(500);
    let running = start("crowded-drip", time_max);
    let mut slow = running.connect();
    let mut head = large();
    head.truncate(300_000);
    slow.write_all(&head).unwrap();
    until("the message holds memory", || held(&running, Pool::Requests) > 0);
    let begun = Instant::now();
    while begun.elapsed() < 4 * time_max {
        assert!(is_open(&mut slow), "no request waits");
        slow.write_all(b"x").unwrap();
    }
    let other = wait(&running);
    let begun = Instant::now();
    while is_open(&mut slow) {
        assert!(begun.elapsed() < PATIENCE, "it keeps its memory");
        let _ = slow.write_all(b"x");
    }
    assert_eq!(other.join().unwrap().get("ok"), Value::Double(1.0));
    running.stop();
}

#[test]
fn a_message_that_advances_may_take_longer() {
    let time_max = Duration::from_secs(1);
    let running = start("crowded-steady", time_max);
    let mut slow = running.connect();
    let all = large();
    let (head, rest) = all.split_at(300_000);
    slow.write_all(head).unwrap();
    until("the message holds memory", || held(&running, Pool::Requests) > 0);
    let other = wait(&running);
    let begun = Instant::now();
    for piece in rest.chunks(100_000) {
        assert!(is_open(&mut slow));
        slow.write_all(piece).unwrap();
    }
    assert!(begun.elapsed() > time_max);
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    for reply in [body(&mut slow), other.join().unwrap()] {
        assert_eq!(reply.get("ok"), Value::Double(1.0));
    }
    running.stop();
}

/// A client whose system accepts only some kilobytes that it has not read.
fn connect_narrow(running: &Running) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(8192).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], running.listeners.port()));
    socket.connect(&address.into()).unwrap();
    socket.into()
}

#[test]
fn a_reply_in_sips_gives_way_to_others() {
    let time_max = Duration::from_millis(500);
    let running = start("crowded-sip", time_max);
    let mut client = running.connect();
    let text = "x".repeat(LARGE_BYTES);
    let row = DocBuf::build(|out| {
        out.put("insert", "c");
        out.array("documents", |rows| rows.doc(|row| row.put("a", text.as_str())));
    });
    client.write_all(&message("test", row.as_doc())).unwrap();
    assert_eq!(body(&mut client).get("n"), Value::Int32(1));
    until("the insert is over", || held(&running, Pool::Requests) == 0);
    let mut slow = connect_narrow(&running);
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(&message("test", doc! { "find": "c" }.as_doc())).unwrap();
    until("the reply holds memory", || held(&running, Pool::Replies) > 0);
    let (_sender, nothing) = std::sync::mpsc::channel::<()>();
    // At most 200 KB in the time in which 256 are demanded.
    let mut sip = || {
        let _ = nothing.recv_timeout(Duration::from_millis(10));
        slow.read(&mut [0; 4096])
    };
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < 4 * time_max {
        count += sip().unwrap();
    }
    assert!(held(&running, Pool::Replies) > 0, "no request waits");
    let budget = running.server.budget();
    let most = budget.try_charge(Pool::Requests, budget.limit(Pool::Requests)).unwrap();
    let other = wait(&running);
    // The end comes before that of the reply.
    while let Ok(more) = sip()
        && more > 0
    {
        count += more;
        assert!(count < LARGE_BYTES, "it keeps its memory");
    }
    until("the memory is free", || held(&running, Pool::Replies) == 0);
    drop(most);
    assert_eq!(other.join().unwrap().get("ok"), Value::Double(1.0));
    running.stop();
}
