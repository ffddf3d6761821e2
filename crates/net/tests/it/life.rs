//! Connections of correct clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nagi_server::Networks;
use socket2::{Domain, Socket, Type};

use crate::harness::{is_closed, ping, reply, send_pieces, start};

#[test]
fn frames_in_pieces_and_frames_in_one_go() {
    let running = start("pieces", 10, |_| ());
    let mut stream = running.connect();
    stream.set_nodelay(true).unwrap();
    send_pieces(&mut stream, &ping(1), 1);
    assert_eq!(reply(&mut stream), (1, 1.0));
    let many: Vec<u8> = (0..500).flat_map(ping).collect();
    stream.write_all(&many).unwrap();
    for id in 0..500 {
        assert_eq!(reply(&mut stream), (id, 1.0));
    }
    running.stop();
}

/// The port is fixed on purpose: binding the same address a second time would then fail.
#[test]
fn names_of_one_address_are_one_door() {
    let names = ["localhost", "127.0.0.1", "127.0.0.1"].map(String::from);
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let running = start("names", 10, |config| {
        config.bind_ip = names.to_vec();
        config.port = port;
    });
    assert_eq!(running.listeners.port(), port);
    let mut stream = running.connect();
    stream.write_all(&ping(1)).unwrap();
    assert_eq!(reply(&mut stream), (1, 1.0));
    running.stop();
}

/// A connection from another address of this machine.
fn from(address: [u8; 4], port: u16) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    socket.into()
}

#[test]
fn other_addresses_are_closed_without_a_byte() {
    let running = start("allowlist", 10, |config| {
        config.allowed = Some(Networks::parse("127.0.0.2/31, 10.0.0.0/8").unwrap());
    });
    let port = running.listeners.port();
    for _ in 0..3 {
        let mut stream = from([127, 0, 0, 1], port);
        // The server may have closed it already.
        let _ = stream.write_all(&ping(1));
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.is_empty());
    }
    let mut stream = from([127, 0, 0, 3], port);
    stream.write_all(&ping(1)).unwrap();
    assert_eq!(reply(&mut stream), (1, 1.0));
    let path = running.folder.join(format!("mongodb-{port}.sock"));
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(&ping(2)).unwrap();
    assert_eq!(reply(&mut stream), (2, 1.0));
    running.stop();
}

#[test]
fn the_unix_socket_has_its_mode_and_goes_with_the_server() {
    let running = start("unix", 10, |_| ());
    let path = running.folder.join(format!("mongodb-{}.sock", running.listeners.port()));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(&ping(5)).unwrap();
    assert_eq!(reply(&mut stream), (5, 1.0));
    running.server.stop();
    running.listeners.stop(Duration::from_secs(5));
    assert!(!path.exists());
    std::fs::remove_dir_all(running.folder).unwrap();
}

#[test]
fn one_too_many_is_closed_and_others_go_on() {
    let running = start("most", 2, |_| ());
    let (mut first, mut second) = (running.connect(), running.connect());
    for stream in [&mut first, &mut second] {
        stream.write_all(&ping(1)).unwrap();
        reply(stream);
    }
    assert!(is_closed(&mut running.connect()));
    first.write_all(&ping(2)).unwrap();
    assert_eq!(reply(&mut first), (2, 1.0));
    running.stop();
}

#[test]
fn an_idle_connection_wakes_up_again() {
    let running = start("idle", 10, |net| net.idle_after = Duration::from_millis(1));
    let mut stream = running.connect();
    for id in 0..20 {
        stream.write_all(&ping(id)).unwrap();
        assert_eq!(reply(&mut stream), (id, 1.0));
        std::thread::yield_now();
    }
    running.stop();
}

/// The threads that serve connections. Those of other tests count, too.
fn connection_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "conn").count()
}

#[test]
fn idle_connections_have_no_thread() {
    let running = start("parked", 100, |net| net.idle_after = Duration::from_millis(1));
    let mut streams: Vec<_> = (0..50).map(|_| running.connect()).collect();
    for round in 0..4 {
        for (id, stream) in streams.iter_mut().enumerate() {
            // Not all have sent something before they are idle for the first time.
            if round > 0 || id % 2 == 0 {
                let id = id as i32 + 1;
                stream.write_all(&ping(id)).unwrap();
                assert_eq!(reply(stream), (id, 1.0));
            }
        }
        while connection_threads() >= 40 {
            std::thread::yield_now();
        }
    }
    // One that hangs up, one with a part of a frame, and one with two frames at once.
    drop(streams.pop());
    let (first, second) = (ping(7), ping(8));
    streams[0].write_all(&first[..10]).unwrap();
    streams[1].write_all(&[first.clone(), second].concat()).unwrap();
    assert_eq!(reply(&mut streams[1]), (7, 1.0));
    assert_eq!(reply(&mut streams[1]), (8, 1.0));
    streams[0].write_all(&first[10..]).unwrap();
    assert_eq!(reply(&mut streams[0]), (7, 1.0));
    running.stop();
    assert!(streams.iter_mut().all(is_closed));
}

#[test]
fn the_end_reaches_idle_connections() {
    for idle_after in [Duration::from_millis(1), Duration::from_secs(10)] {
        let running = start("end", 10, |net| net.idle_after = idle_after);
        let mut idle = running.connect();
        idle.write_all(&ping(1)).unwrap();
        reply(&mut idle);
        running.stop();
        assert!(is_closed(&mut idle));
    }
}
