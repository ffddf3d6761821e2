//! Growth of the data, and findings of the doctor.

use nagi_bson::Value;

use crate::harness::{Running, start};
use crate::logins::{cookie, with_users};

/// Requests until the text is in the reply: the sampler's thread is a second behind at most.
fn until(running: &Running, path: &str, headers: &str, text: &str) -> String {
    let mut last = String::new();
    for _ in 0..400 {
        last = running.get(path, headers).body;
        if last.contains(text) {
            return last;
        }
        std::thread::yield_now();
    }
    panic!("{text}: {last}")
}

#[test]
fn sizes_of_databases_and_collections() {
    let running = start(false);
    // The first sample is taken at the start, the next one a minute later.
    let reply = running.get("/api/growth", "").json();
    assert!(matches!(reply.as_doc().get("databases"), Value::Array(_)), "{reply:?}");
    let own = running.get("/api/growth?db=a%C3%A9", "").json();
    assert!(matches!(own.as_doc().get("collections"), Value::Array(_)), "{own:?}");
    assert_eq!(running.get("/api/growth?db=a%2", "").status, 400);
    assert_eq!(running.get("/api/growth?db=a%2Eb", "").status, 400);
}

#[test]
fn growth_needs_the_right_to_see_statistics() {
    let running = with_users();
    let (ann, bob) = (cookie(&running, "ann"), cookie(&running, "bob"));
    until(&running, "/api/growth", &ann, r#""databases""#);
    assert_eq!(running.get("/api/growth", &bob).body, r#"{"databases":[]}"#);
    assert_eq!(running.get("/api/growth?db=admin", &bob).status, 200);
    let other = running.get("/api/growth?db=shop", &bob);
    assert_eq!(other.status, 403, "{other:?}");
}

#[test]
fn an_engine_that_does_not_tell_has_no_map() {
    let running = start(false);
    let map = running.get("/api/disk", "").json();
    assert_eq!(nagi_bson::number::as_f64(map.as_doc().get("columns")), Some(0.0));
    let events = running.get("/api/events", "").json();
    assert!(matches!(events.as_doc().get("events"), Value::Array(_)), "{events:?}");
}

#[test]
fn findings_are_for_administrators() {
    let running = with_users();
    let (ann, bob) = (cookie(&running, "ann"), cookie(&running, "bob"));
    assert_eq!(running.get("/api/doctor", &ann).body, r#"{"findings":[]}"#);
    let refused = running.get("/api/doctor", &bob);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("Unauthorized"), "{}", refused.body);
    assert_eq!(start(false).get("/api/doctor", "").status, 200);
}

/// Writes are blocked until the server stops.
#[test]
fn a_silence_that_a_lock_has_delayed_is_stored_at_the_stop() {
    let mut running = start(false);
    running.command("", "admin", "{fsync: 1, lock: true}");
    let silence = "{\"rule\": \"stall\", \"seconds\": 3600}";
    assert_eq!(running.post("/api/alerts/silence", "", silence).status, 200);
    assert_eq!(running.server.alert_silences(), []);
    running.stop();
    let kept = running.server.alert_silences();
    assert_eq!(kept.iter().map(|(rule, _)| rule.as_str()).collect::<Vec<_>>(), ["stall"]);
}
