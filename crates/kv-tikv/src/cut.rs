//! Index keys that are longer than the store's limit: cut, with a hash at the end, and whole in their values.
//!
//! ```text
//!   key of up to 6 KiB      stored as it is
//!   longer, up to 64 KiB    the first 6 KiB - 31, then 32 bytes of SHA-256 of the whole key
//!                           head: mark 2, length (4 bytes) of the rest of the key, the rest, the value
//! ```
//!
//! Stored keys of cut ones are longer than all others by a byte, so both are apart. Their order is that of the hashes,
//! and cursors have to keep the order of whole keys. So all keys that agree in the first bytes and are longer than
//! these, cut or not, are a *group*, which a cursor reads whole and sorts.

use nagi_kv::{Error, Result, Space};
use sha2::{Digest as _, Sha256};

use crate::limits::{INLINE_BYTES_MAX, KEY_BYTES_MAX};

const HASH_BYTES: usize = 32;
/// Bytes of a cut key that are stored in order.
pub(crate) const KEPT_BYTES: usize = KEY_BYTES_MAX + 1 - HASH_BYTES;
/// The longest index key: that of the engines in one process.
const LONG_BYTES_MAX: usize = 64 << 10;
pub(crate) const MARK_CUT: u8 = 2;

/// True if the space may have cut keys.
pub(crate) fn is_cut_in(space: Space) -> bool {
    space == Space::Index
}

/// Tests the length of a key that is to be written with a value of so many bytes.
///
/// # Errors
/// `KeyTooLong`.
pub(crate) fn check(space: Space, key: &[u8], value_bytes: usize) -> Result<()> {
    let most = match is_cut_in(space) && key.len() > KEY_BYTES_MAX {
        // The rest of the key and the value are one head.
        true => LONG_BYTES_MAX.min(KEPT_BYTES + INLINE_BYTES_MAX - value_bytes),
        false => KEY_BYTES_MAX,
    };
    if key.len() > most { Err(Error::KeyTooLong(key.len(), most)) } else { Ok(()) }
}

/// Appends the stored form of a key.
pub(crate) fn append(space: Space, key: &[u8], into: &mut Vec<u8>) {
    if is_cut_in(space) && key.len() > KEY_BYTES_MAX {
        into.extend_from_slice(&key[..KEPT_BYTES]);
        into.extend_from_slice(&Sha256::digest(key));
    } else {
        into.extend_from_slice(key);
    }
}

/// The head of the value of a key if the key is cut.
pub(crate) fn new_head(space: Space, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    if !is_cut_in(space) || key.len() <= KEY_BYTES_MAX {
        return None;
    }
    let rest = &key[KEPT_BYTES..];
    Some([&[MARK_CUT][..], &(rest.len() as u32).to_be_bytes(), rest, value].concat())
}

/// The rest of the key and the value, from a head behind its mark.
pub(crate) fn split(head: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, both) = head.split_first_chunk()?;
    both.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// The whole key of an entry, from the end of its stored key and its head; none if it is not cut.
pub(crate) fn whole(stored: &[u8], head: &[u8]) -> Option<Vec<u8>> {
    let (mark, head) = head.split_first()?;
    let (rest, _) = split(head).filter(|_| *mark == MARK_CUT)?;
    Some([stored.get(..KEPT_BYTES)?, rest].concat())
}

/// Tests that a head is that of the key by which it was found.
///
/// # Errors
/// `Corrupt` if it is that of another key with the same hash.
pub(crate) fn check_found(space: Space, key: &[u8], head: &[u8]) -> Result<()> {
    let is_cut = is_cut_in(space) && key.len() > KEY_BYTES_MAX;
    if is_cut && whole(key, head).as_deref() != Some(key) {
        return Err(Error::Corrupt("a long index key in the store is another one".into()));
    }
    Ok(())
}

/// What all keys of a group begin with, if a key (stored or whole) is in one.
pub(crate) fn group(key: &[u8]) -> Option<&[u8]> {
    (key.len() > KEPT_BYTES).then(|| &key[..KEPT_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(key: &[u8]) -> Vec<u8> {
        let mut into = Vec::new();
        append(Space::Index, key, &mut into);
        into
    }

    #[test]
    fn long_keys_are_cut_and_come_back() {
        let fits = vec![7; KEY_BYTES_MAX];
        assert_eq!(stored(&fits), fits);
        assert_eq!(new_head(Space::Index, &fits, b"v"), None);
        for bytes in [KEY_BYTES_MAX + 1, 20_000, LONG_BYTES_MAX] {
            let mut long = vec![7; bytes];
            let (one, head) = (stored(&long), new_head(Space::Index, &long, b"v"));
            let head = head.expect("it is cut");
            assert_eq!(one.len(), KEY_BYTES_MAX + 1, "longer than those that are not cut");
            assert_eq!(whole(&one, &head).as_ref(), Some(&long));
            assert_eq!(split(&head[1..]).map(|(_, value)| value), Some(&b"v"[..]));
            assert!(check_found(Space::Index, &long, &head).is_ok());
            long[bytes - 1] = 8;
            assert_ne!(stored(&long), one);
            assert!(matches!(check_found(Space::Index, &long, &head), Err(Error::Corrupt(_))));
        }
    }

    #[test]
    fn lengths_are_limited_by_space_and_value() {
        let refused = |space, bytes, value| check(space, &vec![0; bytes], value).is_err();
        assert!(!refused(Space::Index, LONG_BYTES_MAX, 1000));
        assert!(refused(Space::Index, LONG_BYTES_MAX + 1, 0));
        assert!(refused(Space::Index, LONG_BYTES_MAX, 10_000), "key and value are one head");
        assert!(!refused(Space::Index, KEY_BYTES_MAX, INLINE_BYTES_MAX));
        assert!(!refused(Space::Records, KEY_BYTES_MAX, 0));
        assert!(refused(Space::Records, KEY_BYTES_MAX + 1, 0));
    }

    #[test]
    fn damaged_heads_have_no_key() {
        let stored = stored(&vec![7; 7000]);
        for head in [&[][..], &[MARK_CUT], &[MARK_CUT, 0, 0, 0, 9, 1], &[0, 0, 0, 0, 0]] {
            assert_eq!(whole(&stored, head), None, "{head:?}");
        }
        assert_eq!(whole(b"short", &[MARK_CUT, 0, 0, 0, 0]), None);
    }
}
