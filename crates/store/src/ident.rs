//! Idents and the storage keys made of them.
//!
//! Every collection and every index has an ident, a number that is never used again. All keys of
//! one ident lie together, so that dropping it is dropping one range.
//!
//!   Records    ident (4 bytes, big-endian) | record key: a number (8 bytes, big-endian, sign bit flipped) or the
//!              key string of `_id`
//!   Index      ident | key string [| record key]         record key in the key unless unique
//!   Counters   ident                                     of the collection
//!   Catalog    kind (1 byte) | ident
//!
//! See docs/format.md.

/// A key prefix; assigned once, ascending, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Ident(pub(crate) u32);

/// What a key of `Space::Catalog` begins with.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum CatalogKey {
    /// Format version; one key.
    Format = 1,
    /// A collection's document; by the collection's ident.
    Collection = 2,
    /// Multikey paths of an index; by the index's ident.
    Multikey = 3,
    /// The next ident to assign; one key.
    NextIdent = 4,
    /// An ident whose range is still to be dropped; the value is the space's number.
    Dropped = 5,
    /// No commit has a stamp beyond this one, in little-endian; one key.
    StampLimit = 6,
}

impl Ident {
    /// Below it, in `Space::Records`, lie the records of sessions.
    pub(crate) const SESSIONS: Ident = Ident(u32::MAX - 1);

    pub(crate) fn bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// The least key after all keys of this ident.
    pub(crate) fn end(self) -> [u8; 4] {
        (self.0 + 1).to_be_bytes()
    }

    /// The key of a record that lies under a number.
    pub(crate) fn record_key(self, number: i64) -> [u8; 12] {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&self.bytes());
        key[4..].copy_from_slice(&number_bytes(number));
        key
    }

    pub(crate) fn catalog_key(self, kind: CatalogKey) -> [u8; 5] {
        let [a, b, c, d] = self.bytes();
        [kind as u8, a, b, c, d]
    }
}

/// Eight bytes that order as the number does.
pub(crate) fn number_bytes(number: i64) -> [u8; 8] {
    ((number as u64) ^ (1 << 63)).to_be_bytes()
}

pub(crate) fn number_of(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}
