//! Requests of other origins, of programs that break HTTP, and too much of everything.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nagi_server::Networks;

use crate::harness::{Running, start, start_for};
use crate::logins::{basic, cookie, with_users, with_users_and};

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
    let announced = "POST /api/command HTTP/1.1\r\nhost: localhost\r\n\
                     content-type: application/json\r\nx-nagi-console: 1\r\ncontent-length: 1000000000\r\n\r\n{";
    let begun = std::time::Instant::now();
    assert_eq!(running.raw(announced.as_bytes()).status, 413);
    assert!(begun.elapsed().as_secs() < 15, "nothing more was waited for");
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

/// What another HTTP program may read in another way is not answered, and not waited for.
#[test]
fn requests_are_framed_by_the_letter() {
    let running = start(false);
    let head = "POST /api/command HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                x-nagi-console: 1\r\nconnection: close\r\n";
    let body = "{db: 'admin', command: {ping: 1}}";
    let length = format!("content-length: {}\r\n", body.len());
    let good = format!("{head}{length}\r\n{body}");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    let chunks = format!("{:x};a=b\r\n{body}\r\n0\r\n\r\n", body.len());
    assert_eq!(running.raw(good.as_bytes()).status, 200);
    assert_eq!(running.raw(format!("{chunked}{chunks}").as_bytes()).status, 200);
    for (bad, status) in [
        (format!("{head}{length}\r\n").replace("\r\n", "\n") + body, 400),
        (format!("{head}x: y\n{length}\r\n{body}"), 400),
        (format!("{head}{length}\n{body}"), 400),
        (format!("{head}{length}{length}\r\n{body}"), 400),
        (format!("{head}{}\r\n{body}", length.replace(": ", ": +")), 400),
        (format!("{chunked}FFFFFFFFFFFFFFFF\r\n{body}"), 400),
        (format!("{chunked}200001\r\n{body}"), 400),
        (format!("{chunked}+{chunks}"), 400),
        (format!("{chunked}{}", chunks.replace(";a=b\r\n", "\n")), 400),
        (format!("{chunked}5;{}", "a".repeat(1000)), 400),
        (good.replace("POST /api", "POST http://evil.example.com/api"), 403),
        (good.replace("host: localhost", "host: localhost\r\nhost: localhost"), 400),
    ] {
        let since = Instant::now();
        let reply = running.raw(bad.as_bytes());
        assert_eq!(reply.status, status, "{bad} {reply:?}");
        // Long before the time for a body is over.
        assert!(since.elapsed() < Duration::from_secs(10), "{bad}");
    }
    let own = good.replace("POST /api", &format!("POST http://127.0.0.1:{}/api", running.port));
    assert_eq!(running.raw(own.as_bytes()).status, 200);
}

