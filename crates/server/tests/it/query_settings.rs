//! Query settings survive a restart.

use std::sync::Arc;

use nagi_bson::json;

use crate::client::{Client, is_ok, server_on};

#[test]
fn settings_outlast_a_restart() {
    let engine = Arc::new(nagi_kv::Memory::new());
    let run = |client: &mut Client, db: &str, command: &str| {
        client.run(db, json::parse(command).unwrap().as_doc())
    };
    let mut first = Client::new(&server_on(engine.clone(), None));
    let set =
        r#"{setQuerySettings: {find: "c", filter: {a: 1}, $db: "test"}, settings: {reject: true}}"#;
    assert!(is_ok(&run(&mut first, "admin", set)));
    let other =
        r#"{setQuerySettings: {find: "c", filter: {b: 1}, $db: "test"}, settings: {reject: true}}"#;
    assert!(is_ok(&run(&mut first, "admin", other)));
    let list = r#"{aggregate: 1, pipeline: [{$querySettings: {}}], cursor: {}}"#;
    let before = run(&mut first, "admin", list);
    drop(first);

    let mut second = Client::new(&server_on(engine.clone(), None));
    assert_eq!(run(&mut second, "admin", list).get("cursor"), before.get("cursor"));
    let rejected = run(&mut second, "test", r#"{find: "c", filter: {a: 7}}"#);
    assert_eq!(rejected.get("code").to_string(), "411");
    let remove = r#"{removeQuerySettings: {find: "c", filter: {a: 1}, $db: "test"}}"#;
    assert!(is_ok(&run(&mut second, "admin", remove)));
    drop(second);

    let mut third = Client::new(&server_on(engine, None));
    assert!(is_ok(&run(&mut third, "test", r#"{find: "c", filter: {a: 7}}"#)));
    assert!(!is_ok(&run(&mut third, "test", r#"{find: "c", filter: {b: 7}}"#)));
}
