//! Requests of an honest browser.

use std::io::{BufRead, BufReader, Write};

use nagi_bson::{Value, number};

use crate::harness::{Running, start};

#[test]
fn commands_are_those_of_any_client() {
    let running = start(false);
    let inserted = running.command(
        "",
        "shop",
        "{insert: 'c', documents: [{_id: 1, d: ISODate('2026-01-02T03:04:05Z')}]}",
    );
    assert_eq!(number::as_f64(inserted.as_doc().get("n")), Some(1.0));
    let reply =
        running.post("/api/command", "", "{db: 'shop', command: {find: 'c', filter: {_id: 1}}}");
    assert!(reply.body.contains(r#"{"$date":"2026-01-02T03:04:05Z"}"#), "{}", reply.body);
    let failed = running.command("", "shop", "{nonsense: 1}");
    assert_eq!(failed.as_doc().get("codeName").as_str(), Some("CommandNotFound"));
    let operations = running.command("", "admin", "{currentOp: 1, $all: true}");
    let text = nagi_bson::json::to_relaxed(operations.as_doc());
    assert!(text.contains("Nagi console"), "{text}");
}

#[test]
fn figures_latencies_and_stalls() {
    let running = start(false);
    // What ended before the first sample is in none.
    samples(&running, 1);
    running.command("", "shop", "{insert: 'c', documents: [{}, {}, {}]}");
    samples(&running, 3);
    let figures = running.get("/api/figures", "").json();
    let Value::Array(names) = figures.as_doc().get("figures") else { panic!() };
    let at = names
        .iter()
        .position(|row| row.as_doc().unwrap().get("name").as_str() == Some("ops.insert"));
    let Value::Array(samples) = figures.as_doc().get("samples") else { panic!() };
    assert!(samples.iter().count() >= 2);
    let last = samples.iter().last().unwrap();
    let Value::Array(last) = last else { panic!() };
    assert_eq!(last.iter().count(), names.iter().count() + 1);
    assert_eq!(number::as_f64(last.iter().nth(at.unwrap() + 1).unwrap()), Some(3.0));
    let latencies = running.get("/api/latencies", "").json();
    let Value::Array(bounds) = latencies.as_doc().get("boundsUs") else { panic!() };
    assert_eq!(bounds.iter().count(), 51);
    let text = running.get("/api/latencies", "").body;
    assert!(text.contains(r#""writes": [["#), "{text}");
    assert_eq!(running.get("/api/figures?every=15000", "").status, 200);
    assert_eq!(running.get("/api/figures?every=1", "").status, 400);
    assert!(running.get("/api/stalls", "").body.starts_with(r#"{"stalls""#));
}

/// Waits for so many samples of the stream.
fn samples(running: &Running, wanted: usize) {
    let mut stream = running.connect();
    stream.write_all(b"GET /api/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    let data = data.filter(|data| data.contains("\"v\""));
    let taken = data.take(wanted).map(|data| {
        let sample = nagi_bson::json::parse(&data).unwrap();
        assert!(!sample.as_doc().get("v").is_missing() && !sample.as_doc().get("l").is_missing());
    });
    assert_eq!(taken.count(), wanted, "the stream ended");
}

#[test]
fn a_stream_brings_samples() {
    samples(&start(false), 2);
}

#[test]
fn head_is_answered_as_get_without_a_body() {
    let running = start(false);
    for path in ["/", "/assets/app.js", "/metrics", "/api/session", "/nothing"] {
        let of = |method: &str| {
            let text =
                format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            running.raw(text.as_bytes())
        };
        let (get, head) = (of("GET"), of("HEAD"));
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}: {head:?}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert!(head.header("content-length").is_some(), "{path}: {head:?}");
    }
    let text = "HEAD /api/login HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(running.raw(text.as_bytes()).status, 405);
}

#[test]
fn pages_have_headers_that_protect_them() {
    let running = start(false);
    for path in ["/", "/assets/index.html", "/api/session", "/nothing"] {
        let reply = running.get(path, "");
        assert!(reply.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path}");
        }
    }
    assert_eq!(running.get("/nothing", "").status, 404);
    assert_eq!(running.get("/api/login", "").status, 405);
    assert_eq!(running.get("/assets/..%2f..%2fCargo.toml", "").status, 404);
}

#[test]
fn metrics_in_both_formats() {
    let running = start(false);
    let plain = running.get("/metrics", "");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(plain.body.contains("# TYPE nagi_operations_total counter\n"));
    let open = running
        .get("/metrics", "accept: application/openmetrics-text;version=1.0.0,text/plain\r\n");
    assert!(open.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(open.body.ends_with("# EOF\n"));
}
