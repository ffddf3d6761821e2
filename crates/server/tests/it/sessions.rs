//! Sessions are known by their UUID and their user: users with the same UUID share no cursor, transaction or retry.

use std::sync::Arc;

use nagi_bson::{Binary, DocBuf, Value, doc, json};
use nagi_server::Server;
use nagi_store::{SessionKey, Store, StoreOptions, WriteOptions};
use sha2::{Digest, Sha256};

use crate::client::{Client, is_ok, server_with};
use crate::login::{guarded, guarded_member, log_in};

const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";

fn code(reply: &DocBuf) -> i32 {
    match reply.get("code") {
        Value::Int32(code) => code,
        _ => 0,
    }
}

/// A client that is logged in as a new user of database `test` with these roles.
fn user(server: &Arc<Server>, name: &str, roles: &str) -> Client {
    let mut root = Client::new(server);
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    run(&mut root, "test", &format!("{{createUser: '{name}', pwd: 'p', roles: [{roles}]}}"));
    let mut client = Client::new(server);
    assert!(is_ok(&log_in(&mut client, "test", name, "p")));
    client
}

/// Runs a command that must succeed.
fn run(client: &mut Client, db: &str, text: &str) -> DocBuf {
    let reply = reply(client, db, text);
    assert!(is_ok(&reply), "{text}: {reply:?}");
    reply
}

/// Runs a command that must fail, and returns the code.
fn fails(client: &mut Client, db: &str, text: &str) -> i32 {
    let reply = reply(client, db, text);
    assert!(!is_ok(&reply), "{text}: {reply:?}");
    code(&reply)
}

/// Runs a command. `$UUID` is that of the tests.
fn reply(client: &mut Client, db: &str, text: &str) -> DocBuf {
    let text = text.replace("$LSID", "lsid: {id: UUID('$UUID')}").replace("$UUID", UUID);
    client.run(db, json::parse(&text).unwrap().as_doc())
}

/// The digest of a user, as a value of the shell.
fn uid(name: &str) -> String {
    let mut text = String::new();
    json::base64_encode(&mut text, &Sha256::digest(name.as_bytes()));
    format!("{{$binary: {{base64: '{text}', subType: '00'}}}}")
}

/// Opens a cursor in the session, and returns its id.
fn open(client: &mut Client) -> i64 {
    let reply = run(client, "test", "{find: 'c', batchSize: 1, $LSID}");
    match reply.get("cursor").as_doc().unwrap().get("id") {
        Value::Int64(id) => id,
        other => panic!("{other:?}"),
    }
}

fn more(client: &mut Client, cursor: i64) -> i32 {
    let text = format!("{{getMore: NumberLong('{cursor}'), collection: 'c', batchSize: 1, $LSID}}");
    code(&reply(client, "test", &text))
}

fn fill(server: &Arc<Server>) {
    let mut root = Client::new(server);
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    run(&mut root, "test", "{insert: 'c', documents: [{_id: 1}, {_id: 2}, {_id: 3}, {_id: 4}]}");
}

#[test]
fn a_cursor_belongs_to_the_session_of_its_user() {
    let server = guarded();
    fill(&server);
    let (mut ann, mut bob) = (user(&server, "ann", "'read'"), user(&server, "bob", "'read'"));
    let (anns, bobs) = (open(&mut ann), open(&mut bob));
    assert_eq!((more(&mut bob, anns), more(&mut ann, bobs)), (13, 13));
    // Ending, killing and refreshing `{id}` concerns the own session only.
    for command in ["endSessions", "killSessions"] {
        run(&mut bob, "admin", &format!("{{{command}: [{{id: UUID('$UUID')}}]}}"));
        assert_eq!((more(&mut ann, anns), more(&mut bob, bobs)), (0, 43), "{command}");
    }
    let foreign = format!("[{{id: UUID('$UUID'), uid: {}}}]", uid("ann@test"));
    for command in ["endSessions", "killSessions", "refreshSessions"] {
        assert_eq!(fails(&mut bob, "admin", &format!("{{{command}: {foreign}}}")), 13, "{command}");
    }
    assert_eq!(more(&mut ann, anns), 0);
    // Her own digest may be given.
    run(&mut ann, "admin", &format!("{{refreshSessions: {foreign}}}"));
    let anns = open(&mut ann);
    run(&mut ann, "admin", &format!("{{endSessions: {foreign}}}"));
    assert_eq!(more(&mut ann, anns), 43);
}

