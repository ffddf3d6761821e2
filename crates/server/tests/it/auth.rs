//! Behavior of logins beyond single commands: old opcodes, the localhost exception, restrictions, and changes
//! of users while their connections are open.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, doc};
use nagi_server::Server;

use crate::client::{Client, is_ok, server_with};
use crate::legacy;
use crate::login::{guarded, guarded_member, log_in};

fn code(reply: &DocBuf) -> i32 {
    match reply.get("code") {
        Value::Int32(code) => code,
        _ => 0,
    }
}

fn root(server: &Arc<Server>) -> Client {
    let mut root = Client::new(server);
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    root
}

#[test]
fn the_first_user_is_made_from_this_machine_only() {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), None, true);
    let first = doc! { "createUser": "a", "pwd": "p", "roles": ["root"] };
    let mut far = Client::from(&server, "10.1.2.3:4");
    assert_eq!(code(&far.run("admin", first.as_doc())), 13);
    let mut near = Client::from(&server, "[::1]:5");
    assert_eq!(code(&near.run("test", doc! { "find": "c" }.as_doc())), 13);
    assert_eq!(code(&near.run("test", first.as_doc())), 13);
    assert!(is_ok(&near.run("admin", first.as_doc())));
    assert_eq!(code(&near.run("admin", first.as_doc())), 13);
}

#[test]
fn old_opcodes_are_checked_too() {
    let server = guarded();
    let mut root = root(&server);
    let docs = doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] };
    assert!(is_ok(&root.run("test", docs.as_doc())));
    let opened = root.run("test", doc! { "find": "c", "batchSize": 1 }.as_doc());
    let cursor = match opened.get("cursor").as_doc().map(|cursor| cursor.get("id")) {
        Some(Value::Int64(id)) => id,
        other => panic!("{other:?}"),
    };
    let mut nobody = Client::new(&server);
    let (flags, _, found) = legacy::query(&mut nobody, "test.c", 0, &DocBuf::new());
    assert_eq!((flags & 2, code(&found[0])), (2, 13), "{found:?}");
    legacy::insert(&mut nobody, "test.c", &[doc! { "_id": 9 }]);
    let outcome = legacy::last_error(&mut nobody);
    assert_eq!(code(&outcome), 13, "{outcome:?}");
    legacy::kill_cursor(&mut nobody, cursor);
    let more = doc! { "getMore": (cursor), "collection": "c" };
    assert_eq!(code(&nobody.run("test", more.as_doc())), 13);
    assert!(is_ok(&root.run("test", more.as_doc())), "still there");
}

#[test]
fn restrictions_hold_at_the_login() {
    let server = guarded();
    let mut root = root(&server);
    let user = doc! {
        "createUser": "u", "pwd": "p", "roles": [],
        "authenticationRestrictions": [{ "clientSource": ["10.0.0.0/8"] }]
    };
    assert!(is_ok(&root.run("test", user.as_doc())));
    let mut far = Client::from(&server, "10.1.2.3:4");
    assert!(is_ok(&log_in(&mut far, "test", "u", "p")));
    let refused = log_in(&mut Client::new(&server), "test", "u", "p");
    assert_eq!(
        (code(&refused), refused.get("errmsg").as_str()),
        (18, Some("Authentication failed."))
    );
}

/// Restrictions that are set later end the connections that do not meet them.
#[test]
fn new_restrictions_hold_for_open_connections() {
    let server = guarded();
    let mut root = root(&server);
    let far_only = "[{clientSource: '10.0.0.0/8'}]";
    let run = |root: &mut Client, command: &str| {
        let reply = root.run("test", nagi_bson::json::parse(command).unwrap().as_doc());
        assert!(is_ok(&reply), "{command}: {reply:?}");
    };
    run(
        &mut root,
        &format!(
            "{{createRole: 'far', privileges: [], roles: [], authenticationRestrictions: {far_only}}}"
        ),
    );
    run(&mut root, "{createRole: 'around', privileges: [], roles: ['far']}");
    for change in [
        &format!("{{updateUser: 'u', authenticationRestrictions: {far_only}}}"),
        "{grantRolesToUser: 'u', roles: ['around']}",
    ] {
        run(&mut root, "{createUser: 'u', pwd: 'p', roles: ['read']}");
        let (mut near, mut far) = (Client::new(&server), Client::from(&server, "10.1.2.3:4"));
        for client in [&mut near, &mut far] {
            assert!(is_ok(&log_in(client, "test", "u", "p")));
        }
        run(&mut root, change);
        let find = doc! { "find": "c" };
        assert_eq!(code(&near.run("test", find.as_doc())), 13, "{change}");
        let status = near.run("test", doc! { "connectionStatus": 1 }.as_doc());
        assert!(status.as_doc().to_string().contains("authenticatedUsers: []"), "{status:?}");
        assert!(is_ok(&far.run("test", find.as_doc())), "{change}");
        run(&mut root, "{dropUser: 'u'}");
    }
}

