//! The private key in a PEM file: RSA, ECDSA or Ed25519, plain or encrypted.

use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use zeroize::Zeroizing;

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
