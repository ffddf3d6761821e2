//! SCRAM (RFC 5802, RFC 7677): credentials and the computations of the exchange.
//!
//! The server stores `StoredKey = H(HMAC(SaltedPassword, "Client Key"))` and `ServerKey = HMAC(SaltedPassword,
//! "Server Key")`, never the password. A client proves that it knows the password by `ClientKey XOR
//! HMAC(StoredKey, AuthMessage)`; the server answers with `HMAC(ServerKey, AuthMessage)`.
//!
//! Deriving a credential costs as many HMACs as the iteration count (tens of milliseconds); checking a proof
//! costs two.

use std::borrow::Cow;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use nagi_error::{Code, Result, err};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::settings::params::Parameters;

/// A mechanism with credentials of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Sha1,
    Sha256,
}

/// All mechanisms, in the order in which replies list them.
pub(crate) const MECHANISMS: [Mechanism; 2] = [Mechanism::Sha1, Mechanism::Sha256];

/// The data that the server stores of a password for one mechanism.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) iteration_count: u32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: Vec<u8>,
    pub(crate) server_key: Vec<u8>,
}

/// Tells a stored credential from every other one. Nothing can be computed from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CredentialId(Mechanism, [u8; 32]);

impl Credential {
    /// A new password has another salt, and so another id, even if its text is the same.
    pub(crate) fn id(&self, mechanism: Mechanism) -> CredentialId {
        let hash = Sha256::new().chain_update(&self.salt).chain_update(&self.stored_key);
        CredentialId(mechanism, hash.finalize().into())
    }
}

impl Mechanism {
    pub(crate) fn parse(name: &str) -> Option<Mechanism> {
        MECHANISMS.into_iter().find(|mechanism| mechanism.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "SCRAM-SHA-1",
            Mechanism::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// Returns true if the parameter `authenticationMechanisms` lists the mechanism.
    pub(crate) fn is_enabled(self, params: &Parameters) -> bool {
        params.lists("authenticationMechanisms", self.name())
    }

    /// The parameter with the iteration count of new credentials.
    pub(crate) fn iterations_parameter(self) -> &'static str {
        match self {
            Mechanism::Sha1 => "scramIterationCount",
            Mechanism::Sha256 => "scramSHA256IterationCount",
        }
    }

    /// The length of a salt: together with PBKDF2's block number it fills one output of the hash.
    pub(crate) fn salt_bytes(self) -> usize {
        self.hash_bytes() - 4
    }

    pub(crate) fn hash_bytes(self) -> usize {
        match self {
            Mechanism::Sha1 => 20,
            Mechanism::Sha256 => 32,
        }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    pub(crate) fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => {
                mac::<Hmac<Sha1>>(key).chain_update(message).finalize().into_bytes().to_vec()
            }
            Mechanism::Sha256 => {
                mac::<Hmac<Sha256>>(key).chain_update(message).finalize().into_bytes().to_vec()
            }
        }
    }

    fn salted(self, password: &[u8], salt: &[u8], iteration_count: u32) -> Vec<u8> {
        match self {
            Mechanism::Sha1 => pbkdf2::<Hmac<Sha1>>(password, salt, iteration_count),
            Mechanism::Sha256 => pbkdf2::<Hmac<Sha256>>(password, salt, iteration_count),
        }
    }

    /// The password in the form that the mechanism hashes: prepared by SASLprep, or as MongoDB's old MD5
    /// digest. `digested` means that the client sent that digest already.
    pub(crate) fn prepare<'p>(
        self,
        user: &str,
        password: &'p str,
        digested: bool,
    ) -> Result<Cow<'p, str>> {
        match self {
            Mechanism::Sha1 if digested => Ok(Cow::Borrowed(password)),
            Mechanism::Sha1 => Ok(Cow::Owned(md5_digest(user, password))),
            Mechanism::Sha256 => stringprep::saslprep(password).map_err(|_| {
                err!(
                    Code::BAD_VALUE,
                    "Error preparing the password: it has characters that SASLprep prohibits"
                )
            }),
        }
    }

    /// Derives the credential of a prepared password. Takes `iteration_count` HMACs.
    pub(crate) fn derive(self, password: &str, salt: Vec<u8>, iteration_count: u32) -> Credential {
        self.derive_for_client(password, salt, iteration_count).1
    }

    /// Like [`Mechanism::derive`], but also returns the client key, which proves knowledge of the password.
    pub(crate) fn derive_for_client(
        self,
        password: &str,
        salt: Vec<u8>,
        iteration_count: u32,
    ) -> (Vec<u8>, Credential) {
        let salted = self.salted(password.as_bytes(), &salt, iteration_count);
        let client_key = self.hmac(&salted, b"Client Key");
        let credential = Credential {
            iteration_count,
            salt,
            stored_key: self.hash(&client_key),
            server_key: self.hmac(&salted, b"Server Key"),
        };
        (client_key, credential)
    }

    /// Returns true if `proof` proves knowledge of the password. Takes the same time for right and wrong
    /// proofs.
    pub(crate) fn verify(self, credential: &Credential, message: &[u8], proof: &[u8]) -> bool {
        let signature = self.hmac(&credential.stored_key, message);
        if proof.len() != signature.len() {
            return false;
        }
        let client_key: Vec<u8> = signature.iter().zip(proof).map(|(a, b)| a ^ b).collect();
        equal(&self.hash(&client_key), &credential.stored_key)
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8]) -> M {
    <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of every length")
}

