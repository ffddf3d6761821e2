//! Logins, and what needs one.

use std::io::{BufRead, BufReader, Write};

use nagi_bson::{doc, json};

use crate::harness::{Running, start_with};

pub(crate) fn with_users() -> Running {
    with_users_and(&[])
}

/// The same, with further parameters.
pub(crate) fn with_users_and(parameters: &[(&str, &str)]) -> Running {
    let running = start_with(true, None, parameters);
    for (user, role) in [("ann", "root"), ("bob", "read")] {
        let command = doc! { "createUser": (user), "pwd": "secret", "roles": [(role)] };
        // The first user is created without a login, the second one by the first.
        let reply = match user {
            "ann" => running.direct("admin", command.as_doc()),
            _ => {
                let cookie = cookie(&running, "ann");
                running.command(&cookie, "admin", &json::to_relaxed(command.as_doc()))
            }
        };
        assert!(reply.as_doc().get("ok").is_truthy(), "{reply:?}");
    }
    running
}

pub(crate) fn cookie(running: &Running, user: &str) -> String {
    let body = format!("{{\"user\": \"{user}\", \"password\": \"secret\", \"db\": \"admin\"}}");
    let reply = running.post("/api/login", "", &body);
    assert_eq!(reply.status, 204, "{reply:?}");
    let set = reply.header("set-cookie").unwrap();
    assert!(set.contains("; HttpOnly; SameSite=Strict"), "{set}");
    format!("cookie: a=b; {}\r\n", reply.cookie())
}

#[test]
fn everything_but_the_pages_needs_a_login() {
    let running = with_users();
    for path in [
        "/api/figures",
        "/api/latencies",
        "/api/stalls",
        "/api/stream",
        "/api/slow",
        "/api/events",
        "/api/disk",
        "/api/growth",
        "/api/growth?db=admin",
        "/api/doctor",
        "/metrics",
    ] {
        for headers in ["", "cookie: nagi_console=x\r\n"] {
            assert_eq!(running.get(path, headers).status, 401, "{path}");
        }
    }
    let command = "{db: 'admin', command: {ping: 1}}";
    assert_eq!(running.post("/api/command", "", command).status, 401);
    assert_eq!(running.get("/", "").status, 200);
    let session = running.get("/api/session", "").body;
    assert!(session.contains(r#""user":null"#) && !session.contains("pid"), "{session}");
}

#[test]
fn a_user_has_the_rights_of_the_database() {
    let running = with_users();
    let (ann, bob) = (cookie(&running, "ann"), cookie(&running, "bob"));
    assert!(running.get("/api/session", &bob).body.contains(r#""user":"bob""#));
    assert_eq!(running.get("/api/figures", &ann).status, 200);
    let refused = running.get("/api/figures", &bob);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("Unauthorized"), "{}", refused.body);
    let reply = running.command(&bob, "admin", "{insert: 'c', documents: [{}]}");
    assert_eq!(reply.as_doc().get("codeName").as_str(), Some("Unauthorized"));
    // A user that is dropped has no rights any more.
    running.command(&ann, "admin", "{dropUser: 'bob'}");
    assert_eq!(
        running.post("/api/command", &bob, "{db: 'admin', command: {find: 'c'}}").status,
        401
    );
}

#[test]
fn logging_out_ends_the_session() {
    let running = with_users();
    let ann = cookie(&running, "ann");
    let out = running.post("/api/logout", &ann, "{}");
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(running.get("/api/figures", &ann).status, 401);
}

#[test]
fn wrong_credentials_are_refused() {
    let running = with_users();
    for body in [
        r#"{"user": "ann", "password": "wrong", "db": "admin"}"#,
        r#"{"user": "nobody", "password": "secret", "db": "admin"}"#,
        r#"{"user": "ann", "password": "secret", "db": "shop"}"#,
        r#"{"user": "ann", "password": "secret", "db": "$external"}"#,
        r#"{"user": "", "password": "", "db": "admin"}"#,
    ] {
        let reply = running.post("/api/login", "", body);
        assert_eq!(reply.status, 401, "{body}: {reply:?}");
        assert!(reply.header("set-cookie").is_none());
    }
    for body in ["{}", r#"{"user": 1, "password": "x", "db": "admin"}"#, "[", "\u{ff}"] {
        assert_eq!(running.post("/api/login", "", body).status, 400, "{body}");
    }
}

#[test]
fn scrapers_send_their_login_each_time() {
    let running = with_users();
    for _ in 0..3 {
        let reply = running.get("/metrics", &basic("ann:secret"));
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert_eq!(running.get("/metrics", &basic("admin/ann:secret")).status, 200);
    assert_eq!(running.get("/metrics", &basic("bob:secret")).status, 403);
    let wrong = running.get("/metrics", &basic("ann:wrong"));
    for refused in [wrong, running.get("/metrics", "")] {
        assert_eq!(refused.status, 401);
        let how = refused.header("www-authenticate");
        assert_eq!(how, Some("Basic realm=\"Nagi\", charset=\"UTF-8\""));
    }
    // A browser would ask for a login in a window of its own.
    assert_eq!(running.get("/api/figures", "").header("www-authenticate"), None);
    assert_eq!(running.get("/api/figures", &basic("ann:secret")).status, 401);
}

#[test]
fn right_logins_wait_for_wrong_ones() {
    let running = with_users();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2 {
                    let body = r#"{"user": "ann", "password": "wrong", "db": "admin"}"#;
                    assert_eq!(running.post("/api/login", "", body).status, 401);
                }
            });
        }
        (0..2).for_each(|_| drop(cookie(&running, "ann")));
    });
}

