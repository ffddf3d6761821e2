//! Index keys in memory: a piece that is filled, sorted once, then read in order.
//!
//! A piece is small, so that sorting it takes milliseconds and whoever builds can be interrupted; all
//! pieces together are put in order by the merge. Keys compare by their first eight bytes, which lie
//! beside each other, and by the rest only where those are equal.

use std::cmp::Ordering;

use crate::RecordKey;

/// Keys with their type bits; sorted once it is full.
#[derive(Default)]
pub(super) struct Segment {
    /// Key, then length of the bits (4 bytes), then the bits.
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    prefix: u64,
    start: u32,
    key_len: u32,
}

/// The first eight bytes of a key as a number that orders as they do.
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

/// Keys in order, the first eight bytes of both known.
pub(super) fn compare(a: (u64, &[u8]), b: (u64, &[u8])) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1))
}

impl Segment {
    /// Whether an entry of so many bytes may be added to a piece of `bytes_max`. One that is larger than
    /// any piece has one of its own.
    pub(super) fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.entries.is_empty() || self.used() + bytes + ENTRY_BYTES <= bytes_max
    }

    fn used(&self) -> usize {
        self.arena.len() + self.entries.len() * size_of::<Entry>()
    }

    /// Adds `key` followed by the record key, and the bits.
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

    /// Puts the entries in order, and gives back what was taken in reserve.
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

    /// Memory held.
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

/// What an entry takes beside its key and bits.
const ENTRY_BYTES: usize = size_of::<Entry>() + 12;
