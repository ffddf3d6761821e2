//! A minimal SCRAM-SHA-256 client, and a server with authorization.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use nagi_bson::{Binary, DocBuf, Value, json};
use sha2::{Digest, Sha256};

use crate::client::{Client, is_ok, server_with};

/// A server with authorization and a root user with password "pwd".
pub(crate) fn guarded() -> Arc<nagi_server::Server> {
    with_root(server_with(Arc::new(nagi_kv::Memory::new()), None, true))
}

/// The same as a member of a replica set.
pub(crate) fn guarded_member() -> Arc<nagi_server::Server> {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), Some("rs"), true);
    let initiate = nagi_bson::doc! { "replSetInitiate": {} };
    let reply = Client::new(&server).run("admin", initiate.as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    with_root(server)
}

fn with_root(server: Arc<nagi_server::Server>) -> Arc<nagi_server::Server> {
    let reply = Client::new(&server).run(
        "admin",
        nagi_bson::doc! { "createUser": "root", "pwd": "pwd", "roles": ["root"],
        "mechanisms": ["SCRAM-SHA-256"] }
        .as_doc(),
    );
    assert!(is_ok(&reply), "{reply:?}");
    server
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(message).finalize().into_bytes().to_vec()
}

fn salted(password: &str, salt: &[u8], count: u32) -> Vec<u8> {
    let mut u = hmac(password.as_bytes(), &[salt, &[0, 0, 0, 1]].concat());
    let mut out = u.clone();
    for _ in 1..count {
        u = hmac(password.as_bytes(), &u);
        out.iter_mut().zip(&u).for_each(|(sum, byte)| *sum ^= byte);
    }
    out
}

fn payload(reply: &DocBuf) -> String {
    match reply.get("payload") {
        Value::Binary(Binary { bytes, .. }) => String::from_utf8(bytes.to_vec()).unwrap(),
        _ => String::new(),
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    json::base64_encode(&mut text, bytes);
    text
}

/// Logs a connection in, and returns the last reply.
pub(crate) fn log_in(client: &mut Client, db: &str, user: &str, password: &str) -> DocBuf {
    converse(client, (db, user, password), true)
}

/// The same, where the server may want an empty message in the end.
fn converse(client: &mut Client, (db, user, password): (&str, &str, &str), short: bool) -> DocBuf {
    let bare = format!("n={user},r=clientnonce");
    let text = base64(format!("n,,{bare}").as_bytes());
    let start = nagi_bson::doc! {
        "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": &text,
        "options": { "skipEmptyExchange": short }
    };
    let first = client.run(db, start.as_doc());
    if !is_ok(&first) {
        return first;
    }
    let server_first = payload(&first);
    let part = |name: &str| {
        server_first.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned()
    };
    let count = part("i=").parse().unwrap();
    let salted = salted(password, &json::base64_decode(&part("s=")).unwrap(), count);
    let client_key = hmac(&salted, b"Client Key");
    let without_proof = format!("c=biws,r={}", part("r="));
    let message = format!("{bare},{server_first},{without_proof}");
    let signature = hmac(&Sha256::digest(&client_key), message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    let text = base64(format!("{without_proof},p={}", base64(&proof)).as_bytes());
    let last = client.run(
        db,
        nagi_bson::doc! { "saslContinue": 1, "conversationId": 1, "payload": &text }.as_doc(),
    );
    if is_ok(&last) {
        let wanted = hmac(&hmac(&salted, b"Server Key"), message.as_bytes());
        assert_eq!(payload(&last), format!("v={}", base64(&wanted)), "the server's own proof");
    }
    last
}

/// The data that an unauthenticated client can learn about a name: the mechanisms of `hello`, and for each
/// mechanism the iteration count and the length of the salt, or the refusal.
fn seen_by_a_stranger(server: &Arc<nagi_server::Server>, user: &str) -> String {
    let mut client = Client::new(server);
    let name = format!("admin.{user}");
    let asked = nagi_bson::doc! { "hello": 1, "saslSupportedMechs": &name };
    let mut seen = client.run("admin", asked.as_doc()).get("saslSupportedMechs").to_string();
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
        let text = base64(format!("n,,n={user},r=clientnonce").as_bytes());
        let start = nagi_bson::doc! { "saslStart": 1, "mechanism": mechanism, "payload": &text };
        let reply = client.run("admin", start.as_doc());
        seen.push_str(&match is_ok(&reply) {
            false => format!(" {}", reply.get("errmsg")),
            true => {
                let payload = payload(&reply);
                let (_, rest) = payload.split_once(",s=").unwrap();
                let (salt, count) = rest.split_once(",i=").unwrap();
                format!(" salt {} count {count}", salt.len())
            }
        });
    }
    seen
}

/// The Java drivers before 4 repeat the server's proof where others send nothing.
#[test]
fn the_last_message_of_a_login_is_ignored() {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), None, false);
    let mut client = Client::new(&server);
    let create = nagi_bson::doc! { "createUser": "u", "pwd": "p", "roles": [] };
    assert!(is_ok(&client.run("admin", create.as_doc())));
    for text in ["", "dj1hYmM=", "anything"] {
        let mut client = Client::new(&server);
        let last = converse(&mut client, ("admin", "u", "p"), false);
        assert_eq!(last.get("done"), Value::Bool(false), "{last:?}");
        let next = nagi_bson::doc! { "saslContinue": 1, "conversationId": 1, "payload": text };
        let done = client.run("admin", next.as_doc());
        assert!(is_ok(&done) && done.get("done") == Value::Bool(true), "{text}: {done:?}");
        assert!(!is_ok(&client.run("admin", next.as_doc())), "there is nothing to continue");
    }
}

