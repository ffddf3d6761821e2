//! Settings of the whole server survive a restart, and clients with the privilege may bypass them.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, json};
use nagi_kv::Memory;

use crate::client::{Client, is_ok, server_on, server_with};

fn admin(client: &mut Client, command: &str) -> DocBuf {
    client.run("admin", json::parse(command).unwrap().as_doc())
}

#[test]
fn settings_survive_a_restart() {
    let engine = Arc::new(Memory::new());
    let mut client = Client::new(&server_on(engine.clone(), Some("rs")));
    for command in [
        "{replSetInitiate: 1}",
        "{setDefaultRWConcern: 1, defaultWriteConcern: {w: 1, j: true}, defaultReadConcern: {level: 'majority'}}",
        "{setClusterParameter: {defaultMaxTimeMS: {readOperations: 20}}}",
        "{setUserWriteBlockMode: 1, global: true}",
    ] {
        assert!(is_ok(&admin(&mut client, command)), "{command}");
    }
    drop(client);
    let mut client = Client::new(&server_on(engine, Some("rs")));
    let defaults = admin(&mut client, "{getDefaultRWConcern: 1}");
    assert_eq!(defaults.get("defaultWriteConcernSource").as_str(), Some("global"));
    let write = defaults.get("defaultWriteConcern").as_doc().unwrap().to_buf();
    assert_eq!((write.get("w"), write.get("j")), (Value::Int32(1), Value::Bool(true)));
    let read = defaults.get("defaultReadConcern").as_doc().unwrap().to_buf();
    assert_eq!(read.get("level").as_str(), Some("majority"));
    let refused = client.shell("{insert: 'c', documents: [{_id: 1}]}");
    assert_eq!(refused.get("code"), Value::Int32(371));
    assert!(is_ok(&admin(&mut client, "{setUserWriteBlockMode: 1, global: false}")));
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}]}")));
    let late = client.shell("{find: 'c', filter: {$where: 'while (true) { }'}}");
    assert_eq!(late.get("code"), Value::Int32(50));
}

/// Metadata at the deepest nesting that the server accepts can be read after a restart, although the catalog
/// entries nest it deeper.
#[test]
fn what_a_command_stored_is_read_by_the_next_start() {
    let engine = Arc::new(Memory::new());
    let mut client = Client::new(&server_on(engine.clone(), None));
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}]}")));
    let nested = |depth: usize| format!("{}1{}", "{a: ".repeat(depth), "}".repeat(depth));
    let (mut names, mut kinds) = (vec!["c".to_owned(), "m".to_owned(), "w".to_owned()], [0; 6]);
    assert!(is_ok(&client.shell("{create: 'm'}")));
    assert!(is_ok(&client.shell("{create: 'w', viewOn: 'c', pipeline: []}")));
    for depth in 170..=198 {
        let deep = nested(depth);
        let commands = [
            format!("{{create: 'v{depth}', validator: {{x: {deep}}}}}"),
            format!("{{create: 'w{depth}', viewOn: 'c', pipeline: [{{$match: {{x: {deep}}}}}]}}"),
            format!("{{collMod: 'm', validator: {{x: {deep}}}}}"),
            format!("{{collMod: 'w', viewOn: 'c', pipeline: [{{$match: {{x: {deep}}}}}]}}"),
            format!(
                "{{createIndexes: 'c', indexes: [{{key: {{'f{depth}': 1}}, name: 'f{depth}', \
                 partialFilterExpression: {{x: {deep}}}}}]}}"
            ),
            format!("{{create: 'e{depth}', storageEngine: {{x: {deep}}}}}"),
        ];
        for (kind, command) in commands.iter().enumerate() {
            // At the depth limit of all documents the command itself cannot be parsed.
            let Ok(command) = json::parse(command) else { continue };
            let first = command
                .as_doc()
                .into_iter()
                .next()
                .and_then(|e| e.value().as_str().map(str::to_owned));
            if is_ok(&client.run("test", command.as_doc())) {
                kinds[kind] += 1;
                names.extend(first.filter(|name| name.len() > 1));
            }
        }
    }
    assert!(kinds[..5].iter().all(|count| *count > 10), "{kinds:?}");
    let index_count = |client: &mut Client| {
        let stats = client
            .shell("{aggregate: 'c', pipeline: [{$indexStats: {}}, {$count: 'n'}], cursor: {}}");
        json::to_relaxed(stats.as_doc())
    };
    let before = index_count(&mut client);
    drop(client);
    let mut client = Client::new(&server_on(engine, None));
    for name in &names {
        let found = client
            .shell(&format!("{{listCollections: 1, nameOnly: true, filter: {{name: '{name}'}}}}"));
        assert!(json::to_relaxed(found.as_doc()).contains(name.as_str()), "{name}");
    }
    assert_eq!(index_count(&mut client), before);
}