/// Many more than there are places, and none has sent a complete request, or a further one.
#[test]
fn silent_connections_keep_out_no_other() {
    let running = start(false);
    for sent in [
        "",
        "GET / HTTP/1.1\r\nhost: local",
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /api/command HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         x-nagi-console: 1\r\ncontent-length: 100\r\n\r\n{",
    ] {
        let mut held = Vec::new();
        for _ in 0..300 {
            let mut stream = running.connect();
            // The server may have closed it already.
            let _ = stream.write_all(sent.as_bytes());
            if sent.ends_with("\r\n\r\n") {
                // Its request is answered.
                let _ = stream.read(&mut [0; 1]);
            }
            held.push(stream);
        }
        let begun = Instant::now();
        assert_eq!(running.get("/", "").status, 200, "{sent}");
        // Long before the time for heads and bodies is over.
        assert!(begun.elapsed() < Duration::from_secs(10), "{sent}");
    }
}

/// Begins a stream, which keeps its place.
fn begin_stream(running: &Running) -> std::net::TcpStream {
    begin_stream_as(running, "")
}

/// The same, with the headers of a user.
fn begin_stream_as(running: &Running, headers: &str) -> std::net::TcpStream {
    let mut stream = running.connect();
    let text = format!("GET /api/stream HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    stream
}

/// Returns true if the server has ended the stream.
fn has_ended(stream: &mut std::net::TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let ended = loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    stream.set_nonblocking(false).unwrap();
    ended
}

/// A user has a share of the places; a further stream ends the oldest one.
#[test]
fn streams_of_one_client_leave_places_to_others() {
    let running = start(false);
    let mut held: Vec<_> = (0..80).map(|_| begin_stream(&running)).collect();
    assert_eq!(running.get("/", "").status, 200);
    let open = |held: &mut Vec<std::net::TcpStream>| -> Vec<bool> {
        held.iter_mut().map(|stream| !has_ended(stream)).collect()
    };
    let is_open = open(&mut held);
    assert_eq!(is_open.iter().filter(|open| **open).count(), 16, "{is_open:?}");
    assert!(is_open[64..].iter().all(|open| *open), "{is_open:?}");
    // Those go on.
    for stream in &mut held[64..] {
        stream.read_exact(&mut [0; 400]).unwrap();
    }
}

/// A user's streams end by those of the same user only, also where all come from one address.
#[test]
fn streams_of_one_user_leave_those_of_others_alone() {
    let running = with_users();
    let ann = cookie(&running, "ann");
    running.command(&ann, "admin", "{createUser: 'eve', pwd: 'secret', roles: ['root']}");
    let eve = cookie(&running, "eve");
    let mut other = begin_stream_as(&running, &ann);
    let mut held: Vec<_> = (0..40).map(|_| begin_stream_as(&running, &eve)).collect();
    assert!(!has_ended(&mut other));
    assert_eq!(held.iter_mut().filter_map(|stream| (!has_ended(stream)).then_some(())).count(), 16);
}

/// Clients that read their replies slowly, and have not logged in, keep out no other.
#[test]
fn replies_to_unknown_clients_give_their_places() {
    let running = with_users();
    let ann = cookie(&running, "ann");
    let mut stream = begin_stream_as(&running, &ann);
    let ask = "GET /assets/uplot.iife.min.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let begin = || {
        let mut socket = running.connect();
        socket.set_nonblocking(true).unwrap();
        // The server stops to read when the replies before are not read.
        let _ = socket.write(ask.as_bytes());
        socket
    };
    let mut held: Vec<_> = (0..80).map(|_| begin()).collect();
    let until = Instant::now() + Duration::from_secs(5);
    let mut rounds = 0;
    while rounds < 20 || Instant::now() < until {
        for socket in &mut held {
            match socket.read(&mut [0; 8192]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(count) if count > 0 => {}
                _ => *socket = begin(),
            }
        }
        let since = Instant::now();
        assert_eq!(running.get("/api/session", &ann).status, 200, "round {rounds}");
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        rounds += 1;
    }
    assert!(!has_ended(&mut stream), "that of a user");
}

/// Without authorization: commands of one client that run, wait and are refused are more than there are connections.
#[test]
fn commands_that_wait_keep_out_no_other() {
    let running = start(false);
    let waits = endless_wait(&running);
    let mut held: Vec<_> = (0..70).map(|_| posted(&running, "", &waits)).collect();
    for _ in 0..20 {
        for path in ["/", "/api/figures", "/metrics", "/api/session"] {
            assert_eq!(running.get(path, "").status, 200, "{path}");
        }
        held.push(posted(&running, "", &waits));
        // Kept, they would need descriptors for good.
        held.retain_mut(|stream| !has_ended(stream));
    }
    held.clear();
    self::until("commands run again", || {
        running.post("/api/command", "", "{db: 'admin', command: {ping: 1}}").status == 200
    });
}

/// Beyond some that wait, those of one client are refused, and not only when their time is over.
#[test]
fn too_many_that_wait_of_one_user_are_refused_at_once() {
    let running = with_users();
    let (ann, bob) = (cookie(&running, "ann"), cookie(&running, "bob"));
    let waits = endless_wait(&running);
    // Four run and eight wait.
    let mut held: Vec<_> = (0..13).map(|_| posted(&running, &bob, &waits)).collect();
    let since = Instant::now();
    let refused = loop {
        let answered = held.iter_mut().find_map(|stream| {
            stream.set_nonblocking(true).unwrap();
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
        });
        if let Some(text) = answered {
            break text;
        }
        assert!(since.elapsed() < Duration::from_secs(10), "none is refused");
        std::thread::yield_now();
    };
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    assert!(refused.to_ascii_lowercase().contains("retry-after: 1"), "{refused}");
    assert!(refused.contains("Too many requests"), "{refused}");
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    running.command(&ann, "admin", "{ping: 1}");
}

/// The statuses other than 200 of a user's requests while 72 connections of so many addresses loop with wrong logins,
/// the number of logins that were tried, and of those that were refused because others wait.
fn logins_of(addresses: u8) -> (Vec<(&'static str, u16)>, u32, u32) {
    let running = with_users_and(&[("authFailedDelayMs", "500")]);
    let ann = cookie(&running, "ann");
    let (ends, tried, refused) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let body = r#"{"user": "nobody", "password": "wrong", "db": "admin"}"#;
    let mut failed = Vec::new();
    std::thread::scope(|threads| {
        for attacker in 0..72 {
            let address = std::net::Ipv4Addr::new(127, 0, 0, 1 + attacker % addresses);
            let (running, ends, tried, refused) = (&running, &ends, &tried, &refused);
            threads.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    match running.post_from(address, "/api/login", "", body).status {
                        401 => tried.fetch_add(1, Ordering::Relaxed),
                        429 => refused.fetch_add(1, Ordering::Relaxed),
                        // Its connection has given its place.
                        _ => 0,
                    };
                }
            });
        }
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until {
            for path in ["/api/figures", "/metrics", "/api/session"] {
                let status = running.get(path, &ann).status;
                failed.extend((status != 200).then_some((path, status)));
            }
            let ping = "{db: 'admin', command: {ping: 1}}";
            let status = running.post("/api/command", &ann, ping).status;
            failed.extend((status != 200).then_some(("/api/command", status)));
        }
        ends.store(true, Ordering::Relaxed);
    });
    (failed, tried.into_inner(), refused.into_inner())
}