/// PBKDF2 with one block of output: `U1 XOR U2 XOR ...`.
fn pbkdf2<M: Mac + KeyInit + Clone>(password: &[u8], salt: &[u8], iteration_count: u32) -> Vec<u8> {
    let keyed: M = mac(password);
    let mut u = keyed.clone().chain_update(salt).chain_update([0, 0, 0, 1]).finalize().into_bytes();
    let mut out = u.to_vec();
    for _ in 1..iteration_count {
        u = keyed.clone().chain_update(&u).finalize().into_bytes();
        out.iter_mut().zip(&u).for_each(|(sum, byte)| *sum ^= byte);
    }
    out
}

/// The digest to which drivers hash a password for SCRAM-SHA-1.
pub(crate) fn md5_digest(user: &str, password: &str) -> String {
    let hash = Md5::digest(format!("{user}:mongo:{password}").as_bytes());
    nagi_bson::text::Hex(&hash).to_string()
}

/// Compares in constant time: the duration does not reveal the position of a difference.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b)));
    a.len() == b.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use nagi_bson::json::{base64_decode, base64_encode};

    use super::*;

    /// A proof as a client computes it.
    fn proof(
        mechanism: Mechanism,
        password: &str,
        credential: &Credential,
        message: &str,
    ) -> Vec<u8> {
        let salted =
            mechanism.salted(password.as_bytes(), &credential.salt, credential.iteration_count);
        let client_key = mechanism.hmac(&salted, b"Client Key");
        let signature = mechanism.hmac(&mechanism.hash(&client_key), message.as_bytes());
        client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect()
    }

    fn base64(bytes: &[u8]) -> String {
        let mut text = String::new();
        base64_encode(&mut text, bytes);
        text
    }

    #[test]
    fn rfc_5802_example() {
        let salt = base64_decode("QSXCR+Q6sek8bf92").unwrap();
        let credential = Mechanism::Sha1.derive("pencil", salt, 4096);
        let message = "n=user,r=fyko+d2lbbFgONRv9qkxdawL,\
                       r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096,\
                       c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j";
        let given = base64_decode("v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=").unwrap();
        assert_eq!(proof(Mechanism::Sha1, "pencil", &credential, message), given);
        assert!(Mechanism::Sha1.verify(&credential, message.as_bytes(), &given));
        let signature = Mechanism::Sha1.hmac(&credential.server_key, message.as_bytes());
        assert_eq!(base64(&signature), "rmF9pqV8S7suAoZWja4dJRkFsKQ=");
    }

    #[test]
    fn rfc_7677_example() {
        let salt = base64_decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let credential = Mechanism::Sha256.derive("pencil", salt, 4096);
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                       r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                       c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let given = base64_decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        assert!(Mechanism::Sha256.verify(&credential, message.as_bytes(), &given));
        let signature = Mechanism::Sha256.hmac(&credential.server_key, message.as_bytes());
        assert_eq!(base64(&signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn refuses_other_proofs() {
        let credential = Mechanism::Sha256.derive("right", vec![1; 28], 10);
        let wrong = proof(Mechanism::Sha256, "wrong", &credential, "m");
        assert!(!Mechanism::Sha256.verify(&credential, b"m", &wrong));
        assert!(!Mechanism::Sha256.verify(&credential, b"m", &wrong[1..]));
        assert!(!Mechanism::Sha256.verify(&credential, b"m", &[]));
    }

    #[test]
    fn prepares_passwords() {
        let prepared = |mechanism: Mechanism, text| mechanism.prepare("u", text, false);
        // SASLprep maps a non-breaking space to a space, removes a soft hyphen, and refuses a control
        // character.
        assert_eq!(prepared(Mechanism::Sha256, "a\u{a0}b\u{ad}c").unwrap(), "a bc");
        assert!(prepared(Mechanism::Sha256, "a\u{7}").is_err());
        let digest = prepared(Mechanism::Sha1, "pencil").unwrap();
        assert_eq!(digest, md5_digest("u", "pencil"));
        assert_eq!(digest.len(), 32);
        assert_eq!(md5_digest("user", "pencil"), "1c33006ec1ffd90f9cadcbcc0e118200");
    }
}
