//! Sorted runs on disk, merged while they are read: what sort and group share when memory is full.

use std::cmp::Ordering;

use nagi_error::Result;
use nagi_store::{Spill, SpillCursor};

/// The order of two entries' keys.
pub(crate) type KeyOrder<'o> = &'o dyn Fn(&[u8], &[u8]) -> Ordering;

/// Entries of all runs in the order of their keys; equal keys in the order of the runs.
pub(crate) struct Runs {
    heads: Vec<Head>,
    /// The run whose entry is current.
    current: Option<usize>,
    /// Kept so that the runs are not dropped.
    _spills: Vec<Spill>,
}

struct Head {
    cursor: SpillCursor,
    done: bool,
}

impl Runs {
    /// Opens every run; no entry is current yet.
    pub(crate) fn open(spill: Spill) -> Result<Runs> {
        Runs::open_all(vec![spill])
    }

    /// The same for the runs of several, one after the other.
    pub(crate) fn open_all(spills: Vec<Spill>) -> Result<Runs> {
        let mut heads = Vec::new();
        for (spill, run) in spills.iter().flat_map(|s| (0..s.run_count()).map(move |run| (s, run)))
        {
            let mut cursor = spill.read_run(run)?;
            let done = !cursor.advance()?;
            heads.push(Head { cursor, done });
        }
        Ok(Runs { heads, current: None, _spills: spills })
    }

    /// Goes to the next entry; false at the end. Linear in the number of runs.
    pub(crate) fn advance(&mut self, order: KeyOrder<'_>) -> Result<bool> {
        if let Some(at) = self.current.take() {
            let head = &mut self.heads[at];
            head.done = !head.cursor.advance()?;
        }
        let mut best: Option<(usize, &[u8])> = None;
        for (at, head) in self.heads.iter().enumerate() {
            if head.done {
                continue;
            }
            let (key, _) = head.cursor.entry()?;
            if best.is_none_or(|(_, least)| order(key, least) == Ordering::Less) {
                best = Some((at, key));
            }
        }
        self.current = best.map(|(at, _)| at);
        Ok(self.current.is_some())
    }

    /// Key and value of the current entry.
    pub(crate) fn entry(&self) -> Result<(&[u8], &[u8])> {
        match self.current {
            Some(at) => self.heads[at].cursor.entry(),
            None => Ok((&[], &[])),
        }
    }
}