/// Of several clients that create the first user at the same time, one does.
#[test]
fn only_one_client_makes_the_first_user() {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), None, true);
    let barrier = std::sync::Barrier::new(8);
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let made = |n: usize| {
            let (server, barrier) = (&server, &barrier);
            scope.spawn(move || {
                let mut client = Client::new(server);
                let name = format!("u{n}");
                let user = doc! { "createUser": &name, "pwd": "p", "roles": ["root"] };
                let role = doc! { "createRole": &name, "privileges": [], "roles": ["root"] };
                barrier.wait();
                code(&client.run("admin", if n % 4 == 3 { role } else { user }.as_doc()))
            })
        };
        let all: Vec<_> = (0..8).map(made).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 13).count(), 7, "{codes:?}");
}

#[test]
fn a_user_made_anew_is_another_one() {
    let server = guarded();
    let mut root = root(&server);
    let user = doc! { "createUser": "u", "pwd": "p", "roles": ["read"] };
    assert!(is_ok(&root.run("test", user.as_doc())));
    let mut client = Client::new(&server);
    assert!(is_ok(&log_in(&mut client, "test", "u", "p")));
    let find = doc! { "find": "c" };
    assert!(is_ok(&client.run("test", find.as_doc())));
    assert!(is_ok(&root.run("test", doc! { "dropUser": "u" }.as_doc())));
    assert!(is_ok(&root.run("test", user.as_doc())));
    assert_eq!(code(&client.run("test", find.as_doc())), 13, "logged out");
    assert!(is_ok(&log_in(&mut client, "test", "u", "p")), "and in again");
    assert!(is_ok(&client.run("test", find.as_doc())));
    // Documents that a tool writes have the same effect as commands.
    let change = doc! {
        "update": "system.users",
        "updates": [{ "q": { "_id": "test.u" }, "u": { "$set": { "roles": [] } } }]
    };
    let mut restorer = Client::new(&server);
    // `applyOps` itself is a right of those who manage the set.
    let maker = doc! { "createUser": "r", "pwd": "p", "roles": ["restore", "clusterManager"] };
    assert!(is_ok(&root.run("admin", maker.as_doc())));
    assert!(is_ok(&log_in(&mut restorer, "admin", "r", "p")));
    assert!(is_ok(&restorer.run("admin", change.as_doc())));
    assert_eq!(code(&client.run("test", find.as_doc())), 13);
    // So do oplog entries: another user replaces this one, which ends its login.
    let applied = doc! { "applyOps": [{
        "op": "i", "ns": "admin.system.users",
        "o": { "_id": "test.u", "user": "u", "db": "test", "credentials": {}, "roles": [] }
    }] };
    let reply = restorer.run("admin", applied.as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    let status = client.run("test", doc! { "connectionStatus": 1 }.as_doc());
    assert!(status.as_doc().to_string().contains("authenticatedUsers: []"), "{status:?}");
}

#[test]
fn one_user_a_connection() {
    let server = guarded();
    let mut client = root(&server);
    let user = doc! { "createUser": "u", "pwd": "p", "roles": [] };
    assert!(is_ok(&client.run("test", user.as_doc())));
    assert!(is_ok(&log_in(&mut client, "admin", "root", "pwd")), "again as the same");
    assert_eq!(code(&log_in(&mut client, "test", "u", "p")), 5_626_701);
    assert!(is_ok(&client.run("admin", doc! { "logout": 1 }.as_doc())));
    assert_eq!(code(&client.run("test", doc! { "find": "c" }.as_doc())), 13);
    assert!(is_ok(&log_in(&mut client, "test", "u", "p")));
}

#[test]
fn a_statement_of_a_transaction_is_checked() {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), Some("rs"), true);
    let mut first = Client::new(&server);
    assert!(is_ok(&first.run("admin", doc! { "replSetInitiate": 1 }.as_doc())));
    let user = doc! { "createUser": "root", "pwd": "pwd", "roles": ["root"] };
    assert!(is_ok(&first.run("admin", user.as_doc())));
    let mut root = root(&server);
    let reader = doc! { "createUser": "u", "pwd": "p", "roles": ["read"] };
    assert!(is_ok(&root.run("test", reader.as_doc())));
    assert!(is_ok(&root.run("test", doc! { "insert": "c", "documents": [{}] }.as_doc())));
    let mut client = Client::new(&server);
    assert!(is_ok(&log_in(&mut client, "test", "u", "p")));
    let statement = |head: DocBuf, start: bool| {
        DocBuf::build(|out| {
            out.extend(head.as_doc());
            out.doc("lsid", |lsid| {
                let bytes = &[7; 16];
                lsid.put("id", Value::Binary(nagi_bson::Binary { subtype: 4, bytes }));
            });
            out.put("txnNumber", 1_i64);
            out.put("autocommit", false);
            if start {
                out.put("startTransaction", true);
            }
        })
    };
    let found = client.run("test", statement(doc! { "find": "c" }, true).as_doc());
    assert!(is_ok(&found), "{found:?}");
    let insert = doc! { "insert": "c", "documents": [{}] };
    assert_eq!(code(&client.run("test", statement(insert, false).as_doc())), 13);
    let commit = doc! { "commitTransaction": 1 };
    let foreign = root.run("admin", statement(commit.clone(), false).as_doc());
    assert_eq!(code(&foreign), 251, "its own session with the same id has no transaction");
    assert!(is_ok(&root.run("admin", doc! { "endSessions": [] }.as_doc())));
    assert!(is_ok(&client.run("admin", statement(commit, false).as_doc())));
}

