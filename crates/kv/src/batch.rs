//! Entries that a cursor hands over together: see `Cursor::next_batch`.
//!
//! Keys and values are copied one after the other into one buffer, which keeps its memory from batch to batch.

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
