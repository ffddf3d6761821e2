//! Logins: conversations of SASL whose messages, frames or order are changed. A conversation with a changed message never
//! logs a client in, and an unchanged one always does.
#![no_main]

mod edits;
mod growth;

use std::sync::{Arc, LazyLock};

use hmac::{Hmac, KeyInit, Mac};
use libfuzzer_sys::fuzz_target;
use nagi_bson::json::{base64_decode, base64_encode};
use nagi_bson::{Binary, Doc, DocBuf, DocWriter, Value, doc};
use nagi_server::{
    Connection, Log, LogDestination, OplogLimits, Peer, Server, ServerBuilder, ServerConfig,
};
use nagi_store::{Store, StoreOptions};
use sha2::{Digest, Sha256};

/// A token that was signed once, and the public key.
const TOKEN: &str = include_str!("../fixtures/rs256.jwt");
const MODULUS: &str = include_str!("../fixtures/rsa.modulus");

/// A server with one user, and the keys that the user's password and salt give.
struct World {
    server: Arc<Server>,
    client_key: Vec<u8>,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let server = server();
    let mut client = Client::new(&server);
    let create = doc! { "createUser": "root", "pwd": "pwd", "roles": ["root"] };
    assert!(client.run("admin", create.as_doc()).is_some_and(|reply| is_ok(&reply)));
    let mut client = Client::new(&server);
    let first = client.start(b"n,,n=root,r=nonce").expect("the server's first message");
    let salt = base64_decode(&part(&first, "s=")).expect("a salt");
    let count = part(&first, "i=").parse().expect("a count");
    // Waits until the keys are there.
    let mut client = Client::new(&server);
    client.with_token(doc! { "jwt": TOKEN.trim() }.as_doc().as_bytes());
    assert!(client.is_logged_in(), "a valid token is refused");
    let salted = salted(b"pwd", &salt, count);
    World { server, client_key: mac(&salted, b"Client Key") }
});

/// The value of `oidcIdentityProviders`. The keys are in a file of this process.
fn provider() -> String {
    let file = format!("/dev/shm/nagi-fuzz-login-{}.json", std::process::id());
    let n = MODULUS.trim();
    let keys = format!(r#"{{"keys":[{{"kid":"rsa","kty":"RSA","e":"AQAB","n":"{n}"}}]}}"#);
    std::fs::write(&file, keys).expect("a file");
    format!(
        r#"[{{issuer: "https://id.example.com", audience: "db", authNamePrefix: "corp",
        authorizationClaim: "groups", supportsHumanFlows: false, JWKSPollSecs: 0,
        JWKSUri: "file://{file}"}}]"#
    )
}

fn server() -> Arc<Server> {
    let engine = Arc::new(nagi_kv::Memory::new());
    let provider = provider();
    let parameters = [
        ("scramIterationCount", "5000"),
        ("scramSHA256IterationCount", "5000"),
        ("authFailedDelayMaxMs", "0"),
        ("authenticationMechanisms", "SCRAM-SHA-1,SCRAM-SHA-256,MONGODB-X509,MONGODB-OIDC"),
        ("JWKSMinimumQuiescePeriodSecs", "86400"),
        ("oidcIdentityProviders", provider.as_str()),
    ];
    let config = ServerConfig {
        store: Store::open(engine, StoreOptions::default()).expect("a store"),
        log: Log::open(LogDestination::Nowhere).expect("a log"),
        storage_engine: "inMemory".to_owned(),
        persistent: false,
        argv: Vec::new(),
        parsed_options: DocBuf::new(),
        port: 27017,
        replica_set: None,
        oplog: OplogLimits::default(),
        memory_limit_bytes: None,
        connection_count_max: 100,
        authorization: true,
        tls: None,
        directory: None,
        tokens: Some(nagi_oidc::Trust::new()),
        javascript: false,
        own_threads: false,
        parameters: parameters.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        restores: false,
        nagi_version: "0.0.0",
        git_version: "fuzz",
    };
    ServerBuilder::new(config).expect("a server").start().expect("a server")
}

struct Client {
    server: Arc<Server>,
    connection: Connection,
    frame: Vec<u8>,
    out: Vec<u8>,
}

