//! Behavior of logins beyond single commands: old opcodes, the localhost exception, restrictions, and changes
//! of users while their connections are open.

use std::sync::Arc;

use nagi_bson::{DocBuf, Value, doc};
use nagi_server::Server;

use crate::client::{Client, is_ok, server_with};
use crate::legacy;
use crate::login::{guarded, log_in};

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
    assert_eq!(code(&foreign), 13, "another user's session");
    assert!(is_ok(&root.run("admin", doc! { "endSessions": [] }.as_doc())));
    assert!(is_ok(&client.run("admin", statement(commit, false).as_doc())));
}