#[test]
fn logins_that_wait_keep_out_no_user() {
    let (failed, tried, refused) = logins_of(1);
    assert_eq!(failed, []);
    assert!(tried >= 4 && refused > 0, "{tried} were tried, {refused} refused");
}

/// None of them has as many as may wait of one client.
#[test]
fn logins_of_many_addresses_keep_out_no_user() {
    let (failed, tried, _) = logins_of(24);
    assert_eq!(failed, []);
    assert!(tried >= 4, "{tried}");
}

/// What must succeed while so many clients of one address loop with wrong passwords of these users.
fn while_passwords_are_guessed(clients: usize, names: &[String], check: impl Fn(&Running)) {
    let running = with_users();
    let (ends, guessed) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|threads| {
        for client in 0..clients {
            let body = format!(
                "{{user: '{}', password: 'wrong', db: 'admin'}}",
                names[client % names.len()]
            );
            let (running, ends, guessed) = (&running, &ends, &guessed);
            threads.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    running.post("/api/login", "", &body);
                    guessed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Also if it panics: the others would go on.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until("the flood has begun", || guessed.load(Ordering::Relaxed) >= 8);
            check(&running);
        }));
        ends.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// The statuses of a login and of a scraper's first request, which come within some seconds.
fn new_logins(running: &Running, user: &str, password: &str) -> [u16; 2] {
    let since = Instant::now();
    let body = format!("{{user: '{user}', password: '{password}', db: 'admin'}}");
    let login = running.post("/api/login", "", &body).status;
    let scrape = running.get("/metrics", &basic(&format!("{user}:{password}"))).status;
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    [login, scrape]
}

/// The passwords of a user are guessed at the address from which it logs in itself.
#[test]
fn guesses_keep_out_no_user_of_the_same_name() {
    while_passwords_are_guessed(24, &["ann".to_owned()], |running| {
        assert_eq!(new_logins(running, "ann", "secret"), [204, 200]);
        assert_eq!(new_logins(running, "ann", "other"), [401, 401]);
    });
}

#[test]
fn guesses_at_many_names_keep_out_no_user() {
    let names: Vec<_> = (0..24).map(|name| format!("nobody{name}")).collect();
    while_passwords_are_guessed(24, &names, |running| {
        for _ in 0..2 {
            assert_eq!(new_logins(running, "ann", "secret"), [204, 200]);
        }
    });
}

