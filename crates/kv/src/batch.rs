//! Entries that a cursor hands over together: see `Cursor::next_batch`.
//!
//! Keys and values are copied one after the other into one buffer, which keeps its memory from batch to batch.

use crate::{Cursor, Result};

/// Entries in the order in which a cursor met them.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where the key and where the value of each entry ends; a key begins where the value before it ends.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    /// Forgets the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Copies one more entry.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Whether a batch within these limits may take one more entry of so many bytes. The first one always fits.
    pub fn takes(&self, entry_bytes: usize, max_entries: usize, max_bytes: usize) -> bool {
        let fits = self.bytes.len().saturating_add(entry_bytes) <= max_bytes;
        self.is_empty() || (self.len() < max_entries && fits)
    }

    /// What `Cursor::next_batch` (`forward`) and `prev_batch` do, step by step.
    pub(crate) fn fill<C: Cursor + ?Sized>(
        &mut self,
        cursor: &mut C,
        forward: bool,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<bool> {
        self.clear();
        loop {
            let (key, value) = (cursor.key(), cursor.value());
            if key.is_empty() || !self.takes(key.len() + value.len(), max_entries, max_bytes) {
                return Ok(!key.is_empty());
            }
            self.push(key, value);
            let found = if forward { cursor.next()? } else { cursor.prev()? };
            if !found {
                return Ok(false);
            }
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Key and value of one entry.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let (key_end, end) = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        Some((&self.bytes[start..key_end], &self.bytes[key_end..end]))
    }

    /// All entries, keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}