/// If users have several shapes, names without a user have the same shapes and no others.
#[test]
fn names_without_a_user_look_like_users() {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), None, false);
    let mut client = Client::new(&server);
    let no_delay = nagi_bson::doc! { "setParameter": 1, "authFailedDelayMaxMs": 0 };
    assert!(is_ok(&client.run("admin", no_delay.as_doc())));
    let mut known = std::collections::BTreeSet::new();
    for (n, (count, mechanisms)) in
        [(5000, "SCRAM-SHA-256"), (6000, "SCRAM-SHA-256"), (7000, "SCRAM-SHA-1")]
            .into_iter()
            .enumerate()
    {
        let set = nagi_bson::doc! { "setParameter": 1, "scramSHA256IterationCount": count,
        "scramIterationCount": count };
        assert!(is_ok(&client.run("admin", set.as_doc())));
        let user = format!("u{n}");
        let create = nagi_bson::doc! { "createUser": &user, "pwd": "pwd", "roles": [],
        "mechanisms": [mechanisms] };
        assert!(is_ok(&client.run("admin", create.as_doc())));
        known.insert(seen_by_a_stranger(&server, &user));
    }
    assert_eq!(known.len(), 3, "{known:?}");
    // No existing user has the iteration counts of new passwords.
    let set = nagi_bson::doc! { "setParameter": 1, "scramSHA256IterationCount": 9000,
    "scramIterationCount": 9000 };
    assert!(is_ok(&client.run("admin", set.as_doc())));
    let first = |n: usize| seen_by_a_stranger(&server, &format!("nobody{n}"));
    let unknown: std::collections::BTreeSet<String> = (0..60).map(first).collect();
    assert_eq!(unknown, known);
}

/// The salts of names without a user depend on the data and not on the process.
#[test]
fn made_up_salts_outlive_a_restart() {
    let salt = |server: &Arc<nagi_server::Server>| {
        let text = base64(b"n,,n=nobody,r=clientnonce");
        let start =
            nagi_bson::doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": &text };
        let reply = payload(&Client::new(server).run("admin", start.as_doc()));
        reply.split_once(",s=").unwrap().1.to_owned()
    };
    let engine = Arc::new(nagi_kv::Memory::new());
    let server = server_with(engine.clone(), None, true);
    let create = nagi_bson::doc! { "createUser": "root", "pwd": "pwd", "roles": ["root"] };
    assert!(is_ok(&Client::new(&server).run("admin", create.as_doc())));
    let before = salt(&server);
    drop(server);
    assert_eq!(salt(&server_with(engine, None, true)), before);
}

/// The time of all commands so far.
fn worked_micros(client: &mut Client) -> f64 {
    let asked = nagi_bson::doc! { "serverStatus": 1 };
    let reply = client.run("admin", asked.as_doc());
    let all = reply.as_doc().get("opLatencies").as_doc().expect("opLatencies");
    let commands = all.get("commands").as_doc().expect("commands");
    nagi_bson::number::as_f64(commands.get("latency")).expect("latency")
}

/// Refusals take longer with each failure; a login with the correct password is not delayed.
#[test]
fn failed_logins_wait_and_the_right_one_does_not() {
    let server = guarded();
    let mut client = Client::new(&server);
    let mut root = Client::new(&server);
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    let worked = worked_micros(&mut root);
    let began = std::time::Instant::now();
    for _ in 0..6 {
        assert!(!is_ok(&log_in(&mut client, "admin", "root", "wrong")));
    }
    // The delays are 0 + 0 + 0 + 100 + 200 + 400 ms.
    let waited = began.elapsed();
    assert!(waited.as_millis() >= 700, "{waited:?}");
    // They are no time of work: neither slow operations nor stalls.
    let worked = worked_micros(&mut root) - worked;
    assert!(worked < 600_000.0, "{worked}");
    let before = std::time::Instant::now();
    assert!(is_ok(&log_in(&mut client, "admin", "root", "pwd")));
    assert!(before.elapsed().as_millis() < 700);
    let off = nagi_bson::doc! { "setParameter": 1, "authFailedDelayMaxMs": 0 };
    assert!(is_ok(&client.run("admin", off.as_doc())));
    let before = std::time::Instant::now();
    let mut other = Client::new(&server);
    assert!(!is_ok(&log_in(&mut other, "admin", "root", "wrong")));
    assert!(before.elapsed().as_millis() < 700);
}
