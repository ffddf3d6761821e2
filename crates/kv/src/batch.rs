//! Entries that a cursor hands over together: see `Cursor::next_batch`.
//!
//! Keys and values are copied one after the other into one buffer, which keeps its memory from batch to batch.

/// Entries in the order of the cursor.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The end of each entry's key and value; a key begins at the end of the previous value.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    /// Removes the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a copy of an entry.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Returns true if a batch with these limits may take one more entry of `entry_bytes` bytes. The first entry
    /// always fits.
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
