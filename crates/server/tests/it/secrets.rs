//! Passwords and login payloads do not appear in the log and in profiles, even if their command is explained.

use nagi_bson::{Array, doc, json};

use crate::client::{Client, is_ok, server};

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
