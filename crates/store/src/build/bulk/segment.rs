//! Index keys in memory: a segment is filled, sorted once, and then read in order.
//!
//! A segment is small, so sorting it takes milliseconds and the build can be interrupted. The merge orders all
//! segments together. Keys are compared by their first eight bytes, which are stored next to each other, and by the
//! rest only if these are equal.

use std::cmp::Ordering;

use crate::RecordKey;

/// Keys with their type bits; sorted once it is full.
#[derive(Default)]
pub(super) struct Segment {
    /// For each entry: key, length of the type bits (4 bytes), type bits.
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    prefix: u64,
    start: u32,
    key_len: u32,
}

/// The first eight bytes of a key as a number with the same order.
pub(super) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Compares keys whose first eight bytes are given as numbers.
pub(super) fn compare(a: (u64, &[u8]), b: (u64, &[u8])) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1))
}

impl Segment {
    /// Returns true if an entry of `bytes` fits into a segment of `bytes_max`. An entry larger than any segment
    /// gets a segment of its own.
    pub(super) fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.entries.is_empty() || self.used() + bytes + ENTRY_BYTES <= bytes_max
    }

    fn used(&self) -> usize {
        self.arena.len() + self.entries.len() * size_of::<Entry>()
    }

    /// Appends `key` followed by the record key, and the type bits.
    pub(super) fn push(&mut self, key: &[u8], record: RecordKey<'_>, bits: &[u8]) {
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        record.append_tail(&mut self.arena);
        let key_len = self.arena.len() - start;
        self.arena.extend_from_slice(&(bits.len() as u32).to_le_bytes());
        self.arena.extend_from_slice(bits);
        let prefix = prefix(&self.arena[start..]);
        self.entries.push(Entry { prefix, start: start as u32, key_len: key_len as u32 });
    }

    /// Sorts the entries and releases spare capacity.
    pub(super) fn sort(&mut self) {
        let arena = &self.arena;
        let key = |entry: &Entry| &arena[entry.start as usize..][..entry.key_len as usize];
        self.entries.sort_unstable_by(|a, b| compare((a.prefix, key(a)), (b.prefix, key(b))));
        self.arena.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.arena.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// The first eight bytes of an entry's key.
    pub(super) fn prefix(&self, at: usize) -> u64 {
        self.entries[at].prefix
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        &self.arena[entry.start as usize..][..entry.key_len as usize]
    }

    pub(super) fn bits(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        let rest = &self.arena[entry.start as usize + entry.key_len as usize..];
        let (len, rest) = rest.split_first_chunk::<4>().expect("written by `push`");
        &rest[..u32::from_le_bytes(*len) as usize]
    }
}

/// Memory of an entry in addition to its key and bits.
const ENTRY_BYTES: usize = size_of::<Entry>() + 12;
