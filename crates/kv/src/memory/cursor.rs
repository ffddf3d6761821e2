//! A cursor over the memory engine: copies a run of entries per lock, then walks it.
//!
//! Entries are two shared pointers each, so a run is cheap; runs grow from 1 to 64 entries, so that
//! a seek for one key copies one. The cursor holds a ticket, so its state stays readable.

use std::{ops::Bound, sync::Arc};

use super::{Core, Key};
use crate::{Cursor, Result, Space, active::Ticket};

const RUN_ENTRIES_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

pub(super) struct Scan {
    core: Arc<Core>,
    ticket: Ticket,
    space: Space,
    start: Vec<u8>,
    end: Vec<u8>,
    run: Vec<(Key, Key)>,
    index: usize,
    run_entries: usize,
    way: Way,
}

impl Scan {
    pub(super) fn new(
        core: &Arc<Core>,
        stamp: u64,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Scan {
        Scan {
            core: Arc::clone(core),
            ticket: core.ledger.active.enter_at(stamp),
            space,
            start: start.to_vec(),
            end: end.to_vec(),
            run: Vec::new(),
            index: 0,
            run_entries: 1,
            way: Way::Forward,
        }
    }

    /// Copies the run that lies within the bounds and reads at this cursor's stamp.
    fn fill(&mut self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
        self.run.clear();
        self.index = 0;
        if let (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high)) = (lower, upper)
            && low >= high
        {
            return false;
        }
        let map = self.core.spaces[self.space as usize].read();
        let stamp = self.ticket.stamp();
        let range = map.range::<[u8], _>((lower, upper));
        let visible = |(key, versions): (&Key, &super::Versions)| {
            versions.at(stamp).map(|value| (Arc::clone(key), Arc::clone(value)))
        };
        match self.way {
            Way::Forward => self.run.extend(range.filter_map(visible).take(self.run_entries)),
            Way::Back => self.run.extend(range.rev().filter_map(visible).take(self.run_entries)),
        }
        self.run_entries = (self.run_entries * 4).min(RUN_ENTRIES_MAX);
        !self.run.is_empty()
    }

    fn fill_forward(&mut self, key: &[u8], after: bool) -> bool {
        self.way = Way::Forward;
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
        self.way = Way::Back;
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

    fn step(&mut self, way: Way) -> bool {
        if self.run.is_empty() {
            return false;
        }
        if way == self.way && self.index + 1 < self.run.len() {
            self.index += 1;
            return true;
        }
        if way != self.way {
            self.run_entries = 1;
        }
        let key = Arc::clone(&self.run[self.index].0);
        match way {
            Way::Forward => self.fill_forward(&key, true),
            Way::Back => self.fill_back(&key),
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.core.ledger.active.leave(&self.ticket);
    }
}

impl Cursor for Scan {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.run_entries = 1;
        Ok(self.fill_forward(key, false))
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<bool> {
        self.run_entries = 1;
        Ok(self.fill_back(key))
    }

    fn next(&mut self) -> Result<bool> {
        Ok(self.step(Way::Forward))
    }

    fn prev(&mut self) -> Result<bool> {
        Ok(self.step(Way::Back))
    }

    fn key(&self) -> &[u8] {
        self.run.get(self.index).map_or(&[], |entry| &entry.0)
    }

    fn value(&self) -> &[u8] {
        self.run.get(self.index).map_or(&[], |entry| &entry.1)
    }
}
