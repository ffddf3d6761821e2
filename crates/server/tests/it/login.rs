//! A SCRAM-SHA-256 client of a few lines, and the server with authorization on.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use nagi_bson::{Binary, DocBuf, Value, json};
use sha2::{Digest, Sha256};

use crate::client::{Client, is_ok, server_with};

/// A server that asks for privileges, with a root user of password "pwd".
pub(crate) fn guarded() -> Arc<nagi_server::Server> {
    let server = server_with(Arc::new(nagi_kv::Memory::new()), None, true);
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

/// Logs a connection in; the last reply.
pub(crate) fn log_in(client: &mut Client, db: &str, user: &str, password: &str) -> DocBuf {
    let bare = format!("n={user},r=clientnonce");
    let text = base64(format!("n,,{bare}").as_bytes());
    let start = nagi_bson::doc! {
        "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": &text,
        "options": { "skipEmptyExchange": true }
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
