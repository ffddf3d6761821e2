//! Sets of public keys (RFC 7517).

use nagi_bson::{Doc, DocBuf, Value};
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};

use crate::algorithm::{Algorithm, Family, Verifier};
use crate::json::{base64url, object};

/// The number of keys in a set. Providers have two or three at a time.
const KEYS_MAX: usize = 200;
/// The length of a key's id.
const ID_BYTES_MAX: usize = 1024;
/// The shortest and longest modulus of RSA.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// A public key for signatures.
pub(crate) struct Key {
    pub(crate) id: String,
    /// Differs from that of all other keys of this process, also of one with the same id before or after.
    pub(crate) number: u64,
    family: Family,
    /// The only algorithm that it may be used for; `None`: all of its family.
    only: Option<String>,
    material: Material,
}

#[derive(PartialEq, Eq)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point that is not compressed: `4 | x | y`.
    Point(Vec<u8>),
}

impl Key {
    /// Checks a signature.
    ///
    /// # Errors
    /// If the key is not for the algorithm, or the signature is wrong.
    pub(crate) fn verify(
        &self,
        algorithm: &Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), &'static str> {
        if algorithm.family != self.family
            || self.only.as_ref().is_some_and(|only| only != algorithm.name)
        {
            return Err("The token's algorithm is not that of its key");
        }
        let verified = match (&self.material, algorithm.verifier) {
            (Material::Rsa { n, e }, Verifier::Rsa(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Material::Point(point), Verifier::Ecdsa(algorithm)) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            _ => return Err("The token's algorithm is not that of its key"),
        };
        verified.map_err(|_| "The token's signature is wrong")
    }

    fn is_same(&self, other: &Key) -> bool {
        self.id == other.id && self.only == other.only && self.material == other.material
    }

    /// Reads a key; `None` if it cannot be used for signatures of tokens.
    fn parse(jwk: Doc<'_>, number: u64) -> Option<Key> {
        let id = jwk.get("kid").as_str().filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX)?;
        if !matches!(jwk.get("use"), Value::Missing | Value::String("sig")) {
            return None;
        }
        if !may_verify(jwk.get("key_ops")) {
            return None;
        }
        let only = match jwk.get("alg") {
            Value::Missing => None,
            Value::String(name) => Some(name.to_owned()),
            _ => return None,
        };
        let bytes = |name: &str| base64url(jwk.get(name).as_str()?);
        let (family, material) = match (jwk.get("kty").as_str()?, jwk.get("crv").as_str()) {
            ("RSA", _) => {
                let (n, e) = (without_zeros(bytes("n")?), without_zeros(bytes("e")?));
                if !MODULUS_BYTES.contains(&n.len()) || e.is_empty() || e.len() > 8 {
                    return None;
                }
                (Family::Rsa, Material::Rsa { n, e })
            }
            ("EC", Some("P-256")) => (Family::P256, point(bytes("x")?, bytes("y")?, 32)?),
            ("EC", Some("P-384")) => (Family::P384, point(bytes("x")?, bytes("y")?, 48)?),
            _ => return None,
        };
        Some(Key { id: id.to_owned(), number, family, only, material })
    }
}

/// Returns true if the operations for which a key is meant include the check of signatures (RFC 7517, section 4.3).
fn may_verify(operations: Value<'_>) -> bool {
    match operations {
        Value::Missing => true,
        Value::Array(list) => {
            list.iter().all(|one| one.as_str().is_some())
                && list.iter().any(|one| one.as_str() == Some("verify"))
        }
        _ => false,
    }
}

fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.split_off(zeros)
}

fn point(x: Vec<u8>, y: Vec<u8>, len: usize) -> Option<Material> {
    (x.len() == len && y.len() == len).then(|| Material::Point([vec![4], x, y].concat()))
}

/// The members of a key that are shown: the public ones.
const SHOWN: &[&str] = &["kid", "kty", "use", "key_ops", "alg", "n", "e", "crv", "x", "y"];

/// The keys of one issuer.
#[derive(Default)]
pub(crate) struct KeySet {
    pub(crate) keys: Vec<Key>,
    /// `{keys: [...]}`.
    pub(crate) shown: DocBuf,
    /// The number of keys that cannot be used.
    pub(crate) unusable_count: usize,
}

