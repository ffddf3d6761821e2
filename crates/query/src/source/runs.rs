//! Merges sorted runs on disk while they are read; shared by sort and group.
//!
//! The current entries of the runs form a heap, so an entry costs the logarithm of the number of runs. Each open
//! run takes a block of memory, so the number of runs merged at once is limited. If there are more, they are first
//! merged into fewer and longer runs.

use std::cmp::Ordering;

use nagi_error::Result;
use nagi_store::{Spill, SpillCursor};

use super::Cx;

/// The order of two entries' keys.
pub(crate) type KeyOrder<'o> = &'o dyn Fn(&[u8], &[u8]) -> Ordering;

/// Limit of runs that are read at once: with blocks of 64 KB, packed and unpacked, some 8 MB.
const AT_ONCE_MAX: usize = 64;

/// Limit of their blocks together, in bytes; large blocks reduce the number of runs.
const AT_ONCE_BYTES_MAX: usize = 16 << 20;

/// Minimum of runs read at once; with fewer, merging would not make progress.
const AT_ONCE_MIN: usize = 4;

/// Entries of all runs in the order of their keys; equal keys in the order of the runs.
pub(crate) struct Runs {
    heads: Vec<SpillCursor>,
    /// Heap of the runs with an entry left; the least entry is first.
    heap: Vec<u32>,
    begun: bool,
    /// Keeps the runs from being dropped.
    _spills: Vec<Spill>,
}

impl Runs {
    /// Opens every run; no entry is current yet.
    pub(crate) fn open(spill: Spill, order: KeyOrder<'_>, cx: &Cx<'_>) -> Result<Runs> {
        Runs::open_all(vec![spill], order, cx)
    }

    /// Opens the runs of several spills, one after the other.
    pub(crate) fn open_all(
        mut spills: Vec<Spill>,
        order: KeyOrder<'_>,
        cx: &Cx<'_>,
    ) -> Result<Runs> {
        let mut heads = cursors(&spills)?;
        while heads.len() > at_once(&heads) {
            let at_once = at_once(&heads);
            let mut longer = cx.store.spill();
            let mut rest = heads.into_iter();
            loop {
                let some: Vec<_> = rest.by_ref().take(at_once).collect();
                if some.is_empty() {
                    break;
                }
                let mut merged = Runs::of(some, Vec::new());
                longer.write_run(&mut |key, value| {
                    cx.pass()?;
                    if !merged.advance(order)? {
                        return Ok(false);
                    }
                    let (k, v) = merged.entry()?;
                    key.extend_from_slice(k);
                    value.extend_from_slice(v);
                    Ok(true)
                })?;
            }
            spills = vec![longer];
            heads = cursors(&spills)?;
        }
        Ok(Runs::of(heads, spills))
    }

    fn of(heads: Vec<SpillCursor>, spills: Vec<Spill>) -> Runs {
        Runs { heads, heap: Vec::new(), begun: false, _spills: spills }
    }

    /// Moves to the next entry. Returns false at the end.
    pub(crate) fn advance(&mut self, order: KeyOrder<'_>) -> Result<bool> {
        if !self.begun {
            self.begun = true;
            for (head, number) in self.heads.iter_mut().zip(0..) {
                if head.advance()? {
                    self.heap.push(number);
                }
            }
            for at in (0..self.heap.len() / 2).rev() {
                self.sift_down(at, order)?;
            }
        } else if let Some(first) = self.heap.first() {
            if !self.heads[*first as usize].advance()? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0, order)?;
        }
        Ok(!self.heap.is_empty())
    }

    /// Restores the heap order below a position.
    fn sift_down(&mut self, mut at: usize, order: KeyOrder<'_>) -> Result<()> {
        loop {
            let mut least = at;
            for child in [at * 2 + 1, at * 2 + 2] {
                if child < self.heap.len() && self.is_before(child, least, order)? {
                    least = child;
                }
            }
            if least == at {
                return Ok(());
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn is_before(&self, a: usize, b: usize, order: KeyOrder<'_>) -> Result<bool> {
        let (a, b) = (self.heap[a], self.heap[b]);
        let key = |run: u32| self.heads[run as usize].entry().map(|(key, _)| key);
        Ok(order(key(a)?, key(b)?).then(a.cmp(&b)).is_lt())
    }

    /// Key and value of the current entry.
    pub(crate) fn entry(&self) -> Result<(&[u8], &[u8])> {
        match self.heap.first() {
            Some(first) => self.heads[*first as usize].entry(),
            None => Ok((&[], &[])),
        }
    }
}

/// The number of runs to read at once.
fn at_once(heads: &[SpillCursor]) -> usize {
    let largest = heads.iter().map(SpillCursor::bytes_max).max().unwrap_or(0);
    (AT_ONCE_BYTES_MAX / largest.max(1)).clamp(AT_ONCE_MIN, AT_ONCE_MAX)
}

/// A cursor over each run.
fn cursors(spills: &[Spill]) -> Result<Vec<SpillCursor>> {
    let runs = spills.iter().flat_map(|spill| (0..spill.run_count()).map(move |run| (spill, run)));
    runs.map(|(spill, run)| spill.read_run(run)).collect()
}
