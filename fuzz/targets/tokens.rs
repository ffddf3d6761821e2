//! Tokens of identity providers, and the documents that their keys come from: valid ones with changes, and any bytes.
//!
//! ```text
//!   kind % 16   0        any text for a token
//!               1..=3    a token: its text, its header, its claims or its signature changed, the signature kept
//!               4, 5     its header or its claims changed and signed again, as by a provider that is not careful
//!               6        the parts of two tokens
//!               7..=9    a key set: any bytes, its text changed, one of its values changed
//!               10, 11   a discovery document: any bytes, its text changed
//!   kind / 16   which token: ES256, ES384, RS256, PS384
//! ```
//! A token counts only if what is signed is byte for byte what a key of the provider has signed, and its user and roles
//! are bounded; a key set verifies a token only with the provider's own key in it.
#![no_main]

mod edits;
mod growth;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use nagi_bson::json::{base64_decode, base64_encode};
use nagi_bson::{Doc, Value};
use nagi_oidc::{Trust, fuzzing};
use nagi_server::{IdentityProvider, TokenTrust, check_key_address};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
};

const ISSUER: &str = "https://id.example.com";
const NOW_MS: i64 = 1_500_000;
/// Keys that are not known are not fetched again.
const QUIET: Duration = Duration::from_secs(1 << 30);
const CLAIMS: &str = concat!(
    r#"{"iss":"https://id.example.com","aud":["db"],"sub":"ann","groups":["a","b"],"#,
    r#""exp":2000,"nbf":1000,"iat":1000}"#
);
const DISCOVERY: &str = concat!(
    r#"{"issuer":"https://id.example.com","jwks_uri":"https://id.example.com/keys","#,
    r#""scopes_supported":["openid"]}"#
);
/// Signed once by `openssl dgst`; the key that signed them is nowhere.
const OF_RSA: [&str; 2] =
    [include_str!("../fixtures/rs256.jwt"), include_str!("../fixtures/ps384.jwt")];
const MODULUS: &str = include_str!("../fixtures/rsa.modulus");

/// The ids of the keys that signed the tokens.
const IDS: [&str; 4] = ["ES256", "ES384", "rsa", "rsa"];

/// A provider with a key of each kind.
struct World {
    trust: Arc<Trust>,
    signers: [Signer; 2],
    tokens: [String; 4],
    key_set: String,
}

/// A key of the provider that can sign here.
struct Signer {
    algorithm: &'static str,
    pair: EcdsaKeyPair,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let signers = [Signer::new("ES256"), Signer::new("ES384")];
    let rsa = format!(r#"{{"kid":"rsa","kty":"RSA","e":"AQAB","n":"{}"}}"#, MODULUS.trim());
    let key_set = format!(r#"{{"keys":[{},{},{rsa}]}}"#, signers[0].key(), signers[1].key());
    let file = format!("/dev/shm/nagi-fuzz-keys-{}.json", std::process::id());
    std::fs::write(&file, &key_set).expect("a file");
    let trust = Trust::new();
    trust.configure(vec![provider(&file)]);
    let sign = |signer: &Signer| signer.sign(&signer.header(), CLAIMS.as_bytes());
    let tokens = [
        sign(&signers[0]),
        sign(&signers[1]),
        OF_RSA[0].trim().to_owned(),
        OF_RSA[1].trim().to_owned(),
    ];
    for token in &tokens {
        // The first one waits until the keys are there.
        let identity = trust.verify(token, NOW_MS, Duration::ZERO).expect("a valid token");
        assert_eq!(identity.user, "corp/ann");
        assert!(fuzzing::verify_with(key_set.as_bytes(), token).expect("a key set").1);
    }
    let _ = std::fs::remove_file(file);
    World { trust, signers, tokens, key_set }
});

fn provider(file: &str) -> IdentityProvider {
    IdentityProvider {
        issuer: ISSUER.to_owned(),
        audience: "db".to_owned(),
        auth_name_prefix: "corp".to_owned(),
        match_pattern: None,
        client_id: None,
        request_scopes: Vec::new(),
        principal_name: "sub".to_owned(),
        use_authorization_claim: true,
        authorization_claim: Some("groups".to_owned()),
        log_claims: vec!["sub".to_owned(), "aud".to_owned()],
        supports_human_flows: false,
        jwks_poll_secs: 0,
        jwks_uri: Some(format!("file://{file}")),
        jwks_ca_file: None,
    }
}

impl Signer {
    fn new(algorithm: &'static str) -> Signer {
        let random = SystemRandom::new();
        let kind = match algorithm {
            "ES256" => &ECDSA_P256_SHA256_FIXED_SIGNING,
            _ => &ECDSA_P384_SHA384_FIXED_SIGNING,
        };
        let made = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).expect("a key");
        Signer { algorithm, pair }
    }

