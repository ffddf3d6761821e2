//! Passwords, login payloads and the tokens of encrypted collections do not appear in the log and in profiles, even if
//! their command is explained or refused.

use nagi_bson::{Array, doc, json};

use crate::client::{Client, is_ok, server};
use crate::login::{guarded, log_in};

const SECRET: &str = "swordfish";

/// Commands that contain a secret.
const COMMANDS: &[&str] = &[
    "{createUser: 'u', pwd: 'swordfish', roles: []}",
    "{updateUser: 'u', pwd: 'swordfish'}",
    "{saslStart: 1, mechanism: 'SCRAM-SHA-256', payload: 'swordfish'}",
    "{saslContinue: 1, conversationId: 1, payload: 'swordfish'}",
    "{authenticate: 1, user: 'u', mechanism: 'MONGODB-X509', nonce: 'swordfish', key: 'swordfish'}",
    "{hello: 1, speculativeAuthenticate: {saslStart: 1, payload: 'swordfish'}}",
    "{isMaster: 1, speculativeAuthenticate: {saslStart: 1, payload: 'swordfish'}}",
];

#[test]
fn secrets_of_explained_commands_are_not_told() {
    let mut client = Client::new(&server());
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    assert!(is_ok(&client.shell("{profile: 2, slowms: 0}")));
    let mut comments = Vec::new();
    for (at, command) in COMMANDS.iter().enumerate() {
        for (how, text) in [
            ("plain", (*command).to_owned()),
            ("explained", format!("{{explain: {command}}}")),
            ("twice", format!("{{explain: {{explain: {command}}}, verbosity: 'queryPlanner'}}")),
        ] {
            let comment = format!("{how}-{at}");
            let text = format!("{}, comment: '{comment}'}}", &text[..text.len() - 1]);
            client.shell(&text);
            comments.push(comment);
        }
    }
    assert!(is_ok(&client.shell("{profile: 0, slowms: 100}")));
    let log = client.run("admin", doc! { "getLog": "global" }.as_doc());
    let lines = log.get("log").as_array().unwrap_or(Array::EMPTY);
    let lines: Vec<&str> = lines.iter().filter_map(|line| line.as_str()).collect();
    let found = client.shell("{find: 'system.profile', batchSize: 1000}");
    let batch = found.get("cursor").as_doc().unwrap().get("firstBatch").as_array().unwrap();
    let entries: Vec<String> =
        batch.iter().map(|entry| json::to_relaxed(entry.as_doc().unwrap())).collect();
    for comment in comments {
        let quoted = format!("\"{comment}\"");
        let line = lines.iter().find(|line| line.contains(&quoted));
        let entry = entries.iter().find(|entry| entry.contains(&quoted));
        for told in [line.copied(), entry.map(String::as_str)] {
            let told = told.unwrap_or_else(|| panic!("nothing tells of {comment}"));
            assert!(told.contains("\"xxx\""), "{told}");
        }
    }
    assert!(lines.iter().all(|line| !line.contains(SECRET)), "{lines:?}");
    assert!(entries.iter().all(|entry| !entry.contains(SECRET)), "{entries:?}");
}

/// A token, and the commands that may contain one.
const TOKEN: &str = "c3dvcmRmaXNoc3dvcmRmaXNoc3dvcmRmaXNoc3dvcmQ=";

fn token_commands() -> Vec<String> {
    let token = format!("{{$binary: {{base64: '{TOKEN}', subType: '00'}}}}");
    let compact =
        format!("{{compactStructuredEncryptionData: 'c', compactionTokens: {{n: {token}}}}}");
    let cleanup = format!(
        "{{cleanupStructuredEncryptionData: 'c', cleanupTokens: {{n: {{ecoc: {token}}}}}}}"
    );
    let find = format!(
        "{{find: 'c', filter: {{n: {token}}}, encryptionInformation: {{type: 1, schema: {{}}}}}}"
    );
    let explained = [&compact, &cleanup, &find].map(|command| format!("{{explain: {command}}}"));
    [compact, cleanup, find].into_iter().chain(explained).collect()
}

