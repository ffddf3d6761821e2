//! A set of records. Numbers take eight bytes each; a key is copied once, when it is inserted.

use std::collections::HashSet;

use nagi_store::RecordKey;

/// Approximate memory of a number, and of a key in addition to its bytes.
const NUMBER_BYTES: usize = 16;
const KEY_BYTES: usize = 40;

type Set<T> = HashSet<T, foldhash::fast::RandomState>;

/// Records that were returned or examined already.
#[derive(Default)]
pub(crate) struct Seen {
    numbers: Set<i64>,
    keys: Set<Box<[u8]>>,
    key_bytes: usize,
}

impl Seen {
    /// Returns true if the record was not in the set.
    pub(crate) fn insert(&mut self, record: RecordKey<'_>) -> bool {
        match record {
            RecordKey::Id(number) => self.numbers.insert(number),
            RecordKey::Key(key) if self.keys.contains(key) => false,
            RecordKey::Key(key) => {
                self.key_bytes += key.len();
                self.keys.insert(key.into())
            }
        }
    }

    pub(crate) fn contains(&self, record: RecordKey<'_>) -> bool {
        match record {
            RecordKey::Id(number) => self.numbers.contains(&number),
            RecordKey::Key(key) => self.keys.contains(key),
        }
    }

    pub(crate) fn remove(&mut self, record: RecordKey<'_>) {
        match record {
            RecordKey::Id(number) => drop(self.numbers.remove(&number)),
            RecordKey::Key(key) => {
                if self.keys.remove(key) {
                    self.key_bytes -= key.len();
                }
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.keys.clear();
        self.key_bytes = 0;
    }

    /// Approximate memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.numbers.len() * NUMBER_BYTES + self.keys.len() * KEY_BYTES + self.key_bytes
    }
}