impl Client {
    fn new(server: &Arc<Server>) -> Client {
        let local = "127.0.0.1".parse().ok();
        let peer = Peer { address: "127.0.0.1:50000".to_owned(), unix_socket: false, local };
        let connection = server.connect(peer).expect("a connection");
        Client { server: server.clone(), connection, frame: Vec::new(), out: Vec::new() }
    }

    fn message(&mut self, db: &str, body: Doc<'_>) {
        self.frame.clear();
        let start = nagi_wire::begin_msg(&mut self.frame, 7, 0, 0);
        let mut writer = DocWriter::new(&mut self.frame);
        writer.extend(body);
        writer.put("$db", db);
        writer.finish();
        nagi_wire::finish_msg(&mut self.frame, start);
    }

    /// Sends the frame. Its length is what the reader of frames would have found.
    fn send(&mut self) -> Option<DocBuf> {
        if self.frame.len() < 16 {
            return None;
        }
        let length = u32::try_from(self.frame.len()).expect("a short frame");
        self.frame[..4].copy_from_slice(&length.to_le_bytes());
        self.out.clear();
        self.server.handle(&mut self.connection, &self.frame, &mut self.out);
        Some(Doc::parse(self.out.get(21..)?).ok()?.to_buf())
    }

    fn run(&mut self, db: &str, body: Doc<'_>) -> Option<DocBuf> {
        self.message(db, body);
        self.send()
    }

    /// Begins a conversation. Returns the server's first message.
    fn start(&mut self, payload: &[u8]) -> Option<String> {
        let payload = bytes(payload);
        let body = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload };
        text_of(&self.run("admin", body.as_doc())?)
    }

    fn with_token(&mut self, payload: &[u8]) -> Option<DocBuf> {
        let payload = bytes(payload);
        let body = doc! { "saslStart": 1, "mechanism": "MONGODB-OIDC", "payload": payload };
        self.run("$external", body.as_doc())
    }

    fn is_logged_in(&mut self) -> bool {
        let reply = self.run("admin", doc! { "connectionStatus": 1 }.as_doc()).expect("a status");
        let users = reply
            .get("authInfo")
            .as_doc()
            .and_then(|info| info.get("authenticatedUsers").as_array());
        users.is_some_and(|users| !users.is_empty())
    }
}

fn bytes(payload: &[u8]) -> Value<'_> {
    Value::Binary(Binary { subtype: 0, bytes: payload })
}

fn is_ok(reply: &DocBuf) -> bool {
    matches!(reply.get("ok"), Value::Double(n) if n == 1.0)
}

fn text_of(reply: &DocBuf) -> Option<String> {
    match reply.get("payload") {
        Value::Binary(Binary { bytes, .. }) => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    }
}

fn part(message: &str, name: &str) -> String {
    message.split(',').find_map(|part| part.strip_prefix(name)).unwrap_or_default().to_owned()
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.chain_update(message).finalize().into_bytes().to_vec()
}

fn salted(password: &[u8], salt: &[u8], count: u32) -> Vec<u8> {
    let mut u = mac(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut out = u.clone();
    for _ in 1..count {
        u = mac(password, &u);
        out.iter_mut().zip(&u).for_each(|(sum, byte)| *sum ^= byte);
    }
    out
}

fn last_message(first: &str) -> String {
    let without_proof = format!("c=biws,r={}", part(first, "r="));
    let signed = format!("n=root,r=nonce,{first},{without_proof}");
    let signature = mac(&Sha256::digest(&WORLD.client_key), signed.as_bytes());
    let proof: Vec<u8> = WORLD.client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    let mut message = without_proof + ",p=";
    base64_encode(&mut message, &proof);
    message
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, input)) = data.split_first() else { return };
    let mut client = Client::new(&WORLD.server);
    match kind % 8 {
        0..=2 => changed_message(&mut client, *kind, input),
        3 => any_payloads(&mut client, *kind, input),
        4 => speculative(&mut client, input),
        7 => by_token(&mut client, *kind, input),
        _ => changed_frame(&mut client, *kind, input),
    }
    growth::check();
});