/// The log, and the profile of the database `test`.
fn told(client: &mut Client) -> String {
    let log = client.run("admin", doc! { "getLog": "global" }.as_doc());
    let profile = client.shell("{find: 'system.profile', batchSize: 1000}");
    format!("{}{}", json::to_relaxed(log.as_doc()), json::to_relaxed(profile.as_doc()))
}

#[test]
fn tokens_are_neither_logged_nor_profiled_nor_in_errors() {
    let server = guarded();
    let mut client = Client::new(&server);
    log_in(&mut client, "admin", "root", "pwd");
    assert!(is_ok(&client.shell("{profile: 2, slowms: 0}")));
    assert!(is_ok(&client.shell("{createUser: 'u', pwd: 'p', roles: []}")));
    let mut user = Client::new(&server);
    assert!(is_ok(&log_in(&mut user, "test", "u", "p")));
    for command in token_commands() {
        client.shell(&command);
        let refused = json::to_relaxed(user.shell(&command).as_doc());
        assert!(refused.contains("not authorized"), "{refused}");
        assert!(!refused.contains(TOKEN), "{refused}");
    }
    let told = told(&mut client);
    assert!(!told.contains(TOKEN), "{told}");
}

#[test]
fn tokens_of_running_commands_are_not_shown() {
    let server = server();
    let mut client = Client::new(&server);
    client.shell("{insert: 'c', documents: [{_id: 1}]}");
    for command in &token_commands()[..2] {
        // The command waits for the lock.
        assert!(is_ok(&client.run("admin", doc! { "fsync": 1, "lock": true }.as_doc())));
        let name = command[1..].split(':').next().unwrap();
        std::thread::scope(|threads| {
            let server = &server;
            threads.spawn(move || Client::new(server).shell(command));
            let shown = loop {
                let stage = json::parse("{aggregate: 1, pipeline: [{$currentOp: {}}], cursor: {}}");
                let reply = client.run("admin", stage.unwrap().as_doc());
                let shown = json::to_relaxed(reply.as_doc());
                if shown.contains(name) {
                    break shown;
                }
                std::thread::yield_now();
            };
            assert!(is_ok(&client.run("admin", doc! { "fsyncUnlock": 1 }.as_doc())));
            assert!(!shown.contains(TOKEN), "{shown}");
        });
    }
}

/// Commands with stored credentials and passwords in other places than the arguments of commands on users.
const OF_USERS: &[(&str, &str)] = &[
    (
        "admin",
        "{insert: 'system.users', documents: [{_id: 'a', credentials: {x: {storedKey: 'swordfish'}}}]}",
    ),
    (
        "admin",
        "{insert: 'tempusers', documents: [{_id: 'a', credentials: {x: {storedKey: 'swordfish'}}}]}",
    ),
    (
        "admin",
        "{update: 'tempusers', updates: [{q: {}, u: {$set: {'credentials.x': {salt: 'swordfish'}}}}]}",
    ),
    (
        "admin",
        "{update: 'tempusers', updates: [{q: {}, u: [{$set: {credentials: {salt: 'swordfish'}}}]}]}",
    ),
    (
        "admin",
        "{findAndModify: 'tempusers', query: {'credentials.x.storedKey': 'swordfish'}, \
         update: {$set: {credentials: 'swordfish'}}}",
    ),
    (
        "admin",
        "{bulkWrite: 1, ops: [{update: 0, filter: {}, updateMods: {$set: {credentials: 'swordfish'}}}, \
         {insert: 0, document: {credentials: ['swordfish']}}], nsInfo: [{ns: 'admin.tempusers'}]}",
    ),
    (
        "admin",
        "{find: 'tempusers', filter: {$or: [{$and: [{'credentials.x.salt': 'swordfish'}]}]}}",
    ),
    (
        "admin",
        "{applyOps: [{op: 'i', ns: 'admin.tempusers', o: {_id: 1, credentials: 'swordfish'}}]}",
    ),
    (
        "admin",
        "{applyOps: [{op: 'u', ns: 'admin.tempusers', o: {$v: 2, diff: {scredentials: {u: {x: 'swordfish'}}}}, \
         o2: {_id: 1}}]}",
    ),
    (
        "admin",
        "{applyOps: [{op: 'c', ns: 'test.$cmd', o: {createUser: 'u', pwd: 'swordfish', pass: 'swordfish'}}]}",
    ),
    ("test", "{createUser: 'u', pass: 'swordfish', roles: []}"),
    ("test", "{createUser: 'u', PWD: 'swordfish', pwd: 'x', roles: []}"),
    ("test", "{createUser: 'u', password: {text: ['swordfish']}, pwd: 'x', roles: []}"),
    ("test", "{createUser: {pass: 'swordfish'}, pwd: 'x', roles: []}"),
    ("test", "{updateUser: 'u', newPassword: 'swordfish'}"),
    ("test", "{explain: {updateUser: 'u', newPassword: 'swordfish'}}"),
];