#[test]
fn killers_name_the_user_of_a_session() {
    let server = guarded();
    fill(&server);
    let (mut ann, mut bob) = (user(&server, "ann", "'read'"), user(&server, "bob", "'read'"));
    let mut killer = user(&server, "killer", "{role: 'hostManager', db: 'admin'}");
    let (ann_uid, bob_uid) = (uid("ann@test"), uid("bob@test"));
    for kill in [
        format!("{{killSessions: [{{id: UUID('$UUID'), uid: {ann_uid}}}]}}"),
        "{killAllSessions: [{user: 'ann', db: 'test'}]}".to_owned(),
        format!("{{killAllSessionsByPattern: [{{uid: {ann_uid}}}]}}"),
        format!("{{killAllSessionsByPattern: [{{lsid: {{id: UUID('$UUID'), uid: {ann_uid}}}}}]}}"),
    ] {
        let (anns, bobs) = (open(&mut ann), open(&mut bob));
        run(&mut killer, "admin", &kill);
        assert_eq!((more(&mut ann, anns), more(&mut bob, bobs)), (43, 0), "{kill}");
        assert_eq!(fails(&mut bob, "admin", &kill), 13, "{kill}");
    }
    let (anns, bobs) = (open(&mut ann), open(&mut bob));
    run(&mut killer, "admin", "{killSessions: []}");
    assert_eq!((more(&mut ann, anns), more(&mut bob, bobs)), (0, 0), "the killer's own only");
    // Only who may impersonate users kills in their stead, or ends the sessions of others.
    let stead = "{killAllSessionsByPattern: [{users: [{user: 'bob', db: 'test'}]}]}";
    assert_eq!(fails(&mut killer, "admin", stead), 13);
    let end = format!("{{endSessions: [{{id: UUID('$UUID'), uid: {bob_uid}}}]}}");
    assert_eq!(fails(&mut killer, "admin", &end), 13);
    let mut system = user(&server, "system", "{role: '__system', db: 'admin'}");
    run(&mut system, "admin", &end);
    assert_eq!((more(&mut ann, anns), more(&mut bob, bobs)), (0, 43));
    run(&mut system, "admin", stead);
    assert_eq!(more(&mut ann, anns), 43);
}

#[test]
fn a_foreign_digest_needs_a_privilege_on_every_command() {
    let server = guarded();
    fill(&server);
    let (mut ann, mut bob) = (user(&server, "ann", "'read'"), user(&server, "bob", "'read'"));
    let find = |of: &str| {
        format!("{{find: 'c', batchSize: 1, lsid: {{id: UUID('$UUID'), uid: {}}}}}", uid(of))
    };
    run(&mut ann, "test", &find("ann@test"));
    let refused = reply(&mut bob, "test", &find("ann@test"));
    assert_eq!(
        (code(&refused), refused.get("errmsg").as_str()),
        (13, Some("Unauthorized to set user digest in LogicalSessionId"))
    );
    // Without authorization nothing is another's.
    let open = server_with(Arc::new(nagi_kv::Memory::new()), None, false);
    run(&mut Client::new(&open), "test", &find("ann@test"));
}