/// The first or the last message is changed.
fn changed_message(client: &mut Client, kind: u8, input: &[u8]) {
    let mut first = b"n,,n=root,r=nonce".to_vec();
    let mut changed = kind % 8 == 0 && edits::apply(input, &mut first);
    let answer = client.start(&first);
    let Some(answer) = answer.filter(|answer| answer.contains(",s=")) else {
        return assert!(changed && !client.is_logged_in());
    };
    let message = last_message(&answer);
    let mut last = message.clone().into_bytes();
    changed |= kind % 8 == 1 && edits::apply(input, &mut last);
    let is_same_proof = parts_of(&last) == parts_of(message.as_bytes());
    let payload = bytes(&last);
    let body = doc! { "saslContinue": 1, "conversationId": 1, "payload": payload };
    if client.run("admin", body.as_doc()).is_some_and(|reply| is_ok(&reply)) {
        let done = bytes(b"");
        client.run(
            "admin",
            doc! { "saslContinue": 1, "conversationId": 1, "payload": done }.as_doc(),
        );
    }
    match client.is_logged_in() {
        true => {
            let last = String::from_utf8_lossy(&last);
            assert!(!changed || is_same_proof, "logged in by {last:?} instead of {message:?}");
        }
        false => assert!(changed, "an unchanged conversation failed"),
    }
}

/// The last message with its proof decoded: base64 may be padded or not, and its last character has bits for nothing.
fn parts_of(message: &[u8]) -> Option<(String, Vec<u8>)> {
    let (signed, proof) = std::str::from_utf8(message).ok()?.rsplit_once(",p=")?;
    Some((signed.to_owned(), base64_decode(proof)?))
}

/// Payloads of any kind for each mechanism.
fn any_payloads(client: &mut Client, kind: u8, input: &[u8]) {
    let mechanisms =
        ["SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN", "MONGODB-X509", "MONGODB-OIDC", "GSSAPI"];
    let mechanism = mechanisms[usize::from(kind >> 3) % mechanisms.len()];
    for (step, payload) in input.split(|byte| *byte == 0xFF).take(4).enumerate() {
        let payload = bytes(payload);
        let body = match step {
            0 => doc! { "saslStart": 1, "mechanism": mechanism, "payload": payload },
            _ => doc! { "saslContinue": 1, "conversationId": 1, "payload": payload },
        };
        client.run(if kind & 64 == 0 { "admin" } else { "$external" }, body.as_doc());
    }
    assert!(!client.is_logged_in());
}

/// The first message within `hello`.
fn speculative(client: &mut Client, input: &[u8]) {
    let payload = bytes(input);
    let start =
        doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload, "db": "admin" };
    let hello = doc! { "hello": 1, "saslSupportedMechs": "admin.root", "speculativeAuthenticate": start.as_doc() };
    client.run("admin", hello.as_doc());
    assert!(!client.is_logged_in());
}

/// A token, or the document with it, is changed.
fn by_token(client: &mut Client, kind: u8, input: &[u8]) {
    let mut token = TOKEN.trim().as_bytes().to_vec();
    if kind & 8 != 0 {
        edits::apply(input, &mut token);
    }
    let text = String::from_utf8_lossy(&token);
    let mut payload = doc! { "jwt": text.as_ref() }.as_doc().as_bytes().to_vec();
    if kind & 8 == 0 {
        edits::apply(input, &mut payload);
    }
    client.with_token(&payload);
    let sent = Doc::parse(&payload).ok().and_then(|sent| sent.get("jwt").as_str());
    let is_valid = sent == Some(TOKEN.trim());
    assert_eq!(client.is_logged_in(), is_valid, "by {payload:?}");
}

/// A frame of the conversation is changed: its header, its fields, its lengths.
fn changed_frame(client: &mut Client, kind: u8, input: &[u8]) {
    let payload = bytes(b"n,,n=root,r=nonce");
    let body = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload,
    "options": { "skipEmptyExchange": true } };
    client.message("admin", body.as_doc());
    if kind & 8 != 0 {
        edits::apply(input, &mut client.frame);
    }
    let first = client.send().and_then(|reply| text_of(&reply)).unwrap_or_default();
    let last = last_message(&first);
    let payload = bytes(last.as_bytes());
    let body = doc! { "saslContinue": 1, "conversationId": 1, "payload": payload };
    client.message("admin", body.as_doc());
    edits::apply(input, &mut client.frame);
    client.send();
    client.is_logged_in();
}