/// Neither the log nor profiles nor refusals tell them.
#[test]
fn secrets_of_users_are_not_told_wherever_they_are() {
    let server = guarded();
    let mut client = Client::new(&server);
    log_in(&mut client, "admin", "root", "pwd");
    assert!(is_ok(&client.shell("{profile: 2, slowms: 0}")));
    assert!(is_ok(&client.shell("{createUser: 'weak', pwd: 'p', roles: []}")));
    let mut weak = Client::new(&server);
    assert!(is_ok(&log_in(&mut weak, "test", "weak", "p")));
    for (db, command) in OF_USERS {
        let command = json::parse(command).unwrap();
        client.run(db, command.as_doc());
        let refused = json::to_relaxed(weak.run(db, command.as_doc()).as_doc());
        assert!(!refused.contains(SECRET), "{refused}");
    }
    let log = json::to_relaxed(client.run("admin", doc! { "getLog": "global" }.as_doc()).as_doc());
    assert!(
        log.contains("tempusers") && log.contains("newPassword") && !log.contains(SECRET),
        "{log}"
    );
    let profile = client.shell("{find: 'system.profile', batchSize: 1000}");
    let profile = json::to_relaxed(profile.as_doc());
    assert!(profile.contains("newPassword") && !profile.contains(SECRET), "{profile}");
}

/// What users store is shown as it is: a field of another database may have any name.
#[test]
fn fields_of_other_databases_are_shown() {
    let mut client = Client::new(&server());
    assert!(is_ok(&client.shell("{profile: 2, slowms: 0}")));
    client.shell("{find: 'c', filter: {payload: 'shown', credentials: 'told'}}");
    let log = json::to_relaxed(client.run("admin", doc! { "getLog": "global" }.as_doc()).as_doc());
    assert!(log.contains("shown") && log.contains("told"), "{log}");
}

/// The key of `$queryStats`, "swordfish" in base 64, and the requests that may have it, with their database.
const KEY: &str = "c3dvcmRmaXNo";

fn keyed() -> Vec<(&'static str, String)> {
    let stage = format!(
        "{{$queryStats: {{transformIdentifiers: {{algorithm: 'hmac-sha-256', hmacKey: {{$binary: {{base64: \
         '{KEY}', subType: '08'}}}}}}}}}}"
    );
    let aggregate = |pipeline: &str, more: &str| {
        format!("{{aggregate: 1, pipeline: [{pipeline}], cursor: {{batchSize: 0}}{more}}}")
    };
    let joined = format!("{{$currentOp: {{}}}}, {{$facet: {{a: [{stage}]}}}}");
    let large = format!(", comment: '{}'", "x".repeat(60_000));
    let mut all = Vec::new();
    for db in ["admin", "test"] {
        all.push((db, aggregate(&stage, "")));
        all.push((db, aggregate(&joined, "")));
        all.push((db, aggregate(&stage, &large)));
        all.push((db, format!("{{explain: {}}}", aggregate(&stage, ""))));
        all.push((db, format!("{{explain: {{explain: {}}}}}", aggregate(&stage, ""))));
        all.push((db, format!("{{create: 'v', viewOn: 'c', pipeline: [{stage}]}}")));
        all.push((db, format!("{{collMod: 'v', viewOn: 'c', pipeline: [{stage}]}}")));
    }
    all
}

