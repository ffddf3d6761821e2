//! Entries that an index scan has looked up ahead, and what it looked at on its way to them.

use nagi_store::{IndexCursor, RecordId};

use super::SourceStats;

/// What was looked at and is not counted yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) keys: u64,
    pub(super) seeks: u64,
    pub(super) dups: u64,
}

/// An entry that waits for its turn.
pub(super) struct Entry {
    pub(super) id: RecordId,
    /// Looked at before it, and itself.
    passed: Passed,
    /// Its key, then its type bits.
    start: u32,
    key_end: u32,
    end: u32,
}

/// Entries in the order of the scan.
#[derive(Default)]
pub(super) struct Queue {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// Those before it had their turn.
    next: usize,
    /// Whether the scan stands on the entry before `next`.
    is_on: bool,
    /// Looked at behind the last entry.
    pub(super) passed: Passed,
    /// Nothing follows the last entry.
    pub(super) at_end: bool,
}

impl Queue {
    /// Adds the cursor's entry.
    pub(super) fn push(&mut self, cursor: &IndexCursor) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(cursor.key());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(cursor.type_bits());
        // Keys are some thousand bytes at most, and entries some hundred.
        self.entries.push(Entry {
            id: cursor.record_id().to_id(),
            passed: std::mem::take(&mut self.passed),
            start: start as u32,
            key_end: key_end as u32,
            end: self.bytes.len() as u32,
        });
    }

    /// Goes to the next entry: what was looked at for it. None if all had their turn.
    pub(super) fn advance(&mut self) -> Option<Passed> {
        let entry = self.entries.get(self.next);
        self.is_on = entry.is_some();
        let passed = entry?.passed;
        self.next += 1;
        Some(passed)
    }

    /// The entry that the scan stands on, if it comes from here.
    pub(super) fn current(&self) -> Option<&Entry> {
        self.is_on.then(|| self.next.checked_sub(1).and_then(|at| self.entries.get(at)))?
    }

    /// Key and type bits.
    pub(super) fn key(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let [start, key_end, end] = [entry.start, entry.key_end, entry.end].map(|n| n as usize);
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }

    /// Whether all had their turn.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.entries.len()
    }

    /// Those that wait.
    pub(super) fn rest(&self) -> &[Entry] {
        &self.entries[self.next..]
    }

    /// Makes room for the next ones; all had their turn.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.next = 0;
        self.is_on = false;
    }
}

impl SourceStats {
    /// Counts all of it but the keys, which count one by one.
    pub(super) fn note(&mut self, passed: Passed) {
        self.seeks += passed.seeks;
        self.dups_dropped += passed.dups;
    }
}
