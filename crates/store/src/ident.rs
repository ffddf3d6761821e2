//! Idents and the storage keys made of them.
//!
//! Every collection and every index has an ident, a number that is never reused. All keys of an ident are adjacent,
//! so dropping it is dropping one range.
//!
//!   Records    ident (4 bytes, big-endian) | record key: a number (8 bytes, big-endian, sign bit flipped) or the
//!              key string of `_id`
//!   Index      ident | key string [| record key]         record key in the key unless unique
//!   Counters   ident                                     of the collection; of changes without a log entry
//!   Catalog    kind (1 byte) | ident
//!
//! Over an engine to which several processes may write, counters have parts (`node/counters.rs`), and the keys of some
//! idents have a stripe behind the ident (`node/stripes.rs`). Such an ident says so itself:
//!
//!   bit 31: 1 | bits 30 to 28: stripes, as a power of two, minus 1 (0 to 4: 2 to 32) | the number that was assigned
//!
//! See docs/format.md.

/// A key prefix; assigned once, ascending, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Ident(pub(crate) u32);

/// Set in an ident whose keys have stripes.
const STRIPED: u32 = 1 << 31;
/// Where the number of stripes is in such an ident, and the number that was assigned below it.
const STRIPES_AT: u32 = 28;
/// Stripes at the most, as a power of two.
pub(crate) const STRIPES_POWER_MAX: u32 = 5;

/// The first byte of keys in `Space::Catalog`.
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
    /// An ident whose range is still to be dropped; the value is the number of its space.
    Dropped = 5,
    /// A limit that no commit stamp exceeds, little-endian; one key.
    StampLimit = 6,
    /// The first stamp of the change log, before which all was removed, little-endian; one key.
    LogFirst = 7,
    /// What is known of all buckets, one byte; by the ident of their collection.
    BucketFacts = 8,
    /// The node that owns the data, over an engine to which several processes may write; one key.
    Lease = 9,
    /// The next record number that no node has, little-endian, over such an engine; by the collection's ident.
    NextRecord = 10,
    /// A node that shares the data with others; by the number of its seat. This and the next ones: see `node/mod.rs`.
    Seat = 11,
    /// The version of the catalog, and what has changed lately; one key.
    Changes = 12,
    /// The node that changes the catalog at this moment; one key.
    CatalogLock = 13,
    /// The collections that no node may write to at this moment; one key.
    Intents = 14,
    /// How often the documents that servers have in memory were changed; one key.
    Settings = 15,
    /// How many questions nodes have asked each other; one key. This and the next ones: see `node/mail.rs`.
    Questions = 16,
    /// A question of a node to all others; by a number.
    Question = 17,
    /// The answer of one of them; by the question's number and that of its seat.
    Answer = 18,
}

impl Ident {
    /// No collection or index has this ident or a greater one.
    pub(crate) const END: u32 = u32::MAX - 1023;
    /// The ident of session records in `Space::Records`.
    pub(crate) const SESSIONS: Ident = Ident(u32::MAX - 1);
    /// The ident of the counter of changes that the log of a replica set does not have, in `Space::Counters`.
    pub(crate) const UNLOGGED: Ident = Ident(u32::MAX - 2);
    /// The ident of the fences of nodes, in `Space::Counters`: see `node/mod.rs`.
    pub(crate) const FENCES: Ident = Ident(u32::MAX - 3);

    /// The ident of the horizons of nodes, in `Space::Counters`: see `node/log_keys.rs`.
    pub(crate) const HORIZONS: Ident = Ident(u32::MAX - 4);

    /// Over an engine to which several processes may write, no number that is assigned is this or a greater one.
    pub(crate) const ASSIGNED_END: u32 = STRIPED;

    /// The ident of this number whose keys have stripes: `power` of two of them, 1 to `STRIPES_POWER_MAX`. None for a
    /// number that is too great.
    pub(crate) fn striped(self, power: u32) -> Option<Ident> {
        debug_assert!((1..=STRIPES_POWER_MAX).contains(&power));
        let fits = self.0 < 1 << STRIPES_AT;
        fits.then_some(Ident(STRIPED | (power - 1) << STRIPES_AT | self.0))
    }

    /// The stripes of its keys, as a power of two; 0 if they have none.
    pub(crate) fn stripes_power(self) -> u32 {
        match self.0 >> STRIPES_AT {
            high @ 8.. if high - 8 < STRIPES_POWER_MAX => high - 7,
            _ => 0,
        }
    }

    /// The number that was assigned for it.
    pub(crate) fn assigned(self) -> u32 {
        if self.stripes_power() > 0 { self.0 & ((1 << STRIPES_AT) - 1) } else { self.0 }
    }

    pub(crate) fn bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// The least key after all keys of this ident.
    pub(crate) fn end(self) -> [u8; 4] {
        (self.0 + 1).to_be_bytes()
    }

    /// The key of a record with a number.
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

/// Eight bytes with the order of the number.
pub(crate) fn number_bytes(number: i64) -> [u8; 8] {
    ((number as u64) ^ (1 << 63)).to_be_bytes()
}

pub(crate) fn number_of(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idents_tell_of_their_stripes() {
        for power in 1..=STRIPES_POWER_MAX {
            for number in [1, 77, (1 << STRIPES_AT) - 1] {
                let ident = Ident(number).striped(power).expect("it fits");
                assert_eq!((ident.stripes_power(), ident.assigned()), (power, number));
                assert!((Ident::ASSIGNED_END..Ident::END).contains(&ident.0));
                assert_eq!(Ident(number).stripes_power(), 0);
            }
        }
        assert_eq!(Ident(1 << STRIPES_AT).striped(4), None);
        let others = [Ident::SESSIONS, Ident::UNLOGGED, Ident::FENCES, Ident::HORIZONS];
        assert!(others.iter().all(|ident| ident.stripes_power() == 0));
        assert_eq!(Ident(Ident::ASSIGNED_END - 1).stripes_power(), 0);
    }
}
