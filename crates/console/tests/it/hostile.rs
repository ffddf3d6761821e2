//! Requests of other origins, of programs that break HTTP, and too much of everything.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use nagi_server::Networks;

use crate::harness::{start, start_for};

#[test]
fn other_origins_get_nothing() {
    let running = start(false);
    for headers in [
        "origin: http://evil.example.com\r\n",
        "origin: null\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
        "host: evil.example.com\r\n",
    ] {
        for path in ["/", "/api/figures", "/api/session", "/metrics", "/api/stream"] {
            let status = running.get(path, headers).status;
            assert!([400, 403].contains(&status), "{path} {headers}: {status}");
        }
    }
    let body = "{db: 'shop', command: {insert: 'c', documents: [{}]}}";
    let form = format!(
        "POST /api/command HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(running.raw(form.as_bytes()).status, 403);
    let found = running.command("", "shop", "{count: 'c'}");
    assert_eq!(nagi_bson::number::as_f64(found.as_doc().get("n")), Some(0.0));
}

#[test]
fn sizes_are_bounded() {
    let running = start(false);
    let large = format!("{{db: 'a', command: {{find: '{}'}}}}", "x".repeat(3 << 20));
    assert_eq!(running.post("/api/command", "", &large).status, 413);
    let head = format!("x: {}\r\n", "y".repeat(64 << 10));
    assert!([0, 400, 431].contains(&running.get("/", &head).status));
    for size in [1, 5] {
        let value = format!(
            "{{insert: 'c', documents: [{{_id: {size}, a: '{}'}}]}}",
            "z".repeat(1_500_000)
        );
        running.command("", "shop", &value);
    }
    let all = "{db: 'shop', command: {aggregate: 'c', cursor: {}, pipeline: [{$project: {a: ['$a', '$a', '$a']}}]}}";
    let reply = running.post("/api/command", "", all);
    assert_eq!(reply.status, 413, "{}", &reply.body[..reply.body.len().min(200)]);
    let deep = format!(
        "{{db: 'a', command: {{find: 'c', filter: {}1{}}}}}",
        "{a:".repeat(10_000),
        "}".repeat(10_000)
    );
    assert_eq!(running.post("/api/command", "", &deep).status, 400);
}

#[test]
fn nonsense_is_refused_and_others_are_served() {
    let running = start(false);
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
        b"\x3a\0\0\0\x01\0\0\0\0\0\0\0\xd4\x07\0\0",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/command HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/command HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET http://evil.example.com/ HTTP/1.1\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\n\r\n",
    ] {
        let status = running.cut(bytes).status;
        assert!(status == 0 || (400..500).contains(&status), "{status}");
    }
    assert_eq!(running.get("/", "").status, 200);
}

#[test]
fn connections_are_bounded_and_free_again() {
    let running = start(false);
    let held: Vec<_> = (0..200).map(|_| running.connect()).collect();
    drop(held);
    let until = Instant::now() + Duration::from_secs(10);
    while running.get("/", "").status != 200 {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
}

#[test]
fn networks_that_are_not_allowed_get_nothing() {
    let running = start_for(false, Some(Networks::parse("10.0.0.0/8").unwrap()));
    let mut stream = running.connect();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    assert!(got.is_empty());
}

#[test]
fn a_console_with_streams_stops_soon() {
    let running = start(false);
    let mut streams: Vec<_> = (0..5).map(|_| running.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /api/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    let since = Instant::now();
    drop(running);
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}
