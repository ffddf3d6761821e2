//! `local.startup_log` gets a document at each start.

use nagi_bson::{Value, doc};
use nagi_server::Zone;

use crate::client::{Client, is_ok, server_on};

#[test]
fn each_start_is_recorded() {
    let engine = std::sync::Arc::new(nagi_kv::Memory::new());
    for starts in 1..=2 {
        let server = server_on(engine.clone(), None);
        // The id of a start has its time in milliseconds.
        let before = std::time::SystemTime::now();
        while before.elapsed().is_ok_and(|passed| passed.as_millis() < 2) {
            std::thread::yield_now();
        }
        server.record_start(&Zone::parse("Asia/Tokyo").unwrap());
        let mut client = Client::new(&server);
        let found = client.run("local", doc! { "find": "startup_log" }.as_doc());
        assert!(is_ok(&found), "{found:?}");
        let batch = found.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
        assert_eq!(batch.iter().count(), starts);
        let entry = batch.iter().last().and_then(|entry| entry.as_doc()).unwrap();
        let names: Vec<&str> = entry.iter().map(|element| element.name()).collect();
        let expect =
            ["_id", "hostname", "startTime", "startTimeLocal", "cmdLine", "pid", "buildinfo"];
        assert_eq!(names, expect);
        let Value::DateTime(ms) = entry.get("startTime") else { panic!("{entry:?}") };
        let id = format!("{}-{ms}", entry.get("hostname").as_str().unwrap());
        assert_eq!(entry.get("_id").as_str(), Some(id.as_str()));
        assert_eq!(entry.get("pid"), Value::Int64(i64::from(std::process::id())));
        let build = entry.get("buildinfo").as_doc().unwrap();
        let reply = client.run("admin", doc! { "buildInfo": 1 }.as_doc());
        assert!(build.iter().count() > 10);
        assert!(build.iter().all(|element| reply.get(element.name()) == element.value()));
        let listed = client.run("local", doc! { "listCollections": 1 }.as_doc());
        let listed = listed.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
        let options = listed.iter().next().and_then(|entry| entry.as_doc()).unwrap().get("options");
        let options = options.as_doc().unwrap();
        assert_eq!(
            (options.get("capped"), options.get("size")),
            (Value::Bool(true), Value::Int32(10 << 20))
        );
    }
}

/// The age of the newest backup in the seconds of `serverStatus`, after a start with these records.
fn backup_age(times: &str) -> Option<i64> {
    let engine = std::sync::Arc::new(nagi_kv::Memory::new());
    let entries: Vec<_> =
        times.split_whitespace().map(|time| format!("{{endTime: {time}}}")).collect();
    let insert = format!("{{insert: 'nagi.backups', documents: [{}]}}", entries.join(", "));
    let insert = nagi_bson::json::parse(&insert).unwrap();
    let first = Client::new(&server_on(engine.clone(), None)).run("local", insert.as_doc());
    assert!(is_ok(&first), "{first:?}");
    let server = server_on(engine, None);
    server.record_start(&Zone::parse("UTC").unwrap());
    let status = Client::new(&server).run("admin", doc! { "serverStatus": 1 }.as_doc());
    let backup = status.get("nagi").as_doc().unwrap().get("lastBackup");
    backup.as_doc().map(|backup| match backup.get("ageSecs") {
        Value::Int64(age) => age,
        other => panic!("{other:?}"),
    })
}

/// A time in the future would hide for ever that there are no backups.
#[test]
fn a_backup_of_the_future_is_not_believed() {
    let future = "ISODate('2199-01-01T00:00:00Z')";
    let past = "ISODate('2001-01-01T00:00:00Z')";
    let age = backup_age(&format!("{past} {future} 'soon'")).unwrap();
    assert!(age > 20 * 365 * 86_400, "{age}");
    let only = backup_age(future).unwrap();
    assert!((0..600).contains(&only), "{only}");
    assert_eq!(backup_age("'soon'"), None);
}

#[test]
fn silences_of_alerts_last_beyond_a_restart() {
    let engine = std::sync::Arc::new(nagi_kv::Memory::new());
    let silences = [("stall".to_owned(), 5000), ("own".to_owned(), 9_000_000_000_000)];
    let first = server_on(engine.clone(), None);
    assert_eq!(first.alert_silences(), []);
    assert!(first.keep_alert_silences(&silences[..1]) && first.keep_alert_silences(&silences));
    assert_eq!(server_on(engine.clone(), None).alert_silences(), silences);
    let mut client = Client::new(&first);
    let count = client.run("local", doc! { "count": "nagi.alerts" }.as_doc());
    assert_eq!(count.get("n"), Value::Int32(1), "{count:?}");
    // Files may be copied while writes are blocked.
    client.run("admin", doc! { "fsync": 1, "lock": true }.as_doc());
    assert!(!first.keep_alert_silences(&silences[..1]), "later");
    assert_eq!(first.alert_silences(), silences);
    client.run("admin", doc! { "fsyncUnlock": 1 }.as_doc());
    // A view of that name is somebody else's: there is nothing to read, and nothing is written.
    client.run("local", doc! { "drop": "nagi.alerts" }.as_doc());
    let view = doc! { "create": "nagi.alerts", "viewOn": "other", "pipeline": [] };
    let made = client.run("local", view.as_doc());
    assert!(is_ok(&made), "{made:?}");
    assert!(first.keep_alert_silences(&silences), "never");
    assert_eq!(first.alert_silences(), []);
}