impl KeySet {
    /// Reads a set. `next` gives the numbers of its keys; a key that is in `before` too keeps its number. It may be
    /// empty: then the provider has withdrawn all of its keys.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn parse(
        text: &[u8],
        before: &KeySet,
        mut next: impl FnMut() -> u64,
    ) -> Result<KeySet, String> {
        let set = object("The key set", text)?;
        let Value::Array(list) = set.as_doc().get("keys") else {
            return Err("The key set has no array 'keys'".to_owned());
        };
        let (mut keys, mut unusable_count): (Vec<Key>, usize) = (Vec::new(), 0);
        let mut used = Vec::new();
        for (index, value) in list.iter().enumerate() {
            if index == KEYS_MAX {
                return Err(format!("The key set has more than {KEYS_MAX} keys"));
            }
            let Value::Doc(jwk) = value else {
                return Err("The key set has a key that is no object".to_owned());
            };
            let Some(mut key) = Key::parse(jwk, 0) else {
                unusable_count += 1;
                continue;
            };
            if keys.iter().any(|other| other.id == key.id) {
                return Err("The key set has several keys with the same kid".to_owned());
            }
            let known = before.keys.iter().find(|known| known.is_same(&key));
            key.number = known.map_or_else(&mut next, |known| known.number);
            keys.push(key);
            used.push(jwk);
        }
        let shown = DocBuf::build(|out| {
            out.array("keys", |out| {
                for jwk in used {
                    let public = |name: &str| SHOWN.contains(&name);
                    let members = || jwk.iter().filter(|member| public(member.name()));
                    out.doc(|out| members().for_each(|member| out.put_element(member)));
                }
            });
        });
        Ok(KeySet { keys, shown, unusable_count })
    }

    /// The ids of all keys.
    pub(crate) fn ids(&self) -> Vec<&str> {
        self.keys.iter().map(|key| key.id.as_str()).collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// Returns true if the set still has each key of another one.
    pub(crate) fn has_all_of(&self, other: &KeySet) -> bool {
        other.keys.iter().all(|key| self.keys.iter().any(|own| own.number == key.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: &str = "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY";

    fn parse(text: &str, before: &KeySet) -> Result<KeySet, String> {
        let mut number = before.keys.iter().map(|key| key.number).max().unwrap_or(0);
        KeySet::parse(text.as_bytes(), before, || {
            number += 1;
            number
        })
    }

    fn ec(id: &str, more: &str) -> String {
        format!(r#"{{"kid": "{id}", "kty": "EC", "crv": "P-256", "x": "{X}", "y": "{X}"{more}}}"#)
    }

    fn set(keys: &[String]) -> String {
        format!(r#"{{"keys": [{}]}}"#, keys.join(", "))
    }

    #[test]
    fn keys_that_cannot_verify_are_left_out() {
        let rsa = |bytes: usize| {
            let mut n = String::new();
            nagi_bson::json::base64_encode(&mut n, &vec![0xC1; bytes]);
            let n = n.trim_end_matches('=').replace('+', "-").replace('/', "_");
            format!(
                r#"{{"kid": "r{bytes}", "kty": "RSA", "e": "AQAB", "n": "{n}", "d": "secret"}}"#
            )
        };
        let unusable = [
            r#"{"kid": "h", "kty": "oct", "k": "AAAA", "alg": "HS256"}"#.to_owned(),
            ec("enc", r#", "use": "enc""#),
            ec("encrypts", r#", "key_ops": ["encrypt", "wrapKey"]"#),
            ec("nothing", r#", "use": "sig", "key_ops": []"#),
            ec("text", r#", "key_ops": "verify""#),
            ec("mixed", r#", "key_ops": ["verify", 1]"#),
            ec("", ""),
            ec("p521", "").replace("P-256", "P-521"),
            ec("short", "").replace(X, "AAAA"),
            format!(r#"{{"kty": "EC", "crv": "P-256", "x": "{X}", "y": "{X}"}}"#),
            rsa(128),
            rsa(2048),
        ];
        let mut keys = unusable.to_vec();
        keys.extend([ec("good", r#", "use": "sig", "key_ops": ["verify"]"#), rsa(256)]);
        let parsed = parse(&set(&keys), &KeySet::default()).unwrap();
        let ids: Vec<_> = parsed.keys.iter().map(|key| key.id.as_str()).collect();
        assert_eq!((ids, parsed.unusable_count), (vec!["good", "r256"], unusable.len()));
        assert!(!parsed.shown.as_doc().to_string().contains("secret"));
        let none = parse(&set(&unusable), &parsed).unwrap();
        assert!(none.keys.is_empty() && !none.has_all_of(&parsed), "all are withdrawn");
    }

    #[test]
    fn a_set_is_refused_as_a_whole() {
        let many: Vec<_> = (0..=KEYS_MAX).map(|n| ec(&n.to_string(), "")).collect();
        for bad in [
            "".to_owned(),
            "{}".to_owned(),
            r#"{"keys": {}}"#.to_owned(),
            r#"{"keys": [1]}"#.to_owned(),
            set(&[ec("a", ""), ec("a", "")]),
            set(&many),
        ] {
            assert!(parse(&bad, &KeySet::default()).is_err(), "{bad}");
        }
        assert!(parse(&set(&many[1..]), &KeySet::default()).is_ok());
    }

    #[test]
    fn a_key_with_an_old_id_is_another_key() {
        let first = parse(&set(&[ec("a", ""), ec("b", "")]), &KeySet::default()).unwrap();
        let more = parse(&set(&[ec("c", ""), ec("b", ""), ec("a", "")]), &first).unwrap();
        assert!(more.has_all_of(&first) && !first.has_all_of(&more));
        assert_eq!(more.find("a").unwrap().number, first.find("a").unwrap().number);
        let other =
            parse(&set(&[ec("a", "").replace("axfR", "bxfR"), ec("b", "")]), &first).unwrap();
        assert!(!other.has_all_of(&first));
    }
}
