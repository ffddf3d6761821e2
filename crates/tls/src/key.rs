//! The private key in a PEM file: RSA, ECDSA or Ed25519, plain or encrypted.

use std::fmt::Display;

use der::asn1::{ObjectIdentifier, UintRef};
use der::{Decode, Reader, SliceReader};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use x509_cert::spki::SubjectPublicKeyInfoOwned;
use zeroize::Zeroizing;

use crate::certificate::Facts;
use crate::pem::Section;
use crate::traditional;

/// The key of the first section that has one; `None` if there is none.
///
/// # Errors
/// If the key is encrypted and the password is missing or wrong.
pub(crate) fn find(
    sections: &[Section],
    password: Option<&str>,
) -> Result<Option<PrivateKeyDer<'static>>, String> {
    for section in sections {
        let key = match section.label.as_str() {
            "PRIVATE KEY" => pkcs8(section.bytes.to_vec()),
            "RSA PRIVATE KEY" => {
                PrivatePkcs1KeyDer::from(plain(section, password)?.to_vec()).into()
            }
            "EC PRIVATE KEY" => PrivateSec1KeyDer::from(plain(section, password)?.to_vec()).into(),
            "ENCRYPTED PRIVATE KEY" => pkcs8(decrypted(section, password)?),
            _ => continue,
        };
        return Ok(Some(key));
    }
    Ok(None)
}

/// Why a key is not supported, by the public key in the certificate that it belongs to: the library's text has neither
/// the size nor the curve.
pub(crate) fn unusable(facts: &Facts, error: &dyn Display) -> String {
    let Ok(public) = SubjectPublicKeyInfoOwned::from_der(&facts.public_key) else {
        return error.to_string();
    };
    let parameters = public.algorithm.parameters.as_ref();
    let curve = parameters.and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
    match (public.algorithm.oid, curve) {
        (RSA, _) => match rsa_bits(public.subject_public_key.raw_bytes()) {
            Some(bits) if !(2048..=8192).contains(&bits) => {
                format!("it is an RSA key of {bits} bits, and must have 2048 to 8192")
            }
            _ => error.to_string(),
        },
        (EC, Some(curve)) if ![P256, P384].contains(&curve) => {
            let name = if curve == P521 { "P-521".to_owned() } else { curve.to_string() };
            format!("it is an ECDSA key of the curve {name}, and must be of P-256 or P-384")
        }
        _ => error.to_string(),
    }
}

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

/// The size of the modulus in `RSAPublicKey`.
fn rsa_bits(der: &[u8]) -> Option<usize> {
    let mut reader = SliceReader::new(der).ok()?;
    let bits = reader.sequence(|key| {
        let modulus: UintRef<'_> = key.decode()?;
        let _: UintRef<'_> = key.decode()?;
        let bytes = modulus.as_bytes();
        let unused = bytes.first().map_or(0, |first| first.leading_zeros() as usize);
        Ok::<_, der::Error>(bytes.len() * 8 - unused)
    });
    bits.ok()
}

fn pkcs8(bytes: Vec<u8>) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(bytes).into()
}

/// The content of a section that may be encrypted in the old format.
fn plain(section: &Section, password: Option<&str>) -> Result<Zeroizing<Vec<u8>>, String> {
    match section.header("Proc-Type") {
        Some(kind) if kind.ends_with("ENCRYPTED") => {
            let password = password.ok_or_else(no_password)?;
            let bytes = traditional::decrypt(section, password)?;
            // A key is one SEQUENCE; anything else is the result of a wrong password with a lucky padding.
            match bytes.first() {
                Some(0x30) => Ok(bytes),
                _ => Err("the password is wrong".to_owned()),
            }
        }
        _ => Ok(section.bytes.clone()),
    }
}

fn decrypted(section: &Section, password: Option<&str>) -> Result<Vec<u8>, String> {
    let password = password.ok_or_else(no_password)?;
    let info = EncryptedPrivateKeyInfoRef::try_from(&section.bytes[..])
        .map_err(|error| format!("the encrypted key cannot be read: {error}"))?;
    let key = info.decrypt(password).map_err(|error| {
        format!("the password is wrong, or the key's encryption is not supported: {error}")
    })?;
    Ok(key.as_bytes().to_vec())
}

fn no_password() -> String {
    "the key is encrypted, and no password is configured (net.tls.certificateKeyFilePassword, or \
     security.kmip.clientCertificatePassword)"
        .to_owned()
}