    fn key(&self) -> String {
        let (x, y) = self.pair.public_key().as_ref()[1..]
            .split_at((self.pair.public_key().as_ref().len() - 1) / 2);
        let (name, curve) = (self.algorithm, self.algorithm.replace("ES", "P-"));
        let (x, y) = (coded(x), coded(y));
        format!(r#"{{"kid":"{name}","kty":"EC","crv":"{curve}","x":"{x}","y":"{y}","use":"sig"}}"#)
    }

    fn header(&self) -> String {
        format!(r#"{{"alg":"{0}","kid":"{0}","typ":"JWT"}}"#, self.algorithm)
    }

    fn sign(&self, header: &str, claims: &[u8]) -> String {
        let signed = format!("{}.{}", coded(header.as_bytes()), coded(claims));
        let random = SystemRandom::new();
        let signature = self.pair.sign(&random, signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", coded(signature.as_ref()))
    }
}

fn coded(bytes: &[u8]) -> String {
    let mut text = String::new();
    base64_encode(&mut text, bytes);
    text.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn decoded(text: &str) -> Vec<u8> {
    base64_decode(&text.replace('-', "+").replace('_', "/")).expect("base64")
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, input)) = data.split_first() else { return };
    let which = usize::from(kind >> 4) % 4;
    let token = &WORLD.tokens[which];
    match kind % 16 {
        0 => judge(&String::from_utf8_lossy(input)),
        1..=3 => changed_token(token, kind % 16, input),
        4 | 5 => signed_again(&WORLD.signers[which % 2], kind % 16 == 4, input),
        6 => parts_of_two(input),
        7..=9 => key_set(which, kind % 16, input),
        10 => discovery(input),
        11 => discovery(&changed(DISCOVERY.as_bytes(), input)),
        _ => changed_token(token, 0, input),
    }
    growth::check();
});

fn changed(bytes: &[u8], input: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    edits::apply(input, &mut bytes);
    bytes
}

/// What is signed in a token.
fn signed_part(token: &str) -> &str {
    token.rsplit_once('.').map_or("", |(signed, _)| signed)
}

/// A token: that no key of the provider has signed, unless it is one of the valid ones.
fn judge(text: &str) {
    let is_signed = WORLD.tokens.iter().any(|valid| signed_part(valid) == signed_part(text));
    match WORLD.trust.verify(text, NOW_MS, QUIET) {
        Ok(identity) => {
            assert!(is_signed, "accepted a token nobody signed: {text}");
            assert_eq!(identity.user, "corp/ann");
        }
        Err(reason) => {
            let is_valid = WORLD.tokens.iter().any(|valid| valid == text);
            assert!(!is_valid, "refused a valid token: {reason}");
            // Texts of a token are cut by characters.
            let length = reason.chars().count();
            assert!((1..512).contains(&length), "{length}: {reason}");
        }
    }
}

/// A change of the whole text, or within a part of it.
fn changed_token(token: &str, part: u8, input: &[u8]) {
    let parts: Vec<&str> = token.split('.').collect();
    let text = match part {
        0 => String::from_utf8_lossy(&changed(token.as_bytes(), input)).into_owned(),
        part => {
            let mut parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            let at = usize::from(part - 1);
            parts[at] = coded(&changed(&decoded(&parts[at]), input));
            parts.join(".")
        }
    };
    judge(&text);
}

/// A token with any header or claims whose signature is right: what is accepted is within its bounds.
fn signed_again(signer: &Signer, is_header: bool, input: &[u8]) {
    let (mut header, mut claims) = (signer.header().into_bytes(), CLAIMS.as_bytes().to_vec());
    edits::apply(input, if is_header { &mut header } else { &mut claims });
    let text = signer.sign(&String::from_utf8_lossy(&header), &claims);
    match WORLD.trust.verify(&text, NOW_MS, QUIET) {
        Ok(identity) => {
            let bounded =
                |name: &str| name.starts_with("corp/") && name.len() > 5 && name.len() <= 1024 + 5;
            assert!(bounded(&identity.user) && identity.expires_ms > NOW_MS, "{}", identity.user);
            let roles = identity.roles.expect("the claim of roles is required");
            assert!(roles.len() <= 1000 && roles.iter().all(|role| bounded(role)), "{roles:?}");
            assert!(
                identity.claims.as_doc().iter().all(|claim| ["sub", "aud"].contains(&claim.name()))
            );
            assert!(WORLD.trust.still_trusts(&identity.origin));
            assert!(identity.origin.issuer == ISSUER && identity.origin.audience == "db");
            assert_eq!(identity.origin.key_id, signer.algorithm);
        }
        Err(reason) => {
            assert!(
                header != signer.header().as_bytes() || claims != CLAIMS.as_bytes(),
                "{reason}"
            );
            // Texts of a token are cut by characters.
            let length = reason.chars().count();
            assert!((1..512).contains(&length), "{length}: {reason}");
        }
    }
}

/// The header of a token with the claims and the signature of others.
fn parts_of_two(input: &[u8]) {
    let choose = |at: usize| {
        let which = usize::from(input.get(at).copied().unwrap_or(0)) % WORLD.tokens.len();
        WORLD.tokens[which].split('.').nth(at).unwrap_or_default()
    };
    judge(&[choose(0), choose(1), choose(2)].join("."));
}

fn key_set(which: usize, kind: u8, input: &[u8]) {
    let text = match kind {
        7 => input.to_vec(),
        8 => changed(WORLD.key_set.as_bytes(), input),
        _ => with_changed_value(&WORLD.key_set, input),
    };
    let (shown, is_verified) = match fuzzing::verify_with(&text, &WORLD.tokens[which]) {
        Ok(read) => read,
        Err(reason) => return assert!(!reason.is_empty() && reason.len() < 512, "{reason}"),
    };
    let Value::Array(keys) = shown.as_doc().get("keys") else { panic!("no list of keys") };
    // A set without keys withdraws those that were known.
    assert!(keys.iter().count() <= 200);
    let holds = |value: Value<'_>| matches!(value, Value::Doc(key) if is_own(key, IDS[which]));
    assert!(!is_verified || keys.iter().any(holds), "verified by another key");
    if text == WORLD.key_set.as_bytes() {
        assert!(is_verified);
    }
}

/// Returns true if this is the provider's key with this id.
fn is_own(key: Doc<'_>, id: &str) -> bool {
    let text = |name: &str| key.get(name).as_str().unwrap_or_default();
    let material = match id {
        "rsa" => {
            let n = decoded(text("n"));
            let zeros = n.iter().take_while(|byte| **byte == 0).count();
            n[zeros..] == decoded(MODULUS.trim())
        }
        _ => {
            let (x, y) = (text("x"), text("y"));
            !x.is_empty() && WORLD.key_set.contains(&format!(r#""x":"{x}","y":"{y}""#))
        }
    };
    text("kid") == id && material
}

/// The key set with changes in one of its strings, decoded if it is base64.
fn with_changed_value(set: &str, input: &[u8]) -> Vec<u8> {
    let Some((at, input)) = input.split_first() else { return set.as_bytes().to_vec() };
    let mut pieces: Vec<String> = set.split('"').map(str::to_owned).collect();
    // Every second piece is within quotes.
    let at = 1 + 2 * (usize::from(*at) % (pieces.len() / 2));
    pieces[at] = match pieces[at].len() {
        0..=20 => String::from_utf8_lossy(&changed(pieces[at].as_bytes(), input)).into_owned(),
        _ => coded(&changed(&decoded(&pieces[at]), input)),
    };
    pieces.join("\"").into_bytes()
}

fn discovery(document: &[u8]) {
    let next = ["/keys", "//x/keys", "https://y/", "http://127.0.0.1/", "keys"];
    for next in next {
        match fuzzing::keys_address(document, ISSUER, next) {
            Ok(address) => {
                assert!(check_key_address(&address, false).is_ok(), "{address}");
                assert!(!address.starts_with("file:") && address.len() <= document.len() + 32);
            }
            Err(reason) => {
                assert!(!reason.is_empty() && reason.len() <= document.len() + 300, "{reason}");
            }
        }
    }
}
