//! Wrapping of keys: AES-256-GCM with a random nonce and associated data.
//!
//! A key wraps at most some millions of others (a generation one for each file), far below the 2^32 after which random
//! nonces of 96 bits would become a risk.

use aes_gcm::{AeadInOut, Aes256Gcm, KeyInit, Nonce, Tag};
use zeroize::Zeroizing;

use crate::error::KeysError;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
pub(crate) const NONCE_BYTES: usize = 12;
pub(crate) const TAG_BYTES: usize = 16;

/// A key of 256 bits, zeroed when dropped.
pub(crate) type Secret = Zeroizing<[u8; KEY_BYTES]>;

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, KeysError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(&mut bytes[..]).map_err(|error| KeysError::Random(error.to_string()))?;
    Ok(bytes)
}

/// Encrypts `bytes` in place; returns the nonce, which is random, and the tag.
pub(crate) fn seal(
    key: &Secret,
    associated: &[u8],
    bytes: &mut [u8],
) -> Result<([u8; NONCE_BYTES], [u8; TAG_BYTES]), KeysError> {
    let nonce = *random::<NONCE_BYTES>()?;
    Ok((nonce, seal_with(key, nonce, associated, bytes)))
}

fn seal_with(
    key: &Secret,
    nonce: [u8; NONCE_BYTES],
    associated: &[u8],
    bytes: &mut [u8],
) -> [u8; TAG_BYTES] {
    let cipher = Aes256Gcm::new((&**key).into());
    let sealed = cipher.encrypt_inout_detached(&Nonce::from(nonce), associated, bytes.into());
    // The only error is a length above 2^36.
    sealed.map(Into::into).unwrap_or_default()
}

/// Decrypts `bytes` in place. False, and unchanged bytes, if anything differs from what was sealed.
pub(crate) fn unseal(
    key: &Secret,
    associated: &[u8],
    nonce: [u8; NONCE_BYTES],
    tag: [u8; TAG_BYTES],
    bytes: &mut [u8],
) -> bool {
    let cipher = Aes256Gcm::new((&**key).into());
    let (nonce, tag) = (Nonce::from(nonce), Tag::from(tag));
    cipher.decrypt_inout_detached(&nonce, associated, bytes.into(), &tag).is_ok()
}

/// The bytes of a vector in hexadecimal digits.
#[cfg(test)]
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().map(|c| (c as char).to_digit(16).expect("hex") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 16 of the specification of GCM (McGrew and Viega), which NIST SP 800-38D refers to.
    #[test]
    fn gcm_gives_the_published_result() {
        let key = Zeroizing::new(
            hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
                .try_into()
                .expect("32 bytes"),
        );
        let nonce = hex("cafebabefacedbaddecaf888").try_into().expect("12 bytes");
        let associated = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let plain = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
        let mut bytes = plain.clone();
        let tag = seal_with(&key, nonce, &associated, &mut bytes);
        assert_eq!(
            bytes,
            hex("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                 8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662")
        );
        assert_eq!(tag.to_vec(), hex("76fc6ece0f4e1768cddf8853bb2d551b"));
        assert!(unseal(&key, &associated, nonce, tag, &mut bytes) && bytes == plain);
        assert!(!unseal(&key, &associated[1..], nonce, tag, &mut bytes));
    }
}