/// A user with all rights on database `a`, and the right to apply entries with UUIDs.
fn applier(server: &Arc<Server>, root: &mut Client) -> Client {
    let role = doc! {
        "createRole": "applier",
        "privileges": [{
            "resource": { "cluster": true }, "actions": ["applyOps", "useUUID", "forceUUID"]
        }],
        "roles": [{ "role": "dbOwner", "db": "a" }]
    };
    assert!(is_ok(&root.run("admin", role.as_doc())));
    let user = doc! { "createUser": "u", "pwd": "p", "roles": ["applier"] };
    assert!(is_ok(&root.run("admin", user.as_doc())));
    let mut client = Client::new(server);
    assert!(is_ok(&log_in(&mut client, "admin", "u", "p")));
    client
}

/// The UUID of a collection.
fn uuid_of(root: &mut Client, db: &str, name: &str) -> [u8; 16] {
    let list = root.run(db, doc! { "listCollections": 1, "filter": { "name": (name) } }.as_doc());
    let cursor = list.get("cursor").as_doc().unwrap();
    let first = cursor.get("firstBatch").as_array().unwrap().iter().next().unwrap();
    match first.as_doc().unwrap().get("info").as_doc().unwrap().get("uuid") {
        Value::Binary(uuid) => uuid.bytes.try_into().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The request `applyOps` with one command. `drop_target`: subtype and bytes of this option.
fn applied_to(
    ns: &str,
    ui: Option<[u8; 16]>,
    o: &DocBuf,
    drop_target: Option<(u8, [u8; 16])>,
) -> DocBuf {
    let binary = |subtype, bytes| Value::Binary(nagi_bson::Binary { subtype, bytes });
    DocBuf::build(|w| {
        w.array("applyOps", |list| {
            list.doc(|w| {
                w.put("op", "c");
                w.put("ns", ns);
                if let Some(uuid) = &ui {
                    w.put("ui", binary(4, uuid));
                }
                w.doc("o", |w| {
                    w.extend(o.as_doc());
                    if let Some((subtype, bytes)) = &drop_target {
                        w.put("dropTarget", binary(*subtype, bytes));
                    }
                });
            });
        });
    })
}

fn applied(ui: Option<[u8; 16]>, o: &DocBuf, drop_target: Option<(u8, [u8; 16])>) -> DocBuf {
    applied_to("a.$cmd", ui, o, drop_target)
}

#[test]
fn entries_need_rights_on_the_collection_of_their_uuid() {
    let server = guarded();
    let mut root = root(&server);
    let mut client = applier(&server, &mut root);
    for (db, name) in [("a", "secret"), ("a", "x"), ("b", "secret")] {
        let insert = doc! { "insert": (name), "documents": [{ "_id": 1, "k": 1 }] };
        assert!(is_ok(&root.run(db, insert.as_doc())));
    }
    let index = doc! { "createIndexes": "secret", "indexes": [{ "key": { "k": 1 }, "name": "k" }] };
    assert!(is_ok(&root.run("b", index.as_doc())));
    let secret = uuid_of(&mut root, "b", "secret");
    let before = root.run("b", doc! { "listIndexes": "secret" }.as_doc());
    for object in [
        doc! { "drop": "x" },
        doc! { "collMod": "x", "validationLevel": "off" },
        doc! { "createIndexes": "x", "v": 2, "key": { "z": 1 }, "name": "z" },
        doc! { "commitIndexBuild": "x", "indexes": [{ "v": 2, "key": { "z": 1 }, "name": "z" }] },
        doc! { "dropIndexes": "x", "index": "k" },
        doc! { "convertToCapped": "x", "size": 4096 },
        doc! { "emptycapped": "x" },
        doc! { "renameCollection": "a.x", "to": "a.y" },
        doc! { "renameCollection": "a.x", "to": "a.secret", "dropTarget": true },
    ] {
        let reply = client.run("admin", applied(Some(secret), &object, None).as_doc());
        assert_eq!(code(&reply), 13, "{object:?}: {reply:?}");
    }
    let create = doc! { "create": "stolen" };
    let reply = client.run("admin", applied(Some(secret), &create, None).as_doc());
    assert_eq!(code(&reply), 40_655, "{reply:?}");
    // The source is missing, so that the target would be dropped.
    let rename = doc! { "renameCollection": "a.none", "to": "a.y" };
    let reply = client.run("admin", applied(None, &rename, Some((4, secret))).as_doc());
    assert_eq!(code(&reply), 13, "{reply:?}");
    let reply = client.run("admin", applied(None, &rename, Some((0, secret))).as_doc());
    assert_eq!(code(&reply), 14, "{reply:?}");
    assert_eq!(uuid_of(&mut root, "b", "secret"), secret, "still there");
    assert_eq!(root.run("b", doc! { "listIndexes": "secret" }.as_doc()), before);
    // A name of the system is not made by a rename.
    let rename = doc! { "renameCollection": "a.x", "to": "a.system.js" };
    assert_eq!(code(&client.run("admin", applied(None, &rename, None).as_doc())), 13);
    // What the user has rights on goes by its UUID, whatever the entry calls it.
    let own = uuid_of(&mut root, "a", "x");
    let rename = doc! { "renameCollection": "b.secret", "to": "a.y" };
    let reply = client.run("admin", applied(Some(own), &rename, None).as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    let reply = client.run("admin", applied(Some(own), &doc! { "drop": "x" }, None).as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    let left = root.run("a", doc! { "listCollections": 1, "filter": { "name": "y" } }.as_doc());
    assert!(left.as_doc().to_string().contains("firstBatch: []"), "{left:?}");
}

#[test]
fn the_write_block_covers_the_collection_of_a_uuid() {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), Some("rs"), false);
    let mut client = Client::new(&server);
    assert!(is_ok(&client.run("admin", doc! { "replSetInitiate": 1 }.as_doc())));
    let insert = doc! { "insert": "secret", "documents": [{ "_id": 1 }] };
    assert!(is_ok(&client.run("b", insert.as_doc())));
    let secret = uuid_of(&mut client, "b", "secret");
    let block = doc! { "setUserWriteBlockMode": 1, "global": true };
    assert!(is_ok(&client.run("admin", block.as_doc())));
    for object in [doc! { "drop": "x" }, doc! { "renameCollection": "admin.x", "to": "admin.y" }] {
        let request = applied_to("admin.$cmd", Some(secret), &object, None);
        let reply = client.run("admin", request.as_doc());
        assert_eq!(code(&reply), 371, "{reply:?}");
    }
}

fn cluster_time(reply: &DocBuf) -> u64 {
    match reply.get("$clusterTime").as_doc().map(|times| times.get("clusterTime")) {
        Some(Value::Timestamp(time)) => time,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_do_not_move_the_time_ahead() {
    let server = guarded_member();
    let mut root = root(&server);
    let now = cluster_time(&root.run("admin", doc! { "ping": 1 }.as_doc()));
    let ahead = now + (1000 << 32);
    let hash = Value::Binary(nagi_bson::Binary { subtype: 0, bytes: &[0; 20] });
    let told = |name: &str| {
        doc! {
            (name): 1, "$clusterTime": {
                "clusterTime": (Value::Timestamp(ahead)),
                "signature": { "hash": (hash), "keyId": 0_i64 }
            }
        }
    };
    let mut nobody = Client::new(&server);
    for name in ["hello", "ping", "isMaster", "saslStart"] {
        nobody.run("admin", told(name).as_doc());
    }
    assert!(is_ok(&root.run("admin", told("ping").as_doc())));
    assert!(cluster_time(&root.run("admin", doc! { "ping": 1 }.as_doc())) < ahead);
    // A user with the privilege, such as another member of a cluster.
    let role = doc! {
        "createRole": "clock", "roles": [],
        "privileges": [{ "resource": { "cluster": true }, "actions": ["advanceClusterTime"] }]
    };
    assert!(is_ok(&root.run("admin", role.as_doc())));
    let grant = doc! { "grantRolesToUser": "root", "roles": ["clock"] };
    assert!(is_ok(&root.run("admin", grant.as_doc())));
    assert!(is_ok(&root.run("admin", told("ping").as_doc())));
    assert!(cluster_time(&root.run("admin", doc! { "ping": 1 }.as_doc())) >= ahead);
}

#[test]
fn a_revoked_right_ends_cursors_that_read_with_it() {
    let server = guarded_member();
    let mut root = root(&server);
    for command in [
        "{insert: 'a', documents: [{_id: 1}, {_id: 2}]}",
        "{create: 'b'}",
        "{create: 'c'}",
        "{create: 'd'}",
        "{create: 'e'}",
        "{createRole: 'reader', roles: [], privileges: [{resource: {db: 'test', collection: ''}, \
          actions: ['find', 'changeStream', 'listCollections']}]}",
        "{createUser: 'u', pwd: 'p', roles: [{role: 'reader', db: 'test'}, {role: 'read', db: 'test'}]}",
        "{grantRolesToUser: 'u', roles: [{role: 'root', db: 'admin'}]}",
    ] {
        let reply = root.run("test", nagi_bson::json::parse(command).unwrap().as_doc());
        assert!(is_ok(&reply), "{reply:?}");
    }
    let mut user = Client::new(&server);
    assert!(is_ok(&log_in(&mut user, "test", "u", "p")));
    let stream = "pipeline: [{$changeStream: {@}}], cursor: {}}";
    let all = stream.replace('@', "allChangesForCluster: true");
    let own = stream.replace('@', "");
    let opened: Vec<(&str, &str, i64)> = [
        ("test", "a", format!("{{aggregate: 'a', {own}")),
        ("test", "$cmd.aggregate", format!("{{aggregate: 1, {own}")),
        ("admin", "$cmd.aggregate", format!("{{aggregate: 1, {all}")),
        (
            "admin",
            "$cmd.aggregate",
            "{aggregate: 1, pipeline: [{$currentOp: {allUsers: true}}], cursor: {batchSize: 0}}"
                .to_owned(),
        ),
        ("test", "$cmd.listCollections", "{listCollections: 1, cursor: {batchSize: 1}}".to_owned()),
    ]
    .into_iter()
    .map(|(db, name, command)| {
        let reply = user.run(db, nagi_bson::json::parse(&command).unwrap().as_doc());
        match reply.get("cursor").as_doc().map(|cursor| cursor.get("id")) {
            Some(Value::Int64(id)) if id != 0 => (db, name, id),
            _ => panic!("{reply:?}"),
        }
    })
    .collect();
    let more = |user: &mut Client, (db, name, id): (&str, &str, i64)| {
        let command = doc! { "getMore": (id), "collection": (name), "batchSize": 1 };
        code(&user.run(db, command.as_doc()))
    };
    let change = |root: &mut Client, command: &str| {
        let reply = root.run("test", nagi_bson::json::parse(command).unwrap().as_doc());
        assert!(is_ok(&reply), "{reply:?}");
    };
    // Only the streams need this right, and none but the first one is of the database.
    change(&mut root, "{revokeRolesFromUser: 'u', roles: [{role: 'root', db: 'admin'}]}");
    let codes: Vec<i32> = opened.iter().map(|cursor| more(&mut user, *cursor)).collect();
    assert_eq!(codes, [0, 0, 13, 13, 0]);
    change(&mut root, "{revokeRolesFromUser: 'u', roles: ['read']}");
    change(
        &mut root,
        "{updateRole: 'reader', privileges: [{resource: {db: 'test', collection: ''}, actions: ['find']}]}",
    );
    let codes: Vec<i32> = opened.iter().map(|cursor| more(&mut user, *cursor)).collect();
    assert_eq!(codes, [13, 13, 13, 13, 13]);
    change(&mut root, "{grantRolesToUser: 'u', roles: [{role: 'root', db: 'admin'}]}");
    let codes: Vec<i32> = opened.iter().map(|cursor| more(&mut user, *cursor)).collect();
    assert_eq!(codes, [0, 0, 0, 0, 0]);
}

/// Which collections `$out`, `$merge` and `$changeStream` may not have is told to clients with the privileges only.
#[test]
fn privileges_are_checked_before_targets() {
    let server = guarded_member();
    let mut root = root(&server);
    let user = doc! { "createUser": "u", "pwd": "p", "roles": ["read"] };
    for db in ["admin", "test"] {
        assert!(is_ok(&root.run(db, user.as_doc())));
        assert!(is_ok(&root.run(db, doc! { "insert": "c", "documents": [{}] }.as_doc())));
    }
    let mut of_admin = Client::new(&server);
    assert!(is_ok(&log_in(&mut of_admin, "admin", "u", "p")));
    let mut of_test = Client::new(&server);
    assert!(is_ok(&log_in(&mut of_test, "test", "u", "p")));
    let stage = |of: &str, stage: &str| {
        let text = format!("{{aggregate: {of}, pipeline: [{stage}], cursor: {{}}}}");
        nagi_bson::json::parse(&text).unwrap()
    };
    for (of, text, told) in [
        ("'c'", "{$out: 'x'}", 31321),
        ("'c'", "{$out: {db: 'local', coll: 'x'}}", 31321),
        ("'c'", "{$merge: 'x'}", 31320),
        ("'c'", "{$merge: {into: {db: 'config', coll: 'x'}}}", 31320),
        ("1", "{$changeStream: {}}", 73),
    ] {
        let command = stage(of, text);
        assert_eq!(code(&of_admin.run("admin", command.as_doc())), 13, "{text}");
        assert_eq!(code(&root.run("admin", command.as_doc())), told, "{text}");
    }
    // `read` on a database has streams of its collections.
    let watch = stage("'c'", "{$changeStream: {}}");
    assert_eq!(code(&of_test.run("admin", watch.as_doc())), 13);
    assert_eq!(code(&of_admin.run("admin", watch.as_doc())), 73);
    for (text, told) in [("{$out: 'system.x'}", 17385), ("{$merge: 'system.x'}", 31319)] {
        let command = stage("'c'", text);
        assert_eq!(code(&of_test.run("test", command.as_doc())), 13, "{text}");
        // Only `__system` may write there.
        let role = doc! { "createUser": "s", "pwd": "p", "roles": ["__system"] };
        root.run("admin", role.as_doc());
        let mut system = Client::new(&server);
        assert!(is_ok(&log_in(&mut system, "admin", "s", "p")));
        assert_eq!(code(&system.run("test", command.as_doc())), told, "{text}");
    }
    let all = stage("1", "{$changeStream: {allChangesForCluster: true}}");
    assert_eq!(code(&of_test.run("test", all.as_doc())), 72);
    assert_eq!(code(&of_test.run("admin", all.as_doc())), 13);
}
