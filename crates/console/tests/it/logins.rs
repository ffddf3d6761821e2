//! Logins, and what needs one.

use nagi_bson::{doc, json};

use crate::harness::{Running, start};

pub(crate) fn with_users() -> Running {
    let running = start(true);
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
    let reply = running.command(&bob, "admin", "{find: 'c'}");
    assert!(!reply.as_doc().get("ok").is_truthy());
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
    let basic = |text: &str| {
        let mut coded = String::new();
        json::base64_encode(&mut coded, text.as_bytes());
        format!("authorization: Basic {coded}\r\n")
    };
    for _ in 0..3 {
        let reply = running.get("/metrics", &basic("ann:secret"));
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    assert_eq!(running.get("/metrics", &basic("admin/ann:secret")).status, 200);
    assert_eq!(running.get("/metrics", &basic("bob:secret")).status, 403);
    assert_eq!(running.get("/metrics", &basic("ann:wrong")).status, 401);
    assert_eq!(running.get("/api/figures", &basic("ann:secret")).status, 401);
}
