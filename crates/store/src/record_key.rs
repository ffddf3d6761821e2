//! Record keys: [`RecordKey`], borrowed, and [`RecordId`], owned.
//!
//!   most collections         a number, ascending in the order of insertion, from 1
//!   clustered collections    the key string of `_id`
//!
//! All records of a collection have the same kind of key ([`Layout`]). Numbers are copied and never allocate; hot
//! paths mostly handle numbers.
//!
//! If a record key is adjacent to other bytes, its length is stored so that it can be separated from them:
//!
//!   at the end (keys of index entries)       number: 8 bytes; key: the key, then its length
//!   in front (values of unique indexes)      number: 8 bytes; key: its length, then the key
//!
//! The length is one byte below `FF`; or four bytes, big-endian, with an `FF` on their outer side.

use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
};

use nagi_bson::{Binary, Value};

use crate::ident::{Ident, number_bytes, number_of};

/// The key of a record in its collection; borrowed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RecordKey<'a> {
    /// Its number.
    Id(i64),
    /// The key string of its `_id`.
    Key(&'a [u8]),
}

/// An owned record key. Cheap to clone if it is a number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RecordId {
    /// A number.
    Id(i64),
    /// The key string of an `_id`.
    Key(Box<[u8]>),
}

/// The kind of record keys of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Layout {
    #[default]
    Numbers,
    /// For a clustered collection: key strings of the ids.
    Ids,
    /// For the collection that shows the change log: stamps, as numbers.
    Stamps,
    /// For the collection that shows the pre-images in the change log: stamps and positions.
    PreImages,
}

/// A record's key in the engine. Inline for numbers and for usual ids.
#[derive(Clone, Debug)]
pub(crate) enum StorageKey {
    Number([u8; 12]),
    Short(u8, [u8; 30]),
    Long(Box<[u8]>),
}

/// Marks a length of four bytes, before or after them.
const LONG: u8 = 0xFF;

/// Limit of the bytes of a key that messages show.
const SHOWN_BYTES_MAX: usize = 64;

impl RecordKey<'_> {
    /// Copies it to an owned key.
    pub fn to_id(self) -> RecordId {
        match self {
            RecordKey::Id(number) => RecordId::Id(number),
            RecordKey::Key(key) => RecordId::Key(key.into()),
        }
    }

    /// The engine's key of the record.
    pub(crate) fn stored(self, ident: Ident) -> StorageKey {
        match self {
            RecordKey::Id(number) => StorageKey::Number(ident.record_key(number)),
            RecordKey::Key(key) => {
                let mut short = [0; 30];
                let len = 4 + key.len();
                match short.get_mut(..len) {
                    Some(place) => {
                        place[..4].copy_from_slice(&ident.bytes());
                        place[4..].copy_from_slice(key);
                        StorageKey::Short(len as u8, short)
                    }
                    None => StorageKey::Long([&ident.bytes(), key].concat().into()),
                }
            }
        }
    }

    /// Appends it to an index entry's key.
    pub(crate) fn append_tail(self, out: &mut Vec<u8>) {
        match self {
            RecordKey::Id(number) => out.extend_from_slice(&number_bytes(number)),
            RecordKey::Key(key) => {
                out.extend_from_slice(key);
                match u8::try_from(key.len()) {
                    Ok(len) if len < LONG => out.push(len),
                    _ => {
                        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
                        out.push(LONG);
                    }
                }
            }
        }
    }

    /// Appends it as the beginning of a value.
    pub(crate) fn append_head(self, out: &mut Vec<u8>) {
        match self {
            RecordKey::Id(number) => out.extend_from_slice(&number_bytes(number)),
            RecordKey::Key(key) => {
                match u8::try_from(key.len()) {
                    Ok(len) if len < LONG => out.push(len),
                    _ => {
                        out.push(LONG);
                        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
                    }
                }
                out.extend_from_slice(key);
            }
        }
    }
}

impl<'a> RecordKey<'a> {
    /// The value that `$recordId` shows.
    pub fn value(self) -> Value<'a> {
        match self {
            RecordKey::Id(number) => Value::Int64(number),
            RecordKey::Key(bytes) => Value::Binary(Binary { subtype: 0, bytes }),
        }
    }

    /// The number; none for a key.
    pub fn number(self) -> Option<i64> {
        match self {
            RecordKey::Id(number) => Some(number),
            RecordKey::Key(_) => None,
        }
    }

    /// Parses a value from [`RecordKey::value`]. Arbitrary bytes are like a key of a missing record.
    pub fn of_value(value: Value<'a>) -> Option<RecordKey<'a>> {
        match value {
            Value::Int64(number) => Some(RecordKey::Id(number)),
            Value::Binary(Binary { subtype: 0, bytes }) => Some(RecordKey::Key(bytes)),
            _ => None,
        }
    }
}

impl StorageKey {
    /// A copy of a key of the engine, of whatever kind.
    pub(crate) fn copied(key: &[u8]) -> StorageKey {
        let mut short = [0; 30];
        match short.get_mut(..key.len()) {
            Some(place) => {
                place.copy_from_slice(key);
                StorageKey::Short(key.len() as u8, short)
            }
            None => StorageKey::Long(key.into()),
        }
    }
}

