//! A cursor over a table: copies a run of entries per lock, then steps through it.
//!
//! Entries are two shared pointers each, so a run is cheap. Runs grow from 1 to 64 entries, so a seek for one key
//! copies one. The owner of the cursor keeps a ticket, so that the versions are not removed.

use std::{ops::Bound, sync::Arc};

use super::{Bytes, Table, Versions};
use crate::Space;

const RUN_ENTRIES_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

/// A position in a key range of a table, as of a stamp. If the table keeps deleted keys, the cursor yields them as
/// keys without a value.
pub struct Scan<T> {
    table: T,
    stamp: u64,
    space: Space,
    start: Vec<u8>,
    end: Vec<u8>,
    run: Vec<(Bytes, Option<Bytes>)>,
    index: usize,
    run_entries: usize,
    direction: Direction,
}

impl<T: AsRef<Table>> Scan<T> {
    /// A cursor over `[start, end)`, not positioned yet.
    pub fn new(table: T, stamp: u64, space: Space, start: &[u8], end: &[u8]) -> Scan<T> {
        Scan {
            table,
            stamp,
            space,
            start: start.to_vec(),
            end: end.to_vec(),
            run: Vec::new(),
            index: 0,
            run_entries: 1,
            direction: Direction::Forward,
        }
    }

    /// Copies a run of entries within the bounds, as of this cursor's stamp.
    fn fill(&mut self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        self.run.clear();
        self.index = 0;
        if let (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high)) = (lower, upper)
            && low >= high
        {
            return false;
        }
        let table = self.table.as_ref();
        if table.is_empty(self.space) {
            return false;
        }
        let map = table.spaces[self.space.table() as usize].map.read();
        let range = map.range::<[u8], _>((lower, upper));
        let (stamp, shows_deleted) = (self.stamp, table.keeps_deleted);
        let visible = |(key, versions): (&Bytes, &Versions)| {
            let value = versions.at(stamp)?;
            (value.is_some() || shows_deleted).then(|| (Arc::clone(key), value.clone()))
        };
        match self.direction {
            Direction::Forward => self.run.extend(range.filter_map(visible).take(self.run_entries)),
            Direction::Back => {
                self.run.extend(range.rev().filter_map(visible).take(self.run_entries))
            }
        }
        self.run_entries = (self.run_entries * 4).min(RUN_ENTRIES_MAX);
        !self.run.is_empty()
    }

    fn fill_forward(&mut self, key: &[u8], after: bool) -> bool {
        self.direction = Direction::Forward;
        let (start, end) = (std::mem::take(&mut self.start), std::mem::take(&mut self.end));
        let lower = match after {
            _ if key < start.as_slice() => Bound::Included(start.as_slice()),
            true => Bound::Excluded(key),
            false => Bound::Included(key),
        };
        let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end.as_slice()) };
        let found = self.fill(lower, upper);
        (self.start, self.end) = (start, end);
        found
    }

    fn fill_back(&mut self, key: &[u8]) -> bool {
        self.direction = Direction::Back;
        let (start, end) = (std::mem::take(&mut self.start), std::mem::take(&mut self.end));
        let beyond = key.is_empty() || (!end.is_empty() && key > end.as_slice());
        let upper = match beyond {
            true if end.is_empty() => Bound::Unbounded,
            true => Bound::Excluded(end.as_slice()),
            false => Bound::Excluded(key),
        };
        let found = self.fill(Bound::Included(start.as_slice()), upper);
        (self.start, self.end) = (start, end);
        found
    }

    fn step(&mut self, direction: Direction) -> bool {
        if self.run.is_empty() {
            return false;
        }
        if direction == self.direction && self.index + 1 < self.run.len() {
            self.index += 1;
            return true;
        }
        if direction != self.direction {
            self.run_entries = 1;
        }
        let key = Arc::clone(&self.run[self.index].0);
        match direction {
            Direction::Forward => self.fill_forward(&key, true),
            Direction::Back => self.fill_back(&key),
        }
    }
}

impl<T: AsRef<Table>> Scan<T> {
    /// Moves to the first key that is `key` or greater.
    pub fn seek(&mut self, key: &[u8]) -> bool {
        self.run_entries = 1;
        self.fill_forward(key, false)
    }

    /// Moves to the last key that is less than `key` (with an empty `key`, to the last of all).
    pub fn seek_back(&mut self, key: &[u8]) -> bool {
        self.run_entries = 1;
        self.fill_back(key)
    }

    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends its entries, so it is not an iterator"
    )]
    pub fn next(&mut self) -> bool {
        self.step(Direction::Forward)
    }

    pub fn prev(&mut self) -> bool {
        self.step(Direction::Back)
    }

    /// The current key; empty if the cursor has no position.
    pub fn key(&self) -> &[u8] {
        self.run.get(self.index).map_or(&[], |entry| &entry.0)
    }

    /// The current value; none if the key was deleted or the cursor has no position.
    pub fn value(&self) -> Option<&[u8]> {
        self.run.get(self.index)?.1.as_deref()
    }
}
