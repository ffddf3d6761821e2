//! Golden cases of access control, on a server with authorization.
//!
//! Verbs: `begin` starts a server with a root user and logs in as that user; `login db.user password` opens a
//! connection and logs in; `logout` opens a new connection; `run` and `admin` work as in the cases of commands;
//! `may` lists the requests that a user with the given roles may run, for example `may ["read"]`. The user
//! belongs to database `test`.

use nagi_bson::{DocBuf, Value, json};

use crate::client::{Client, is_ok};
use crate::golden_commands::print;
use crate::login::{guarded, log_in};

/// Requests that together require each kind of privilege.
const REQUESTS: &[(&str, &str)] = &[
    ("test", "{find: 'c'}"),
    ("test", "{find: 'system.users'}"),
    ("test", "{find: 'system.profile'}"),
    ("test", "{count: 'c'}"),
    ("test", "{distinct: 'c', key: 'a'}"),
    ("test", "{aggregate: 'c', pipeline: [], cursor: {}}"),
    ("test", "{aggregate: 'c', pipeline: [{$collStats: {}}], cursor: {}}"),
    ("test", "{aggregate: 'c', pipeline: [{$indexStats: {}}], cursor: {}}"),
    ("test", "{aggregate: 'c', pipeline: [{$out: 'd'}], cursor: {}}"),
    ("test", "{aggregate: 'c', pipeline: [{$merge: 'd'}], cursor: {}}"),
    ("test", "{explain: {find: 'c'}}"),
    ("test", "{insert: 'c', documents: [{}]}"),
    ("test", "{insert: 'c', documents: [{}], bypassDocumentValidation: true}"),
    ("test", "{update: 'c', updates: [{q: {_id: 0}, u: {$set: {a: 1}}}]}"),
    ("test", "{update: 'c', updates: [{q: {_id: 1}, u: {$set: {a: 1}}, upsert: true}]}"),
    ("test", "{delete: 'c', deletes: [{q: {_id: 0}, limit: 1}]}"),
    ("test", "{findAndModify: 'c', query: {_id: 0}, remove: true}"),
    ("admin", "{bulkWrite: 1, ops: [{insert: 0, document: {}}], nsInfo: [{ns: 'test.c'}]}"),
    ("admin", "{applyOps: []}"),
    ("admin", "{applyOps: [{op: 'n', ns: '', o: {}}]}"),
    ("admin", "{applyOps: [{op: 'i', ns: 'test.c', o: {_id: 1}}]}"),
    ("test", "{create: 'n'}"),
    ("test", "{create: 'v', viewOn: 'c', pipeline: []}"),
    ("test", "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}"),
    ("test", "{listIndexes: 'c'}"),
    ("test", "{dropIndexes: 'c', index: 'a_1'}"),
    ("test", "{collMod: 'c', validationLevel: 'off'}"),
    ("test", "{collStats: 'c'}"),
    ("test", "{dbStats: 1}"),
    ("test", "{validate: 'c'}"),
    ("test", "{validateDBMetadata: 1, apiParameters: {version: '1'}}"),
    ("test", "{validateDBMetadata: 1, apiParameters: {version: '1'}, db: 'test'}"),
    ("test", "{validateDBMetadata: 1, apiParameters: {version: '1'}, db: 'test', collection: 'c'}"),
    ("test", "{compact: 'c'}"),
    ("test", "{compactStructuredEncryptionData: 'c', compactionTokens: {}}"),
    ("test", "{cleanupStructuredEncryptionData: 'c', cleanupTokens: {}}"),
    ("test", "{planCacheClear: 'c'}"),
    ("test", "{profile: -1}"),
    ("test", "{listCollections: 1}"),
    ("test", "{listCollections: 1, nameOnly: true, authorizedCollections: true}"),
    ("admin", "{renameCollection: 'test.n', to: 'test.m'}"),
    ("test", "{drop: 'm'}"),
    ("test", "{createUser: 'x', pwd: 'x', roles: ['read']}"),
    ("test", "{createUser: 'y', pwd: 'x', roles: [{role: 'read', db: 'other'}]}"),
    ("test", "{usersInfo: 1}"),
    ("test", "{usersInfo: {forAllDBs: true}}"),
    ("test", "{rolesInfo: 1}"),
    ("test", "{grantRolesToUser: 'x', roles: ['readWrite']}"),
    ("test", "{updateUser: 'x', pwd: 'z'}"),
    ("test", "{updateUser: 'x', roles: []}"),
    ("test", "{dropUser: 'x'}"),
    ("test", "{createRole: 'r', privileges: [], roles: []}"),
    ("test", "{dropRole: 'r'}"),
    ("admin", "{invalidateUserCache: 1}"),
    ("other", "{find: 'c'}"),
    ("other", "{insert: 'c', documents: [{}]}"),
    ("other", "{dbStats: 1}"),
    ("config", "{find: 'c'}"),
    ("local", "{find: 'c'}"),
    ("admin", "{find: 'system.users'}"),
    ("admin", "{insert: 'system.users', documents: [{_id: 'a.b'}]}"),
    ("admin", "{listDatabases: 1, authorizedDatabases: false}"),
    ("admin", "{serverStatus: 1}"),
    ("admin", "{hostInfo: 1}"),
    ("admin", "{getLog: 'startupWarnings'}"),
    ("admin", "{getCmdLineOpts: 1}"),
    ("admin", "{getDiagnosticData: 1}"),
    ("admin", "{getParameter: 1, quiet: 1}"),
    ("admin", "{setParameter: 1, quiet: false}"),
    ("admin", "{nagiBackup: 'begin'}"),
    ("admin", "{currentOp: 1}"),
    ("admin", "{currentOp: 1, $ownOps: true}"),
    ("admin", "{killOp: 1, op: 0}"),
    ("admin", "{top: 1}"),
    ("admin", "{connPoolStats: 1}"),
    ("admin", "{logRotate: 'nothing'}"),
    ("admin", "{killAllSessions: []}"),
    ("admin", "{setFeatureCompatibilityVersion: '8.0', confirm: true}"),
    ("test", "{dropDatabase: 1}"),
];