#[test]
fn nobody_without_the_right_writes_while_writes_are_blocked() {
    let server = server_with(Arc::new(Memory::new()), Some("rs"), true);
    let mut root = Client::new(&server);
    assert!(is_ok(&admin(&mut root, "{replSetInitiate: 1}")));
    assert!(is_ok(&admin(&mut root, "{createUser: 'u', pwd: 'p', roles: ['root']}")));
    crate::login::log_in(&mut root, "admin", "u", "p");
    for (name, roles) in
        [("plain", "['readWriteAnyDatabase']"), ("copies", "['readWriteAnyDatabase', 'restore']")]
    {
        let create = format!("{{createUser: '{name}', pwd: 'p', roles: {roles}}}");
        assert!(is_ok(&admin(&mut root, &create)));
    }
    assert!(is_ok(&admin(&mut root, "{setUserWriteBlockMode: 1, global: true}")));
    for (name, code) in [("plain", 371), ("copies", 0)] {
        let mut client = Client::new(&server);
        crate::login::log_in(&mut client, "admin", name, "p");
        let reply = client.shell("{insert: 'c', documents: [{}]}");
        let found = reply.get("code");
        assert_eq!(found, if code == 0 { Value::Missing } else { Value::Int32(code) }, "{name}");
    }
}

#[test]
fn who_has_the_right_shuts_the_server_down_from_afar() {
    let open = server_on(Arc::new(Memory::new()), None);
    let mut client = Client::from(&open, "10.1.2.3:5000");
    let refused = admin(&mut client, "{shutdown: 1}");
    assert_eq!(refused.get("code"), Value::Int32(13));
    let closed = server_with(Arc::new(Memory::new()), None, true);
    let mut local = Client::new(&closed);
    assert!(is_ok(&admin(&mut local, "{createUser: 'u', pwd: 'p', roles: ['root']}")));
    let mut remote = Client::from(&closed, "10.1.2.3:5000");
    assert_eq!(admin(&mut remote, "{shutdown: 1}").get("code"), Value::Int32(13));
    crate::login::log_in(&mut remote, "admin", "u", "p");
    assert!(is_ok(&admin(&mut remote, "{shutdown: 1, force: true}")));
    closed.wait_for_shutdown();
}

#[test]
fn a_shutdown_lets_a_running_read_finish() {
    let server = server_on(Arc::new(Memory::new()), None);
    let mut reader = Client::new(&server);
    reader.shell("{insert: 'c', documents: [{_id: 1}]}");
    let mut other = Client::new(&server);
    let thread = std::thread::spawn(move || {
        reader.shell("{find: 'c', filter: {$where: 'sleep(300) || true'}, comment: 'slow'}")
    });
    while readers(&mut other) != Value::Int32(1) {
        std::thread::yield_now();
    }
    assert!(is_ok(&admin(&mut other, "{shutdown: 1, timeoutSecs: 30}")));
    // The read had finished before the command was answered.
    assert_eq!(readers(&mut other), Value::Int32(0));
    assert!(is_ok(&thread.join().unwrap()));
}

/// The number of reads in progress.
fn readers(client: &mut Client) -> Value<'static> {
    let status = admin(client, "{serverStatus: 1}");
    let lock = status.get("globalLock").as_doc().unwrap();
    match lock.get("activeClients").as_doc().unwrap().get("readers") {
        Value::Int32(n) => Value::Int32(n),
        other => panic!("{other}"),
    }
}
