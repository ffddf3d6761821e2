//! What a transaction has read in advance, of its snapshot.

use std::collections::HashMap;

use nagi_kv::Space;

/// Bytes of keys and values; what goes beyond is read when it is needed.
const BYTES_MAX: usize = 4 << 20;
/// An entry has about so many beside its key and value.
const ENTRY_BYTES: usize = 80;

/// Values by their keys; none for a key without a value.
#[derive(Default)]
pub(crate) struct Fetched {
    values: HashMap<(Space, Vec<u8>), Option<Vec<u8>>>,
    bytes: usize,
}

impl Fetched {
    pub(crate) fn note(&mut self, space: Space, key: &[u8], value: Option<&[u8]>) {
        let bytes = ENTRY_BYTES + key.len() + value.map_or(0, <[u8]>::len);
        if self.bytes + bytes <= BYTES_MAX {
            self.bytes += bytes;
            self.values.insert((space, key.to_vec()), value.map(<[u8]>::to_vec));
        }
    }

    /// The value of a key, if it was fetched.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.values.is_empty() {
            return None;
        }
        self.values.get(&(space, key.to_vec())).map(Option::as_deref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded() {
        let mut fetched = Fetched::default();
        assert_eq!(fetched.get(Space::Index, b"k"), None);
        fetched.note(Space::Index, b"k", Some(b"v"));
        fetched.note(Space::Index, b"none", None);
        fetched.note(Space::Records, b"large", Some(&vec![7; 5 << 20]));
        for n in 0..100_000_u32 {
            fetched.note(Space::Records, &n.to_be_bytes(), Some(&[0; 100]));
        }
        assert!((10_000..30_000).contains(&fetched.values.len()), "{}", fetched.values.len());
        assert_eq!(fetched.get(Space::Index, b"k"), Some(Some(&b"v"[..])));
        assert_eq!(fetched.get(Space::Index, b"none"), Some(None));
        assert_eq!(fetched.get(Space::Records, b"k"), None);
        assert_eq!(fetched.get(Space::Records, b"large"), None);
    }
}