impl RecordId {
    pub fn key(&self) -> RecordKey<'_> {
        match self {
            RecordId::Id(number) => RecordKey::Id(*number),
            RecordId::Key(key) => RecordKey::Key(key),
        }
    }

    /// Memory in addition to the value itself.
    pub fn heap_bytes(&self) -> usize {
        match self {
            RecordId::Id(_) => 0,
            RecordId::Key(key) => key.len(),
        }
    }
}

impl Hash for RecordKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All records of a set have the same kind of key, so the kind is not hashed.
        match self {
            RecordKey::Id(number) => state.write_i64(*number),
            RecordKey::Key(key) => state.write(key),
        }
    }
}

impl Hash for RecordId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq<RecordKey<'_>> for RecordId {
    fn eq(&self, other: &RecordKey<'_>) -> bool {
        self.key() == *other
    }
}

impl fmt::Display for RecordKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordKey::Id(number) => write!(f, "{number}"),
            RecordKey::Key(key) => {
                let shown = &key[..key.len().min(SHOWN_BYTES_MAX)];
                shown.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(if shown.len() < key.len() { "..." } else { "" })
            }
        }
    }
}

impl Layout {
    /// The record key in an engine's key.
    pub(crate) fn of_stored(self, key: &[u8]) -> RecordKey<'_> {
        match self {
            Layout::Numbers => number_at_end(key),
            Layout::Ids | Layout::PreImages => RecordKey::Key(key.get(4..).unwrap_or_default()),
            Layout::Stamps => {
                let stamp = key.first_chunk().map_or(0, |stamp| i64::from_be_bytes(*stamp));
                RecordKey::Id(stamp)
            }
        }
    }

    /// Splits bytes from [`RecordKey::append_tail`] and the bytes before them.
    pub(crate) fn split_tail(self, bytes: &[u8]) -> Option<(&[u8], RecordKey<'_>)> {
        if self != Layout::Ids {
            let (rest, number) = bytes.split_last_chunk()?;
            return Some((rest, RecordKey::Id(number_of(*number))));
        }
        let (last, rest) = bytes.split_last()?;
        let (len, rest) = match *last {
            LONG => {
                let (rest, len) = rest.split_last_chunk()?;
                (u32::from_be_bytes(*len) as usize, rest)
            }
            len => (usize::from(len), rest),
        };
        let (rest, key) = rest.split_at_checked(rest.len().checked_sub(len)?)?;
        Some((rest, RecordKey::Key(key)))
    }

    /// Splits bytes from [`RecordKey::append_head`] and the bytes after them.
    pub(crate) fn split_head(self, bytes: &[u8]) -> Option<(RecordKey<'_>, &[u8])> {
        if self != Layout::Ids {
            let (number, rest) = bytes.split_first_chunk()?;
            return Some((RecordKey::Id(number_of(*number)), rest));
        }
        let (first, rest) = bytes.split_first()?;
        let (len, rest) = match *first {
            LONG => {
                let (len, rest) = rest.split_first_chunk()?;
                (u32::from_be_bytes(*len) as usize, rest)
            }
            len => (usize::from(len), rest),
        };
        let (key, rest) = rest.split_at_checked(len)?;
        Some((RecordKey::Key(key), rest))
    }
}

impl Deref for StorageKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            StorageKey::Number(key) => key,
            StorageKey::Short(len, key) => &key[..usize::from(*len)],
            StorageKey::Long(key) => key,
        }
    }
}

fn number_at_end(key: &[u8]) -> RecordKey<'_> {
    RecordKey::Id(key.last_chunk().map_or(0, |bytes| number_of(*bytes)))
}

#[cfg(test)]
mod tests {
    use super::{Ident, Layout, RecordKey};

    #[test]
    fn ends_and_beginnings_are_split_again() {
        let keys: Vec<Vec<u8>> = [0, 1, 13, 254, 255, 256, 70_000].map(|n| vec![7; n]).into();
        let all = keys.iter().map(|key| (Layout::Ids, RecordKey::Key(key)));
        let numbers = [i64::MIN, -1, 0, 1, i64::MAX].map(|n| (Layout::Numbers, RecordKey::Id(n)));
        for (layout, key) in all.chain(numbers) {
            let mut bytes = b"before".to_vec();
            key.append_tail(&mut bytes);
            assert_eq!(layout.split_tail(&bytes), Some((&b"before"[..], key)));
            bytes.clear();
            key.append_head(&mut bytes);
            bytes.extend_from_slice(b"behind");
            assert_eq!(layout.split_head(&bytes), Some((key, &b"behind"[..])));
            assert_eq!(layout.of_stored(&key.stored(Ident(3))), key);
        }
    }

    #[test]
    fn messages_show_the_beginning_of_a_long_key() {
        assert_eq!(RecordKey::Id(-5).to_string(), "-5");
        assert_eq!(RecordKey::Key(&[1, 0xAB]).to_string(), "01ab");
        assert_eq!(RecordKey::Key(&[7; 5000]).to_string(), "07".repeat(64) + "...");
    }

    #[test]
    fn what_is_cut_off_is_no_key() {
        for bytes in [&b""[..], b"\x05abc", b"\xFF\0\0", b"\xFF\0\0\0\x09abc"] {
            assert_eq!(Layout::Ids.split_head(bytes), None);
            let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
            assert_eq!(Layout::Ids.split_tail(&reversed), None);
        }
        assert_eq!(Layout::Numbers.split_tail(b"short"), None);
    }
}
