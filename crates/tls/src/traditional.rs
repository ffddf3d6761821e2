//! Private keys encrypted in the format of OpenSSL before PKCS#8: `Proc-Type: 4,ENCRYPTED` and `DEK-Info: cipher,iv`.
//!
//! The key is derived from the password and the first eight bytes of the initialization vector by repeated MD5.
//! Nothing authenticates the content: a wrong password is noticed by the padding, or by the parser of the key.

use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use md5::{Digest, Md5};
use zeroize::Zeroizing;

use crate::pem::Section;

const SALT_BYTES: usize = 8;

/// Decrypts a section, if it is encrypted.
///
/// # Errors
/// If the cipher is unknown or the password is wrong.
pub(crate) fn decrypt(section: &Section, password: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let info = section.header("DEK-Info").ok_or("the encrypted key has no header DEK-Info")?;
    let (cipher, iv) = info.split_once(',').unwrap_or((info, ""));
    let iv = hex(iv).filter(|iv| iv.len() >= SALT_BYTES).ok_or("DEK-Info has no valid vector")?;
    let salt = &iv[..SALT_BYTES];
    let plain = match cipher {
        "AES-128-CBC" => {
            open::<cbc::Decryptor<aes::Aes128>>(&key(password, salt, 16), &iv, section)
        }
        "AES-192-CBC" => {
            open::<cbc::Decryptor<aes::Aes192>>(&key(password, salt, 24), &iv, section)
        }
        "AES-256-CBC" => {
            open::<cbc::Decryptor<aes::Aes256>>(&key(password, salt, 32), &iv, section)
        }
        "DES-EDE3-CBC" => {
            open::<cbc::Decryptor<des::TdesEde3>>(&key(password, salt, 24), &iv, section)
        }
        other => {
            return Err(format!(
                "the key is encrypted with {other}, which is not supported; convert it: openssl pkcs8 -topk8"
            ));
        }
    };
    plain.ok_or_else(|| "the password is wrong".to_owned())
}

fn open<C: KeyIvInit + BlockModeDecrypt>(
    key: &[u8],
    iv: &[u8],
    section: &Section,
) -> Option<Zeroizing<Vec<u8>>> {
    let cipher = C::new_from_slices(key, iv).ok()?;
    let mut bytes = section.bytes.clone();
    let length = cipher.decrypt_padded::<Pkcs7>(&mut bytes).ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}

/// MD5 over the digest before, the password and the salt, until there are enough bytes.
fn key(password: &str, salt: &[u8], length: usize) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(Vec::with_capacity(2 * length));
    let mut last = Vec::new();
    while key.len() < length {
        let mut hash = Md5::new();
        hash.update(&last);
        hash.update(password.as_bytes());
        hash.update(salt);
        last = hash.finalize().to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(length);
    key
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits?;
    digits
        .len()
        .is_multiple_of(2)
        .then(|| digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect())
}