#[test]
fn transactions_of_two_users_do_not_meet() {
    let server = guarded_member();
    let role = "'readWrite'";
    let (mut ann, mut bob) = (user(&server, "ann", role), user(&server, "bob", role));
    run(&mut ann, "test", "{create: 'c'}");
    let within = "$LSID, txnNumber: NumberLong(3), autocommit: false";
    let insert = |who: &str, start: &str| {
        format!("{{insert: 'c', documents: [{{_id: '{who}'}}], {within}{start}}}")
    };
    run(&mut ann, "test", &insert("ann", ", startTransaction: true"));
    assert_eq!(fails(&mut bob, "test", &insert("bob", "")), 251);
    run(&mut bob, "test", &insert("bob", ", startTransaction: true"));
    let own = "{currentOp: 1, $ownOps: true, type: 'idleSession'}";
    let listed = run(&mut ann, "admin", own);
    let listed = listed.get("inprog").as_array().unwrap().iter().collect::<Vec<_>>();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let lsid = listed[0].as_doc().unwrap().get("lsid").as_doc().unwrap();
    assert_eq!(
        lsid.get("uid"),
        Value::Binary(Binary { subtype: 0, bytes: &Sha256::digest(b"ann@test") })
    );
    run(&mut bob, "admin", &format!("{{abortTransaction: 1, {within}}}"));
    run(&mut ann, "admin", &format!("{{commitTransaction: 1, {within}}}"));
    let found = run(&mut ann, "test", "{find: 'c'}");
    let text = found.as_doc().to_string();
    assert!(text.contains("'ann'") || text.contains("\"ann\""), "{text}");
    assert!(!text.contains("bob"), "{text}");
}

#[test]
fn retries_of_two_users_do_not_meet() {
    let engine: Arc<dyn nagi_kv::Engine> = Arc::new(nagi_kv::Memory::new());
    let server = server_with(engine.clone(), Some("rs"), true);
    let mut first = Client::new(&server);
    run(&mut first, "admin", "{replSetInitiate: {}}");
    run(&mut first, "admin", "{createUser: 'root', pwd: 'pwd', roles: ['root']}");
    let role = "'readWrite'";
    let (mut ann, mut bob) = (user(&server, "ann", role), user(&server, "bob", role));
    let insert = |id: i32| {
        format!("{{insert: 'c', documents: [{{_id: {id}}}], $LSID, txnNumber: NumberLong(7)}}")
    };
    run(&mut ann, "test", &insert(1));
    let other = run(&mut bob, "test", &insert(2));
    assert!(other.get("retriedStmtIds").is_missing(), "{other:?}");
    drop((first, ann, bob, server));
    // The same after a restart, when the records are read from the store.
    let server = server_with(engine, Some("rs"), true);
    for (name, id) in [("bob", 2), ("ann", 1)] {
        let mut client = Client::new(&server);
        assert!(is_ok(&log_in(&mut client, "test", name, "p")));
        let again = run(&mut client, "test", &insert(id));
        assert!(!again.get("retriedStmtIds").is_missing(), "{again:?}");
        let older = insert(9).replace("(7)", "(6)");
        assert_eq!(fails(&mut client, "test", &older), 225);
    }
    let mut carl = user(&server, "carl", role);
    run(&mut carl, "test", &insert(3).replace("(7)", "(1)"));
}

/// Earlier versions stored a session by its UUID alone.
#[test]
fn records_of_earlier_versions_answer_retries() {
    let engine: Arc<dyn nagi_kv::Engine> = Arc::new(nagi_kv::Memory::new());
    let server = server_with(engine.clone(), Some("rs"), true);
    let mut first = Client::new(&server);
    run(&mut first, "admin", "{replSetInitiate: {}}");
    run(&mut first, "admin", "{createUser: 'root', pwd: 'pwd', roles: ['root']}");
    drop((first, user(&server, "ann", "'readWrite'"), server));
    let session = json::parse(&format!("{{id: UUID('{UUID}')}}")).unwrap();
    let Value::Binary(Binary { bytes, .. }) = session.get("id") else { panic!("a UUID") };
    let key =
        SessionKey { session: bytes.try_into().unwrap(), user: None, number: 5, statement: 0 };
    let change_log = Some(Arc::new(nagi_store::Oplog::default()) as _);
    let options = StoreOptions { change_log, ..StoreOptions::default() };
    let store = Store::open(engine.clone(), options).unwrap();
    let record = doc! { "s": [0, 1], "d": (Value::DateTime(i64::MAX)) };
    store
        .write(WriteOptions::default(), &mut |txn| txn.put_session_record(&key, record.as_doc()))
        .unwrap();
    drop(store);
    let server = server_with(engine, Some("rs"), true);
    let mut ann = Client::new(&server);
    assert!(is_ok(&log_in(&mut ann, "test", "ann", "p")));
    let insert = "{insert: 'c', documents: [{_id: 1}], $LSID, txnNumber: NumberLong(5)}";
    let retried = run(&mut ann, "test", insert);
    assert!(!retried.get("retriedStmtIds").is_missing(), "{retried:?}");
    assert!(run(&mut ann, "test", "{find: 'c'}").as_doc().to_string().contains("firstBatch: []"));
    // The next number replaces the record by one with the user.
    run(&mut ann, "test", &insert.replace("(5)", "(6)"));
    let retried = run(&mut ann, "test", &insert.replace("(5)", "(6)"));
    assert!(!retried.get("retriedStmtIds").is_missing(), "{retried:?}");
}