/// True if a text has the key in any of the forms in which it may be written.
fn tells_key(text: &str) -> bool {
    let text = text.to_lowercase();
    [KEY.to_lowercase().as_str(), "73776f726466697368", SECRET]
        .iter()
        .any(|form| text.contains(form))
}

/// Also not on another database, where the stage is refused, and not of a cursor that is open.
#[test]
fn the_key_of_query_statistics_is_not_told() {
    let server = guarded();
    let mut client = Client::new(&server);
    log_in(&mut client, "admin", "root", "pwd");
    let rate = json::parse("{setParameter: 1, internalQueryStatsRateLimit: -1}").unwrap();
    assert!(is_ok(&client.run("admin", rate.as_doc())));
    // The database admin has no profile.
    assert!(is_ok(&client.shell("{insert: 'c', documents: [{_id: 1}]}")));
    assert!(is_ok(&client.shell("{profile: 2, slowms: 0}")));
    assert!(is_ok(&client.shell("{createUser: 'weak', pwd: 'p', roles: []}")));
    let mut weak = Client::new(&server);
    assert!(is_ok(&log_in(&mut weak, "test", "weak", "p")));
    let mut opened = 0;
    for (db, command) in keyed() {
        let command = json::parse(&command).unwrap();
        opened += i32::from(is_ok(&client.run(db, command.as_doc())));
        let refused = json::to_relaxed(weak.run(db, command.as_doc()).as_doc());
        assert!(!tells_key(&refused), "{refused}");
    }
    assert!(opened >= 2, "the stage itself is answered");
    let cursors =
        "{aggregate: 1, pipeline: [{$currentOp: {idleCursors: true, allUsers: true}}], cursor: {}}";
    let queries = "{aggregate: 1, pipeline: [{$queryStats: {}}], cursor: {batchSize: 1000}}";
    for (db, command, part) in [
        ("admin", "{getLog: 'global'}", "hmacKey"),
        ("test", "{find: 'system.profile', batchSize: 1000}", "hmacKey"),
        ("admin", cursors, "originatingCommand"),
        ("admin", queries, "queryShape"),
        ("admin", "{nagiAdvise: 1}", "notAdvised"),
    ] {
        let told =
            json::to_relaxed(client.run(db, json::parse(command).unwrap().as_doc()).as_doc());
        assert!(told.contains(part) && !tells_key(&told), "{command}: {told}");
    }
}

#[test]
fn the_key_of_query_statistics_is_not_shown_while_it_runs() {
    let server = server();
    let mut client = Client::new(&server);
    for (db, command) in [&keyed()[0], &keyed()[7]] {
        let blocked = "{configureFailPoint: 'failCommand', mode: {times: 1}, data: {failCommands: ['aggregate'], \
                       blockConnection: true, blockTimeMS: 3000}}";
        assert!(is_ok(&client.run("admin", json::parse(blocked).unwrap().as_doc())));
        std::thread::scope(|threads| {
            let server = &server;
            let running = threads
                .spawn(move || Client::new(server).run(db, json::parse(command).unwrap().as_doc()));
            let shown = loop {
                let reply = client.run("admin", doc! { "currentOp": 1 }.as_doc());
                let shown = json::to_relaxed(reply.as_doc());
                if shown.contains("$queryStats") {
                    break shown;
                }
                assert!(!running.is_finished(), "it was not seen");
                std::thread::yield_now();
            };
            assert!(shown.contains("hmacKey") && !tells_key(&shown), "{shown}");
        });
    }
}
