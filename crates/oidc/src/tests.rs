//! The whole way of a token: keys from a file or a server of this process, a signature, an identity.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use nagi_bson::json::base64_encode;
use nagi_server::{IdentityProvider, TokenTrust};
use parking_lot::Mutex;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

use crate::Trust;
use crate::claims::tests::provider_of;

const ISSUER: &str = "https://id.example.com";
const NOW_MS: i64 = 1_000_000;
const CLAIMS: &str = concat!(
    r#"{"iss":"https://id.example.com","aud":["db"],"sub":"ann","groups":["a"],"#,
    r#""exp":2000,"nbf":1000}"#
);
const NO_QUIET: Duration = Duration::ZERO;

fn coded(bytes: &[u8]) -> String {
    let mut text = String::new();
    base64_encode(&mut text, bytes);
    text.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// A key of a provider.
struct Signer {
    id: &'static str,
    pair: EcdsaKeyPair,
}

impl Signer {
    fn new(id: &'static str) -> Signer {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Signer { id, pair: EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap() }
    }

    fn sign(&self, claims: &str) -> String {
        let header = format!(r#"{{"alg":"ES256","kid":"{}","typ":"JWT"}}"#, self.id);
        let signed = format!("{}.{}", coded(header.as_bytes()), coded(claims.as_bytes()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", coded(signature.as_ref()))
    }
}

fn set(signers: &[&Signer]) -> String {
    let jwk = |signer: &&Signer| {
        let point = signer.pair.public_key().as_ref();
        let (x, y) = (coded(&point[1..33]), coded(&point[33..]));
        format!(r#"{{"kid":"{}","kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}}"#, signer.id)
    };
    let keys: Vec<_> = signers.iter().map(jwk).collect();
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}

/// An HTTP server on this machine.
struct Server {
    address: String,
    asked_count: Arc<AtomicUsize>,
    reply: Arc<Mutex<Reply>>,
}

#[derive(Clone)]
enum Reply {
    Json(String),
    Raw(Vec<u8>),
    /// Accepts the request, and never answers.
    Silence,
    /// A byte a while, without an end.
    Trickle,
}

impl Server {
    fn start(reply: Reply) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (asked_count, reply) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(reply)));
        let (asked, replies) = (asked_count.clone(), reply.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                asked.fetch_add(1, SeqCst);
                let reply = replies.lock().clone();
                std::thread::spawn(move || answer(stream, reply));
            }
        });
        Server { address, asked_count, reply }
    }

    fn asked_count(&self) -> usize {
        self.asked_count.load(SeqCst)
    }
}

