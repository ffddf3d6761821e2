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
