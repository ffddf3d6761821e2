//! Entries that an index scan has looked up ahead, with the work that found them.

use nagi_store::{IndexCursor, RecordId};

use super::SourceStats;

/// Work that is not counted yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) keys: u64,
    pub(super) seeks: u64,
    pub(super) dups: u64,
}

/// An entry that waits for its turn.
pub(super) struct Entry {
    pub(super) id: RecordId,
    /// Work to find it, including the entry itself.
    passed: Passed,
    /// Its key, followed by its type bits.
    start: u32,
    key_end: u32,
    end: u32,
}

/// Entries in the order of the scan.
#[derive(Default)]
pub(super) struct Queue {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// Position of the next entry; those before it had their turn.
    next: usize,
    /// True if the scan is positioned on the entry before `next`.
    is_on: bool,
    /// Work after the last entry.
    pub(super) passed: Passed,
    /// True if no entry follows the last one.
    pub(super) at_end: bool,
}

impl Queue {
    /// Appends the cursor's entry.
    pub(super) fn push(&mut self, cursor: &IndexCursor) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(cursor.key());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(cursor.type_bits());
        // Keys have at most some thousand bytes, and there are at most some hundred entries.
        self.entries.push(Entry {
            id: cursor.record_id().to_id(),
            passed: std::mem::take(&mut self.passed),
            start: start as u32,
            key_end: key_end as u32,
            end: self.bytes.len() as u32,
        });
    }

    /// Moves to the next entry and returns its work; none if all entries had their turn.
    pub(super) fn advance(&mut self) -> Option<Passed> {
        let entry = self.entries.get(self.next);
        self.is_on = entry.is_some();
        let passed = entry?.passed;
        self.next += 1;
        Some(passed)
    }

    /// The current entry of the scan, if it is from the queue.
    pub(super) fn current(&self) -> Option<&Entry> {
        self.is_on.then(|| self.next.checked_sub(1).and_then(|at| self.entries.get(at)))?
    }

    /// Key and type bits.
    pub(super) fn key(&self, entry: &Entry) -> (&[u8], &[u8]) {
        let [start, key_end, end] = [entry.start, entry.key_end, entry.end].map(|n| n as usize);
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }

    /// Returns true if all entries had their turn.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.entries.len()
    }

    /// The entries that still wait.
    pub(super) fn rest(&self) -> &[Entry] {
        &self.entries[self.next..]
    }

    /// Empties the queue after all entries had their turn.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.next = 0;
        self.is_on = false;
    }
}

impl SourceStats {
    /// Adds everything but the keys, which are counted one by one.
    pub(super) fn note(&mut self, passed: Passed) {
        self.seeks += passed.seeks;
        self.dups_dropped += passed.dups;
    }
}