/// They are more than there are connections: those of the name that most try give their places.
#[test]
fn guesses_on_all_connections_keep_out_no_other_user() {
    while_passwords_are_guessed(72, &["ann".to_owned()], |running| {
        assert_eq!(new_logins(running, "bob", "secret"), [204, 403]);
    });
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

/// A POST of a command on a connection that stays open.
fn posted(running: &Running, headers: &str, command: &str) -> std::net::TcpStream {
    let body = format!("{{db: 'admin', command: {command}}}");
    let mut stream = running.connect();
    let head = "content-type: application/json\r\nx-nagi-console: 1\r\n";
    let text = format!(
        "POST /api/command HTTP/1.1\r\nhost: localhost\r\n{head}content-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// A command that waits for ten minutes.
fn endless_wait(running: &Running) -> String {
    // Not from the console, whose relaxed JSON does not keep the type of the counter: the command would fail at once.
    let hello = running.direct("admin", nagi_bson::doc! { "hello": 1 }.as_doc());
    let version = hello.as_doc().get("topologyVersion").as_doc().unwrap();
    let version = nagi_bson::json::to_canonical(version);
    format!("{{hello: 1, topologyVersion: {version}, maxAwaitTimeMS: 600000}}")
}

/// The number of operations of `find` that run.
fn finds(running: &Running) -> usize {
    let asked = nagi_bson::doc! {
        "aggregate": 1, "cursor": {}, "$db": "admin",
        "pipeline": [{ "$currentOp": { "allUsers": true } }, { "$match": { "command.find": "c" } }]
    };
    let reply = running.direct("admin", asked.as_doc());
    let text = nagi_bson::json::to_relaxed(reply.as_doc());
    text.matches("\"opid\"").count()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn reads_of_clients_that_left_end() {
    let running = start(false);
    running.command("", "admin", "{insert: 'c', documents: [{}]}");
    let endless = "{find: 'c', filter: {$where: 'while (true) {}'}}";
    let mut left: Vec<_> = (0..3).map(|_| posted(&running, "", endless)).collect();
    until("they begin", || finds(&running) == 3);
    // Bytes behind the request do not hide the end of the connection.
    left[0].write_all(b"GET / HTTP/1.1\r\n").unwrap();
    drop(left);
    until("they end", || finds(&running) == 0);
}

#[test]
fn long_commands_keep_nobody_from_the_rest() {
    let running = with_users();
    let (ann, bob) = (cookie(&running, "ann"), cookie(&running, "bob"));
    let waits = endless_wait(&running);
    let held: Vec<_> = (0..20).map(|_| posted(&running, &bob, &waits)).collect();
    let since = Instant::now();
    for _ in 0..3 {
        assert_eq!(running.get("/api/session", &bob).status, 200);
        assert_eq!(running.get("/metrics", &ann).status, 200);
        running.command(&ann, "admin", "{ping: 1}");
        cookie(&running, "ann");
    }
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    drop(held);
    until("its places are free", || {
        running.post("/api/command", &bob, "{db: 'admin', command: {ping: 1}}").status == 200
    });
}

#[test]
fn replies_are_bounded_as_json() {
    let running = start(false);
    let text = "\\u0001".repeat(300_000);
    for id in 0..12 {
        running.command(
            "",
            "shop",
            &format!("{{insert: 'c', documents: [{{_id: {id}, a: \"{text}\"}}]}}"),
        );
    }
    let find = |count| format!("{{db: 'shop', command: {{find: 'c', limit: {count}}}}}");
    assert_eq!(running.post("/api/command", "", &find(4)).status, 200);
    let reply = running.post("/api/command", "", &find(12));
    assert_eq!(reply.status, 413);
    assert!(reply.body.contains("8 MiB"), "{}", reply.body);
}

#[test]
fn replies_that_nobody_reads_have_a_limit() {
    let running = start(false);
    let text = "\\u0001".repeat(300_000);
    for id in 0..4 {
        running.command(
            "",
            "admin",
            &format!("{{insert: 'c', documents: [{{_id: {id}, a: \"{text}\"}}]}}"),
        );
    }
    // Each is seven megabytes, of which the kernel takes a part.
    let held: Vec<_> = (0..12).map(|_| posted(&running, "", "{find: 'c'}")).collect();
    let refused = || {
        let reply = running.post("/api/command", "", "{db: 'admin', command: {find: 'c'}}");
        reply.status == 503 && reply.body.contains("do not read")
    };
    until("the limit is reached", refused);
    // Small ones are sent all the same.
    assert_eq!(running.get("/api/session", "").status, 200);
    drop(held);
    until("it is free again", || !refused());
}
