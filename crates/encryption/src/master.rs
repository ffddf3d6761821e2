//! The master key: what the operator gives, and what wraps the generations.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::cipher::FileCipher;
use crate::error::KeysError;
use crate::header::{self, HEADER_BYTES};
use crate::seal::Secret;

/// The allowed lengths of the decoded key. `openssl rand -base64 32` makes one of 32 bytes.
const BYTES: std::ops::RangeInclusive<usize> = 16..=32;
/// What the header of a file has as its generation if the master key wraps its key.
const MASTER_GENERATION: u64 = 0;
/// The length limit of a master key's name.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Why a text is no master key. It says nothing about the text but its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    /// It has a character that base64 has not, or is cut off.
    NotBase64,
    /// It decodes to this many bytes, which are too few or too many.
    Length(usize),
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::NotBase64 => f.write_str("the encryption key is not a base64 string"),
            TextError::Length(bytes) => write!(
                f,
                "the encryption key has {bytes} bytes, must be between {} and {} \
                 (openssl rand -base64 32 makes one)",
                BYTES.start(),
                BYTES.end()
            ),
        }
    }
}

/// The key that wraps all others. What the operator gives is never used itself: the key and its id are derived from
/// it, so that keys of all lengths are used alike, and the id tells nothing about the key.
pub struct MasterKey {
    wrapping: Secret,
    id: [u8; 16],
    name: String,
}

impl MasterKey {
    /// A key of 16 to 32 bytes. `name` is what a KMIP server calls it, else empty; more than 255 bytes are cut off.
    ///
    /// # Errors
    /// If it has another length.
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<MasterKey, TextError> {
        if !BYTES.contains(&bytes.len()) {
            return Err(TextError::Length(bytes.len()));
        }
        let end =
            (0..=name.len().min(NAME_BYTES_MAX)).rev().find(|end| name.is_char_boundary(*end));
        let mut id = derived(bytes, b"nagi encryption at rest: id of the master key");
        let short = header::part(&id[..], 0);
        id.zeroize();
        Ok(MasterKey {
            wrapping: derived(bytes, b"nagi encryption at rest: master key"),
            id: short,
            name: name[..end.unwrap_or_default()].to_owned(),
        })
    }

    /// A key in base64, white space around it and in it ignored, as in the files of `openssl rand -base64`.
    ///
    /// # Errors
    /// If it is not base64, or has another length than 16 to 32 bytes.
    pub fn from_base64(text: &str) -> Result<MasterKey, TextError> {
        MasterKey::from_bytes(&decode(text)?, "")
    }

    /// Its id in hexadecimal digits, to tell keys apart in messages and `serverStatus`.
    pub fn id(&self) -> String {
        hex(&self.id)
    }

    /// What a KMIP server calls it; else empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Another one like it. Not `Clone`: copies of a key are made on purpose.
    pub fn copy(&self) -> MasterKey {
        MasterKey { wrapping: self.wrapping.clone(), id: self.id, name: self.name.clone() }
    }