#[test]
fn access() {
    let mut client = Client::new(&guarded());
    nagi_testkit::golden::run_files(&nagi_testkit::golden::dir("access"), &mut |_, verb, input| {
        let server = client.server.clone();
        match verb {
            "begin" => {
                client = Client::new(&guarded());
                return print(&log_in(&mut client, "admin", "root", "pwd"));
            }
            "logout" => {
                client = Client::new(&server);
                return String::new();
            }
            "login" => {
                let (name, password) = input.trim().split_once(' ').unwrap_or((input, ""));
                let (db, user) = name.split_once('.').unwrap_or(("", name));
                client = Client::new(&server);
                return print(&log_in(&mut client, db, user, password));
            }
            "may" => return may(input),
            _ => {}
        }
        let body = match json::parse(input) {
            Ok(body) => body,
            Err(error) => return format!("bad input: {error}"),
        };
        print(&client.run(if verb == "admin" { "admin" } else { "test" }, body.as_doc()))
    });
}

/// The requests that are allowed to a user of database `test` with these roles.
fn may(roles: &str) -> String {
    let server = guarded();
    let mut root = Client::new(&server);
    log_in(&mut root, "admin", "root", "pwd");
    let text =
        format!("{{createUser: 'u', pwd: 'p', roles: {roles}, mechanisms: ['SCRAM-SHA-256']}}");
    let made = root.run("test", json::parse(&text).unwrap().as_doc());
    assert!(is_ok(&made), "{made:?}");
    root.run("test", json::parse("{insert: 'c', documents: [{_id: 0}]}").unwrap().as_doc());
    let mut user = Client::new(&server);
    let done = log_in(&mut user, "test", "u", "p");
    assert!(is_ok(&done), "{done:?}");
    let mut allowed = Vec::new();
    for (db, text) in REQUESTS {
        let reply: DocBuf = user.run(db, json::parse(text).unwrap().as_doc());
        if !matches!(reply.get("code"), Value::Int32(13)) {
            allowed.push(format!("{db} {text}"));
        }
    }
    format!("{} of {}\n{}", allowed.len(), REQUESTS.len(), allowed.join("\n"))
}