fn answer(mut stream: TcpStream, reply: Reply) {
    let mut request = [0; 2048];
    let _ = stream.read(&mut request);
    let json = |body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    match reply {
        Reply::Json(body) => {
            let _ = stream.write_all(&json(&body));
        }
        Reply::Raw(bytes) => {
            let _ = stream.write_all(&bytes);
        }
        Reply::Silence => std::thread::sleep(Duration::from_secs(60)),
        Reply::Trickle => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            while stream.write_all(b"1\r\n \r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn provider_at(uri: &str) -> IdentityProvider {
    IdentityProvider { jwks_uri: Some(uri.to_owned()), ..provider_of(ISSUER, "db") }
}

fn trust_at(uri: &str) -> Arc<Trust> {
    let trust = Trust::new();
    trust.configure(vec![provider_at(uri)]);
    trust
}

fn verify(trust: &Trust, token: &str) -> Result<String, String> {
    trust.verify(token, NOW_MS, NO_QUIET).map(|identity| identity.user)
}

/// The keys in a file of this test.
fn file(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("nagi-oidc-{}-{name}.json", std::process::id()));
    std::fs::write(&path, text).unwrap();
    format!("file://{}", path.display())
}

#[test]
fn a_token_proves_user_and_roles() {
    let signer = Signer::new("k1");
    let trust = trust_at(&file("proves", &set(&[&signer])));
    let identity = trust.verify(&signer.sign(CLAIMS), NOW_MS, NO_QUIET).unwrap();
    assert_eq!((identity.user.as_str(), identity.expires_ms), ("corp/ann", 2_000_000));
    assert_eq!(identity.roles.unwrap(), ["corp/a"]);
    assert!(trust.still_trusts(&identity.origin));
    for (change, to) in [
        ("id.example.com", "id.example.org"),
        (r#"["db"]"#, r#"["other"]"#),
        (r#""exp":2000"#, r#""exp":999"#),
        (r#""nbf":1000"#, r#""nbf":1001"#),
        (r#""sub":"ann""#, r#""sub":"""#),
        (r#""groups":["a"]"#, r#""groups":[1]"#),
        (r#""sub":"ann""#, r#""sub":"ann","sub":"root""#),
    ] {
        let changed = CLAIMS.replace(change, to);
        assert_ne!(changed, CLAIMS);
        assert!(verify(&trust, &signer.sign(&changed)).is_err(), "{changed}");
    }
    let stranger = Signer::new("k1");
    assert_eq!(
        verify(&trust, &stranger.sign(CLAIMS)).unwrap_err(),
        "The token's signature is wrong; it names the user 'corp/ann'"
    );
    let unknown = Signer::new("k2").sign(CLAIMS);
    assert_eq!(
        verify(&trust, &unknown).unwrap_err(),
        "The token's key is not one of its identity provider: it is 'k2', expected 'k1'; \
         it names the user 'corp/ann'"
    );
    let elsewhere = CLAIMS.replace(r#"["db"]"#, r#"["other\u202e\n"]"#);
    assert!(
        verify(&trust, &signer.sign(&elsewhere))
            .unwrap_err()
            .ends_with("it is for 'other??', expected 'db'")
    );
    let issuer = CLAIMS.replace(ISSUER, &"x".repeat(1000));
    let told = verify(&trust, &signer.sign(&issuer)).unwrap_err();
    assert!(told.contains(&format!("expected '{ISSUER}'")) && told.len() < 600, "{told}");
}

#[test]
fn a_withdrawn_key_ends_its_logins() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let place = file("withdrawn", &set(&[&old]));
    let trust = trust_at(&place);
    let first = trust.verify(&old.sign(CLAIMS), NOW_MS, NO_QUIET).unwrap();
    file("withdrawn", &set(&[&old, &new]));
    let second = trust.verify(&new.sign(CLAIMS), NOW_MS, NO_QUIET).unwrap();
    assert_eq!(second.epoch, first.epoch, "a key more changes nothing");
    file("withdrawn", &set(&[&new]));
    trust.refresh(None).unwrap();
    assert_ne!(trust.epoch(), first.epoch);
    assert!(!trust.still_trusts(&first.origin) && trust.still_trusts(&second.origin));
    assert!(verify(&trust, &old.sign(CLAIMS)).is_err());
    file("withdrawn", "garbage");
    assert!(trust.refresh(Some(&[ISSUER])).is_err());
    assert!(trust.still_trusts(&second.origin), "keys stay if they cannot be fetched");
    assert!(verify(&trust, &new.sign(CLAIMS)).is_ok());
    file("withdrawn", r#"{"keys": []}"#);
    assert_eq!(trust.refresh(None), Ok(()), "an empty set is one");
    assert!(!trust.still_trusts(&second.origin) && verify(&trust, &new.sign(CLAIMS)).is_err());
    assert_eq!((trust.counts().keys, trust.counts().failed), (0, 1));
    file("withdrawn", &set(&[&new]));
    let second = trust.verify(&new.sign(CLAIMS), NOW_MS, NO_QUIET).unwrap();
    trust.configure(vec![IdentityProvider { audience: "x".to_owned(), ..provider_at(&place) }]);
    assert!(!trust.still_trusts(&second.origin));
    assert!(trust.refresh(Some(&["https://other.example.com"])).is_err());
}

#[test]
fn keys_come_from_the_discovery_document() {
    let signer = Signer::new("k1");
    let keys = Server::start(Reply::Json(set(&[&signer])));
    let discovery = Server::start(Reply::Silence);
    let issuer = discovery.address.clone();
    let document = |issuer: &str| {
        Reply::Json(format!(r#"{{"issuer":"{issuer}","jwks_uri":"{}/keys"}}"#, keys.address))
    };
    *discovery.reply.lock() = document(&issuer);
    let trust = Trust::new();
    trust.configure(vec![provider_of(&issuer, "db")]);
    assert_eq!(
        verify(&trust, &signer.sign(&CLAIMS.replace(ISSUER, &issuer))).as_deref(),
        Ok("corp/ann")
    );
    for bad in [
        document("https://id.example.com"),
        Reply::Json("{}".to_owned()),
        Reply::Json(format!(r#"{{"issuer":"{issuer}","jwks_uri":"file:///etc/passwd"}}"#)),
        Reply::Json(format!(r#"{{"issuer":"{issuer}","jwks_uri":"http://192.0.2.1/keys"}}"#)),
    ] {
        *discovery.reply.lock() = bad;
        assert!(trust.refresh(None).is_err());
    }
}

#[test]
fn replies_are_bounded() {
    let signer = Signer::new("k1");
    let server = Server::start(Reply::Json(set(&[&signer])));
    let trust = trust_at(&server.address);
    assert!(verify(&trust, &signer.sign(CLAIMS)).is_ok());
    let raw = |text: String| Reply::Raw(text.into_bytes());
    let redirect = |to: &str| {
        raw(format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"))
    };
    for (bad, text) in [
        (raw("garbage\r\n\r\n".to_owned()), ""),
        (raw("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned()), "status 404"),
        (raw("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{".to_owned()), ""),
        (Reply::Json(" ".repeat(2 << 20)), ""),
        (raw(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(1 << 20))), ""),
        (redirect("/"), "more than 3 redirects"),
        (redirect("http://192.0.2.1/keys"), "not on this machine"),
        (redirect("file:///etc/passwd"), "not allowed"),
        (Reply::Trickle, ""),
        (Reply::Silence, ""),
    ] {
        *server.reply.lock() = bad;
        let began = Instant::now();
        let error = trust.refresh(None).unwrap_err();
        assert!(error.contains(text), "{error}");
        assert!(began.elapsed() < Duration::from_secs(8), "{error}");
    }
    assert!(verify(&trust, &signer.sign(CLAIMS)).is_ok(), "the keys stay");
    assert_eq!(trust.counts().failed, 10);
}

#[test]
fn a_flood_of_unknown_keys_causes_one_fetch() {
    let signer = Signer::new("k1");
    let server = Server::start(Reply::Json(set(&[&signer])));
    let trust = trust_at(&server.address);
    assert!(verify(&trust, &signer.sign(CLAIMS)).is_ok());
    let unknown = Signer::new("k2").sign(CLAIMS);
    let quiet = Duration::from_secs(3600);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert!(trust.verify(&unknown, NOW_MS, quiet).is_err());
                }
            });
        }
    });
    assert_eq!((server.asked_count(), trust.counts().quiet), (1, 1000));
    *server.reply.lock() = Reply::Silence;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| assert!(trust.verify(&unknown, NOW_MS, NO_QUIET).is_err()));
        }
        // Known keys need no fetch.
        let token = signer.sign(CLAIMS);
        for _ in 0..100 {
            assert!(verify(&trust, &token).is_ok());
        }
        assert!(began.elapsed() < Duration::from_secs(4));
    });
    assert!(began.elapsed() < Duration::from_secs(8));
    assert_eq!(server.asked_count(), 2);
}

#[test]
fn a_stop_wakes_who_waits() {
    let server = Server::start(Reply::Silence);
    let trust = trust_at(&server.address);
    let token = Signer::new("k1").sign(CLAIMS);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let began = Instant::now();
            assert!(verify(&trust, &token).is_err());
            began.elapsed()
        });
        while trust.counts().waited == 0 {
            std::thread::yield_now();
        }
        trust.stop();
        assert!(waiting.join().unwrap() < Duration::from_secs(3));
    });
}

proptest! {
    /// No change of a character, no cut and no insertion leaves a token valid.
    #[test]
    fn a_changed_token_is_refused(at in any::<prop::sample::Index>(), to in "[ -~]{0,3}", cut in 0_usize..3) {
        static MADE: std::sync::LazyLock<(Arc<Trust>, String)> = std::sync::LazyLock::new(|| {
            let signer = Signer::new("k1");
            let trust = trust_at(&file("changed", &set(&[&signer])));
            assert!(verify(&trust, &signer.sign(CLAIMS)).is_ok());
            (trust, signer.sign(CLAIMS))
        });
        let (trust, token) = &*MADE;
        let at = at.index(token.len());
        let end = (at + cut).min(token.len());
        let changed = format!("{}{to}{}", &token[..at], &token[end..]);
        let quiet = Duration::from_secs(3600);
        prop_assert_eq!(trust.verify(&changed, NOW_MS, quiet).is_ok(), changed == *token);
    }

    /// Any text is refused, and none causes a panic.
    #[test]
    fn any_text_is_refused(text in "[A-Za-z0-9_.=-]{0,200}|\\PC{0,100}") {
        prop_assert!(trust_at("file:///nonexistent").verify(&text, NOW_MS, Duration::from_secs(3600)).is_err());
    }

    /// Any header and claims are refused without a signature.
    #[test]
    fn any_claims_are_refused(alg in "ES256|RS256|PS384|none|HS256", claims in "\\PC{0,100}") {
        let header = format!(r#"{{"alg":"{alg}","kid":"k1"}}"#);
        let text = format!("{}.{}.{}", coded(header.as_bytes()), coded(claims.as_bytes()), coded(&[1; 64]));
        let is_object = claims.starts_with('{');
        prop_assert!(crate::token::Token::parse(&text).is_err() || is_object);
    }
}