    /// Makes a data key for a file that belongs to no data directory, such as a part of an archive: the header, and
    /// the cipher of what follows. The master key itself wraps it.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn new_file(&self) -> Result<(Box<[u8; HEADER_BYTES]>, FileCipher), KeysError> {
        header::create(self.id, MASTER_GENERATION, &self.wrapping)
    }

    /// The cipher of such a file from its header. `Ok(None)`: another master key has wrapped it.
    ///
    /// # Errors
    /// If the header is damaged, or of a newer version.
    pub fn open_file(&self, header: &[u8]) -> Result<Option<FileCipher>, KeysError> {
        match header::check(self.id, header) {
            Ok(MASTER_GENERATION) => header::open(header, &self.wrapping).map(Some),
            Ok(number) => Err(KeysError::UnknownGeneration(number)),
            Err(KeysError::ForeignFile) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn id_bytes(&self) -> [u8; 16] {
        self.id
    }

    pub(crate) fn wrapping(&self) -> &Secret {
        &self.wrapping
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("id", &self.id()).finish_non_exhaustive()
    }
}

fn derived(bytes: &[u8], label: &[u8]) -> Secret {
    let mut mac = match Hmac::<Sha256>::new_from_slice(bytes) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    };
    mac.update(label);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes base64 with or without padding. Stops early at a text that is much too long.
fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, TextError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(64));
    let (mut bits, mut count, mut padding) = (0_u32, 0, 0);
    for c in text.bytes().filter(|c| !c.is_ascii_whitespace()) {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' if padding < 2 => {
                padding += 1;
                continue;
            }
            _ => return Err(TextError::NotBase64),
        };
        if padding > 0 {
            return Err(TextError::NotBase64);
        }
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            // A reallocation would leave a copy; what is longer is refused anyway.
            if bytes.len() == 64 {
                return Err(TextError::Length(text.len() / 4 * 3));
            }
            bytes.push((bits >> count) as u8);
        }
    }
    let whole = count < 6 && bits & ((1 << count) - 1) == 0;
    bits.zeroize();
    if whole { Ok(bytes) } else { Err(TextError::NotBase64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_base64() {
        assert_eq!(decode("TWFu\n").unwrap().as_slice(), b"Man");
        assert_eq!(decode("TWE=").unwrap().as_slice(), b"Ma");
        assert_eq!(decode("TQ==").unwrap().as_slice(), b"M");
        assert_eq!(decode("TQ").unwrap().as_slice(), b"M");
        for bad in ["T", "TR==", "T=Q", "TQ===", "TW!u", "TWFu-"] {
            assert_eq!(decode(bad).err(), Some(TextError::NotBase64), "{bad}");
        }
        let text = |bytes: usize| "AAAA".repeat(bytes / 3) + ["", "AA==", "AAA="][bytes % 3];
        for bytes in [0, 1, 15, 33, 48] {
            assert_eq!(MasterKey::from_base64(&text(bytes)).err(), Some(TextError::Length(bytes)));
        }
        for bytes in [16, 24, 32] {
            MasterKey::from_base64(&text(bytes)).expect("the length is allowed");
        }
        assert!(MasterKey::from_base64(&"A".repeat(1 << 16)).is_err());
    }

    #[test]
    fn files_of_an_archive_have_keys_of_their_own() {
        let key = |byte: u8| MasterKey::from_bytes(&[byte; 32], "").unwrap();
        let (header, cipher) = key(1).new_file().unwrap();
        let mut bytes = *b"an entry of the log";
        cipher.apply(0, &mut bytes);
        key(1).open_file(&header[..]).unwrap().expect("it is ours").apply(0, &mut bytes);
        assert_eq!(&bytes, b"an entry of the log");
        assert!(key(2).open_file(&header[..]).unwrap().is_none());
        let mut damaged = header.clone();
        damaged[60] ^= 1;
        assert!(
            key(1).open_file(&damaged[..]).is_err() && key(1).open_file(&header[..99]).is_err()
        );
        // No generation of a directory has this number.
        let keys = header::create(key(1).id, 1, &key(1).wrapping).unwrap().0;
        assert!(matches!(key(1).open_file(&keys[..]), Err(KeysError::UnknownGeneration(1))));
    }

    #[test]
    fn an_id_tells_keys_apart_and_not_what_they_are() {
        let key = |byte: u8| MasterKey::from_bytes(&[byte; 32], "key \u{e9}").unwrap();
        assert_eq!(key(1).id(), key(1).id());
        assert_ne!(key(1).id(), key(2).id());
        assert_ne!(key(1).id(), MasterKey::from_bytes(&[1; 31], "").unwrap().id());
        assert_eq!(key(1).name(), "key \u{e9}");
        let shown = format!("{:?}", key(1));
        assert!(shown.contains(&key(1).id()) && !shown.contains("wrapping"), "{shown}");
        let long = MasterKey::from_bytes(&[1; 32], &"\u{e9}".repeat(200)).unwrap();
        assert_eq!(long.name().len(), 254);
    }
}