#[test]
fn a_user_ends_only_own_sessions() {
    let running = with_users();
    let (ann, first) = (cookie(&running, "ann"), cookie(&running, "bob"));
    let others: Vec<_> = (0..8).map(|_| cookie(&running, "bob")).collect();
    let user = |cookie: &str| running.get("/api/session", cookie).body;
    assert!(user(&ann).contains(r#""user":"ann""#));
    assert!(user(&first).contains(r#""user":null"#));
    assert!(others.iter().all(|cookie| user(cookie).contains(r#""user":"bob""#)));
}

#[test]
fn failed_logins_are_counted_when_they_fail() {
    let running = with_users();
    let ann = cookie(&running, "ann");
    let failed = || {
        let text = running.get("/metrics", &ann).body;
        let line = text.lines().find(|line| line.starts_with("nagi_failed_logins_total "));
        line.unwrap().rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    assert_eq!(failed(), 0.0);
    // One in progress has not failed.
    let begun = doc! {
        "saslStart": 1, "mechanism": "SCRAM-SHA-256",
        "payload": (nagi_bson::Value::Binary(nagi_bson::Binary { subtype: 0, bytes: b"n,,n=ann,r=abcdefghijklmnop" }))
    };
    let reply = running.direct("admin", begun.as_doc());
    assert!(reply.as_doc().get("ok").is_truthy(), "{reply:?}");
    assert_eq!(failed(), 0.0);
    let body = r#"{"user": "ann", "password": "wrong", "db": "admin"}"#;
    assert_eq!(running.post("/api/login", "", body).status, 401);
    assert_eq!(failed(), 1.0);
}

/// What is left of a login, or of half of one, is for no other request.
#[test]
fn a_connection_that_began_a_login_serves_no_more() {
    let running = with_users();
    let ann = cookie(&running, "ann");
    for command in [
        "{hello: 1}",
        "{logout: 1}",
        "{saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: BinData(0, 'biwsbj1ib2Iscj1hYmNkZWZnaGlqa2xtbm9w')}",
    ] {
        running.command(&ann, "admin", command);
        // The next request has another connection.
        let next = "{saslContinue: 1, conversationId: 1, payload: BinData(0, 'Yz1iaXdz')}";
        let next = running.command(&ann, "admin", next);
        let message = next.as_doc().get("errmsg").as_str().unwrap_or("").to_owned();
        assert!(message.contains("No SASL session state found"), "{command}: {next:?}");
        let reply = running.command(&ann, "admin", "{usersInfo: 1}");
        assert!(reply.as_doc().get("ok").is_truthy(), "{reply:?}");
    }
}

/// The stream of a user that is dropped, or that loses its roles or its password, ends within two seconds.
#[test]
fn a_stream_ends_with_the_right_to_it() {
    for ending in [
        "{dropUser: 'cat'}",
        "{revokeRolesFromUser: 'cat', roles: ['clusterMonitor']}",
        "{updateUser: 'cat', pwd: 'new'}",
    ] {
        let running = with_users();
        let ann = cookie(&running, "ann");
        let create = "{createUser: 'cat', pwd: 'secret', roles: ['clusterMonitor']}";
        running.command(&ann, "admin", create);
        let cat = cookie(&running, "cat");
        let mut stream = running.connect();
        let head = format!(
            "GET /api/stream HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{cat}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "event: sample"), "{ending}");
        let reply = running.command(&ann, "admin", ending);
        assert!(reply.as_doc().get("ok").is_truthy(), "{reply:?}");
        let samples = lines.filter(|line| line == "event: sample").count();
        assert!(samples <= 2, "{ending}: {samples} further samples");
    }
}

#[test]
fn a_connection_that_logged_out_serves_no_more() {
    let running = with_users();
    let ann = cookie(&running, "ann");
    running.command(&ann, "admin", "{logout: 1}");
    for _ in 0..5 {
        let reply = running.command(&ann, "admin", "{usersInfo: 1}");
        assert!(reply.as_doc().get("ok").is_truthy(), "{reply:?}");
    }
}

pub(crate) fn basic(text: &str) -> String {
    let mut coded = String::new();
    json::base64_encode(&mut coded, text.as_bytes());
    format!("authorization: Basic {coded}\r\n")
}

/// A user who may see the metrics, and a driver's way to change it.
fn with_monitor() -> (Running, String) {
    let running = with_users();
    let ann = cookie(&running, "ann");
    running.command(&ann, "admin", "{createUser: 'cat', pwd: 'secret', roles: ['clusterMonitor']}");
    (running, ann)
}

/// A scraper sends its password each time; what was remembered of an earlier one does not replace it.
#[test]
fn a_scraper_needs_the_password_of_today() {
    let (running, ann) = with_monitor();
    let scrape =
        |password: &str| running.get("/metrics", &basic(&format!("cat:{password}"))).status;
    assert_eq!(scrape("secret"), 200);
    running.command(&ann, "admin", "{updateUser: 'cat', pwd: 'new'}");
    for _ in 0..2 {
        assert_eq!((scrape("secret"), scrape("new")), (401, 200));
    }
    // Other changes of it, and of others, end no login.
    running.command(&ann, "admin", "{updateUser: 'bob', pwd: 'new'}");
    running.command(&ann, "admin", "{updateUser: 'cat', customData: {a: 1}}");
    assert_eq!(scrape("new"), 200);
    running.command(&ann, "admin", "{dropUser: 'cat'}");
    assert_eq!((scrape("new"), scrape("secret")), (401, 401));
    running.command(&ann, "admin", "{createUser: 'cat', pwd: 'again', roles: ['clusterMonitor']}");
    for _ in 0..2 {
        assert_eq!((scrape("new"), scrape("secret"), scrape("again")), (401, 401, 200));
    }
    // The same text as before is right, however new the credential.
    running.command(&ann, "admin", "{updateUser: 'cat', pwd: 'again'}");
    assert_eq!(scrape("again"), 200);
}

/// A login in a browser ends when its user has another password, or is another user.
#[test]
fn a_session_ends_with_its_password() {
    for ending in [
        vec!["{updateUser: 'cat', pwd: 'new'}"],
        vec!["{dropUser: 'cat'}"],
        vec!["{dropUser: 'cat'}", "{createUser: 'cat', pwd: 'secret', roles: ['root']}"],
    ] {
        let (running, ann) = with_monitor();
        let cat = cookie(&running, "cat");
        assert_eq!(running.get("/api/figures", &cat).status, 200);
        ending.iter().for_each(|command| drop(running.command(&ann, "admin", command)));
        let ping = "{db: 'admin', command: {ping: 1}}";
        assert_eq!(running.post("/api/command", &cat, ping).status, 401, "{ending:?}");
        assert_eq!(running.get("/api/figures", &cat).status, 401, "{ending:?}");
        let session = running.get("/api/session", &cat).body;
        assert!(session.contains(r#""user":null"#), "{ending:?}: {session}");
        // Those of others stay.
        assert_eq!(running.get("/api/figures", &ann).status, 200);
    }
    // One that changes its own password logs in again.
    let (running, ann) = with_monitor();
    running.command(&ann, "admin", "{updateUser: 'ann', pwd: 'other'}");
    assert_eq!(running.get("/api/figures", &ann).status, 401);
}
