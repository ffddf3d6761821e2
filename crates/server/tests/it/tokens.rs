//! MONGODB-OIDC with a verifier of this test, whose tokens are texts: `user role,role expires_ms`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use nagi_bson::{Binary, Doc, DocBuf, Value, doc, json};
use nagi_server::{
    Directory, IdentityProvider, Server, ServerBuilder, TokenCounts, TokenIdentity, TokenOrigin,
    TokenTrust, wall_ms,
};
use nagi_store::{Store, StoreOptions};

use crate::client::{Client, config_over, is_ok};
use crate::login::log_in;

/// Accepts all tokens but those of the issuer "bad".
#[derive(Default)]
pub(crate) struct Fake {
    epoch: AtomicU64,
    /// Keys with a lower number are withdrawn.
    oldest: AtomicU64,
}

impl TokenTrust for Fake {
    fn configure(&self, _: Vec<IdentityProvider>) {}

    fn verify(&self, token: &str, now_ms: i64, _: Duration) -> Result<TokenIdentity, String> {
        let parts: Vec<&str> = token.split(' ').collect();
        let [user, roles, expires] = parts[..] else { return Err("no token".to_owned()) };
        let expires_ms: i64 = expires.parse().unwrap();
        if expires_ms <= now_ms {
            return Err("The token has expired".to_owned());
        }
        let roles = (roles != "-").then(|| roles.split(',').map(str::to_owned).collect());
        Ok(TokenIdentity {
            user: user.to_owned(),
            roles,
            expires_ms,
            claims: doc! { "sub": user },
            origin: TokenOrigin {
                issuer: "i".to_owned(),
                audience: "a".to_owned(),
                auth_name_prefix: "corp".to_owned(),
                key_id: "k".to_owned(),
                key_number: self.oldest.load(SeqCst),
            },
            epoch: self.epoch(),
        })
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    fn still_trusts(&self, origin: &TokenOrigin) -> bool {
        origin.key_number >= self.oldest.load(SeqCst)
    }

    fn keys(&self, issuers: Option<&[&str]>) -> Result<Vec<(String, DocBuf)>, String> {
        match issuers {
            Some(["x"]) => Err("There is no identity provider with the issuer 'x'".to_owned()),
            _ => Ok(vec![("https://i".to_owned(), doc! { "keys": [] })]),
        }
    }

    fn refresh(&self, _: Option<&[&str]>) -> Result<(), String> {
        Err("not today".to_owned())
    }

    fn counts(&self) -> TokenCounts {
        TokenCounts { providers: 1, ..TokenCounts::default() }
    }

    fn stop(&self) {}
}

pub(crate) const PROVIDER: &str = "{issuer: 'https://i', audience: 'a', authNamePrefix: 'corp', clientId: 'app', \
     authorizationClaim: 'g', requestScopes: ['openid'], matchPattern: '@corp$'}";

fn start(parameters: &[(&str, &str)]) -> (Arc<Server>, Arc<Fake>, Client) {
    start_with(parameters, None)
}

/// A server with authorization, this verifier and a directory, and its root.
pub(crate) fn start_with(
    parameters: &[(&str, &str)],
    directory: Option<Arc<dyn Directory>>,
) -> (Arc<Server>, Arc<Fake>, Client) {
    let store = Store::open(Arc::new(nagi_kv::Memory::new()), StoreOptions::default()).unwrap();
    let mut config = config_over(store, None, true, false);
    let fake = Arc::new(Fake::default());
    config.tokens = Some(fake.clone());
    config.directory = directory;
    let mechanisms = ("authenticationMechanisms", "SCRAM-SHA-256,MONGODB-OIDC,PLAIN");
    let own = [mechanisms, ("authFailedDelayMaxMs", "0")];
    let all = own.iter().chain(parameters).map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    config.parameters.extend(all);
    let server = ServerBuilder::new(config).unwrap().start().unwrap();
    let mut root = Client::new(&server);
    let create = doc! { "createUser": "root", "pwd": "pwd", "roles": ["root"] };
    assert!(is_ok(&root.run("admin", create.as_doc())));
    assert!(is_ok(&log_in(&mut root, "admin", "root", "pwd")));
    (server, fake, root)
}

fn with_provider() -> (Arc<Server>, Arc<Fake>, Client) {
    start(&[("oidcIdentityProviders", &format!("[{PROVIDER}]"))])
}

fn sasl(client: &mut Client, command: &str, db: &str, payload: Doc<'_>) -> DocBuf {
    let bytes = payload.as_bytes();
    let payload = Value::Binary(Binary { subtype: 0, bytes });
    let body = DocBuf::build(|out| {
        out.put(command, 1);
        match command {
            "saslStart" => out.put("mechanism", "MONGODB-OIDC"),
            _ => out.put("conversationId", 1),
        }
        out.put("payload", payload);
    });
    client.run(db, body.as_doc())
}

pub(crate) fn token(user: &str, roles: &str, seconds: i64) -> String {
    format!("{user} {roles} {}", wall_ms() + seconds * 1000)
}

pub(crate) fn show(client: &mut Client, token: &str) -> DocBuf {
    sasl(client, "saslStart", "$external", doc! { "jwt": token }.as_doc())
}

fn code(reply: &DocBuf) -> i32 {
    match reply.get("code") {
        Value::Int32(code) => code,
        _ => 0,
    }
}

pub(crate) fn find(client: &mut Client, db: &str) -> i32 {
    code(&client.run(db, doc! { "find": "c" }.as_doc()))
}

fn payload(reply: &DocBuf) -> String {
    let bytes = match reply.get("payload") {
        Value::Binary(Binary { bytes, .. }) => bytes,
        _ => &[],
    };
    match bytes.is_empty() {
        true => String::new(),
        false => json::to_relaxed(Doc::parse(bytes).unwrap()),
    }
}

#[test]
fn a_client_is_directed_to_its_provider() {
    let (server, _, mut root) = with_provider();
    let mut client = Client::new(&server);
    let hint = doc! { "n": "ann@corp" };
    let reply = sasl(&mut client, "saslStart", "$external", hint.as_doc());
    let expected = r#"{"issuer":"https://i","clientId":"app","requestScopes":["openid"]}"#;
    assert_eq!(
        (payload(&reply).replace(' ', "").as_str(), reply.get("done")),
        (expected, Value::Bool(false))
    );
    let reply = sasl(
        &mut client,
        "saslContinue",
        "$external",
        doc! { "jwt": &token("corp/ann", "corp/r", 60) }.as_doc(),
    );
    assert!(is_ok(&reply) && reply.get("done").is_truthy(), "{reply:?}");
    let reply = sasl(&mut Client::new(&server), "saslStart", "$external", DocBuf::new().as_doc());
    assert_eq!(payload(&reply).replace(' ', ""), expected, "the only provider needs no hint");
    for bad in [
        doc! { "n": "ann@other" },
        doc! { "n": 1 },
        doc! { "n": &"x".repeat(2000) },
        doc! { "jwt": 1 },
    ] {
        let reply = sasl(&mut Client::new(&server), "saslStart", "$external", bad.as_doc());
        assert_eq!(code(&reply), 18, "{bad:?}");
    }
    let mut twice = Client::new(&server);
    assert!(is_ok(&sasl(&mut twice, "saslStart", "$external", hint.as_doc())));
    assert_eq!(code(&sasl(&mut twice, "saslContinue", "$external", hint.as_doc())), 18);
    let second = PROVIDER
        .replace("https://i", "https://j")
        .replace("'corp'", "'other'")
        .replace("@corp", "@other");
    let set =
        json::parse(&format!("{{setParameter: 1, oidcIdentityProviders: [{PROVIDER}, {second}]}}"));
    let reply = root.run("admin", set.unwrap().as_doc());
    assert!(is_ok(&reply), "{reply:?}");
    let reply = sasl(
        &mut Client::new(&server),
        "saslStart",
        "$external",
        doc! { "n": "bob@other" }.as_doc(),
    );
    assert!(payload(&reply).contains("https://j"));
    let reply = sasl(&mut Client::new(&server), "saslStart", "$external", DocBuf::new().as_doc());
    assert_eq!(code(&reply), 18, "a hint is needed");
    let shown = root.run("admin", doc! { "getParameter": 1, "oidcIdentityProviders": 1 }.as_doc());
    assert_eq!(shown.get("oidcIdentityProviders").as_array().unwrap().count(), 2);
    let bad = json::parse("{setParameter: 1, oidcIdentityProviders: [{issuer: 'x'}]}").unwrap();
    assert_eq!(code(&root.run("admin", bad.as_doc())), 40414);
}

#[test]
fn roles_come_from_the_token_and_follow_changes() {
    let (server, _, mut root) = with_provider();
    let create = json::parse(
        "{createRole: 'corp/r', privileges: [{resource: {db: 'test', collection: ''}, actions: ['find']}], roles: []}",
    );
    assert!(is_ok(&root.run("admin", create.unwrap().as_doc())));
    let mut client = Client::new(&server);
    assert!(is_ok(&show(&mut client, &token("corp/ann", "corp/r,corp/none,corp/root", 60))));
    assert_eq!((find(&mut client, "test"), find(&mut client, "other")), (0, 13));
    let status = client.run("admin", doc! { "connectionStatus": 1 }.as_doc());
    let text = json::to_relaxed(status.as_doc()).replace(' ', "");
    assert!(
        text.contains(r#""authenticatedUsers":[{"user":"corp/ann","db":"$external"}]"#),
        "{text}"
    );
    assert!(!text.contains("root"), "{text}");
    assert!(is_ok(&root.run("admin", doc! { "dropRole": "corp/r" }.as_doc())));
    assert_eq!(find(&mut client, "test"), 13, "the role is gone");
    let own = json::parse("{createUser: 'corp/own', roles: [{role: 'read', db: 'test'}]}");
    assert_eq!(code(&show(&mut client, &token("corp/own", "-", 60))), 18, "no such user yet");
    assert!(is_ok(&root.run("$external", own.unwrap().as_doc())));
    let mut client = Client::new(&server);
    assert!(is_ok(&show(&mut client, &token("corp/own", "-", 60))));
    assert_eq!((find(&mut client, "test"), find(&mut client, "other")), (0, 13));
}

#[test]
fn a_login_ends_with_its_token() {
    let (server, fake, mut root) = with_provider();
    let mut client = Client::new(&server);
    let short = format!("corp/ann read@x {}", wall_ms() + 300);
    assert!(is_ok(&show(&mut client, &short)));
    assert_eq!(find(&mut client, "test"), 13);
    let began = Instant::now();
    while find(&mut client, "test") == 13 {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    let reply = client.run("test", doc! { "find": "c" }.as_doc());
    assert_eq!(code(&reply), 391);
    assert_eq!(
        reply.get("errmsg").as_str(),
        Some(
            "Command find requires reauthentication since the current authorization session has expired. \
             Please re-auth."
        )
    );
    assert!(is_ok(&client.run("admin", doc! { "hello": 1 }.as_doc())), "needs no login");
    assert_eq!(code(&show(&mut client, &short)), 18, "the same token again");
    assert_eq!(find(&mut client, "test"), 391);
    assert_eq!(code(&show(&mut client, &token("corp/bob", "x", 60))), 5_626_701, "another user");
    assert!(is_ok(&show(&mut client, &token("corp/ann", "x", 60))));
    assert_eq!(find(&mut client, "test"), 13);
    fake.epoch.fetch_add(1, SeqCst);
    assert_eq!(find(&mut client, "test"), 13, "another key was withdrawn");
    fake.oldest.fetch_add(1, SeqCst);
    fake.epoch.fetch_add(1, SeqCst);
    assert_eq!(find(&mut client, "test"), 391, "its key was withdrawn");
    assert!(is_ok(&client.run("$external", doc! { "logout": 1 }.as_doc())));
    assert_eq!(find(&mut client, "test"), 13);
    assert!(is_ok(&root.run("admin", doc! { "invalidateUserCache": 1 }.as_doc())));
    assert!(is_ok(&show(&mut client, &token("corp/bob", "x", 60))), "after a logout");
    assert!(is_ok(&root.run("admin", doc! { "invalidateUserCache": 1 }.as_doc())));
    fake.oldest.fetch_add(1, SeqCst);
    fake.epoch.fetch_add(1, SeqCst);
    assert_eq!(find(&mut client, "test"), 391, "the token is kept when users are resolved again");
}

#[test]
fn restrictions_of_roles_apply() {
    let (server, _, mut root) = with_provider();
    let create = json::parse(
        "{createRole: 'corp/far', privileges: [], roles: [], \
          authenticationRestrictions: [{clientSource: ['10.0.0.0/8']}]}",
    );
    assert!(is_ok(&root.run("admin", create.unwrap().as_doc())));
    assert_eq!(code(&show(&mut Client::new(&server), &token("corp/ann", "corp/far", 60))), 18);
    let mut far = Client::from(&server, "10.1.2.3:4");
    assert!(is_ok(&show(&mut far, &token("corp/ann", "corp/far", 60))));
}

#[test]
fn refusals_do_not_tell_why() {
    let (server, _, _) = with_provider();
    for (db, message) in [
        ("admin", doc! { "jwt": &token("corp/ann", "x", 60) }),
        ("$external", doc! { "jwt": "garbage" }),
        ("$external", doc! { "jwt": &"x".repeat(100_000) }),
        ("$external", doc! { "jwt": Value::Null }),
    ] {
        let reply = sasl(&mut Client::new(&server), "saslStart", db, message.as_doc());
        assert_eq!(
            (code(&reply), reply.get("errmsg").as_str()),
            (18, Some("Authentication failed."))
        );
    }
    let body = DocBuf::build(|out| {
        out.put("saslStart", 1);
        out.put("mechanism", "MONGODB-OIDC");
        out.put("payload", Value::Binary(Binary { subtype: 0, bytes: b"\x05\0\0\0" }));
    });
    assert_eq!(code(&Client::new(&server).run("$external", body.as_doc())), 18);
}

#[test]
fn the_mechanism_must_be_listed() {
    let provider = format!("[{PROVIDER}]");
    let (server, _, _) = start(&[
        ("authenticationMechanisms", "SCRAM-SHA-256"),
        ("oidcIdentityProviders", provider.as_str()),
    ]);
    assert_eq!(code(&show(&mut Client::new(&server), &token("corp/ann", "x", 60))), 334);
}

#[test]
fn commands_show_and_fetch_keys() {
    let (server, _, mut root) = with_provider();
    let reply = root.run("admin", doc! { "oidcListKeys": 1 }.as_doc());
    let sets = reply.get("keySets").as_doc().unwrap();
    assert_eq!(
        sets.get("https://i").as_doc().unwrap().get("keys").as_array().map(|list| list.count()),
        Some(0)
    );
    let unknown = doc! { "oidcListKeys": 1, "identityProviders": ["x"] };
    assert_eq!(code(&root.run("admin", unknown.as_doc())), 2);
    let reply = root.run("admin", doc! { "oidcRefreshKeys": 1 }.as_doc());
    assert_eq!(code(&reply), 96);
    let mut client = Client::new(&server);
    assert!(is_ok(&show(&mut client, &token("corp/ann", "x", 60))));
    for command in ["oidcListKeys", "oidcRefreshKeys"] {
        let body = DocBuf::build(|out| out.put(command, 1));
        assert_eq!(code(&client.run("admin", body.as_doc())), 13, "{command}");
    }
    let status = root.run("admin", doc! { "serverStatus": 1 }.as_doc());
    let security = status.get("security").as_doc().unwrap();
    assert_eq!(security.get("oidc").as_doc().unwrap().get("identityProviders"), Value::Int64(1));
    let mechanisms =
        security.get("authentication").as_doc().unwrap().get("mechanisms").as_doc().unwrap();
    let counts =
        mechanisms.get("MONGODB-OIDC").as_doc().unwrap().get("authenticate").as_doc().unwrap();
    assert_eq!(counts.get("successful"), Value::Int64(1));
}