#[test]
fn sessions_are_listed_with_their_users() {
    let server = guarded();
    let (mut ann, mut bob) = (user(&server, "ann", ""), user(&server, "bob", ""));
    let mut monitor = user(&server, "monitor", "{role: 'clusterMonitor', db: 'admin'}");
    run(&mut ann, "admin", "{ping: 1, $LSID}");
    run(&mut bob, "admin", "{refreshSessions: [{id: UUID('$UUID')}]}");
    let list = |client: &mut Client, spec: &str| -> Vec<DocBuf> {
        let text =
            format!("{{aggregate: 1, pipeline: [{{$listLocalSessions: {spec}}}], cursor: {{}}}}");
        let reply = run(client, "admin", &text);
        let batch = reply.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
        batch.iter().map(|doc| doc.as_doc().unwrap().to_buf()).collect()
    };
    let own = list(&mut ann, "{}");
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].get("user").as_str(), Some("ann@test"));
    let digest = Sha256::digest(b"ann@test");
    let uid = own[0].get("_id").as_doc().unwrap().get("uid");
    assert_eq!(uid, Value::Binary(Binary { subtype: 0, bytes: &digest }));
    assert_eq!(list(&mut monitor, "{allUsers: true}").len(), 2);
    let named = list(&mut monitor, "{users: [{user: 'bob', db: 'test'}]}");
    assert_eq!((named.len(), named[0].get("user").as_str()), (1, Some("bob@test")));
    assert_eq!(list(&mut monitor, "{}").len(), 0);
}

/// A client that has not logged in has no session, so it ends none; its `lsid` is ignored.
#[test]
fn there_are_no_sessions_before_a_login() {
    let server = guarded_member();
    let mut nobody = Client::new(&server);
    for command in ["hello", "ping", "isMaster"] {
        run(&mut nobody, "admin", &format!("{{{command}: 1, $LSID}}"));
        let spoofed = format!("lsid: {{id: UUID('$UUID'), uid: {}}}", uid("ann@test"));
        run(&mut nobody, "admin", &format!("{{{command}: 1, {spoofed}}}"));
    }
    for (command, text) in [
        ("endSessions", "{endSessions: [{id: UUID('$UUID')}]}"),
        ("endSessions", "{endSessions: []}"),
        ("refreshSessions", "{refreshSessions: [{id: UUID('$UUID')}]}"),
        ("startSession", "{startSession: 1}"),
        ("killSessions", "{killSessions: []}"),
    ] {
        let refused = reply(&mut nobody, "admin", text);
        let message = format!("Command {command} requires authentication");
        assert_eq!((code(&refused), refused.get("errmsg").as_str()), (13, Some(&*message)));
    }
    let mut root = Client::new(&server);
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    let listed = run(
        &mut root,
        "admin",
        "{aggregate: 1, pipeline: [{$listLocalSessions: {allUsers: true}}], cursor: {}}",
    );
    assert!(listed.as_doc().to_string().contains("firstBatch: []"), "{listed:?}");
}
