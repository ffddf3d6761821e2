//! `$percentile` and `$median` over a moving window: the numbers in sorted order, divided into chunks.
//!
//! Insertion and removal cost a binary search over the chunks and a move inside of one chunk. Access by rank scans
//! the chunks.

use std::collections::VecDeque;

use nagi_bson::{Value, ValueSlot, number};
use nagi_error::Result;

use super::WindowState;
use crate::accum::{Shares, countable, position};

/// The maximal number of values in a chunk; a larger chunk is split.
const CHUNK_MAX: usize = 512;

/// The numbers of a moving window, in sorted order.
pub(crate) struct SortedNumbers {
    shares: Shares,
    /// The chunks. Each is sorted and not empty, and its numbers are not greater than those of the next chunk.
    chunks: Vec<Vec<f64>>,
    count: usize,
    /// The values in the order in which they were added; none for a value that is not a number.
    queue: VecDeque<Option<f64>>,
}

impl SortedNumbers {
    pub(crate) fn new(shares: Shares) -> SortedNumbers {
        SortedNumbers { shares, chunks: Vec::new(), count: 0, queue: VecDeque::new() }
    }

    /// The index of the chunk for `n`; 0 if there are no chunks.
    fn chunk_of(&self, n: f64) -> usize {
        let below = |chunk: &Vec<f64>| {
            chunk.last().is_some_and(|last| number::compare_f64(*last, n).is_lt())
        };
        self.chunks.partition_point(below).min(self.chunks.len().saturating_sub(1))
    }

    fn insert(&mut self, n: f64) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        let at = self.chunk_of(n);
        let chunk = &mut self.chunks[at];
        let place = chunk.partition_point(|other| number::compare_f64(*other, n).is_lt());
        chunk.insert(place, n);
        self.count += 1;
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(at + 1, upper);
        }
    }

    fn take_out(&mut self, n: f64) {
        if self.chunks.is_empty() {
            return;
        }
        let at = self.chunk_of(n);
        let chunk = &mut self.chunks[at];
        let place = chunk.partition_point(|other| number::compare_f64(*other, n).is_lt());
        if place < chunk.len() {
            chunk.remove(place);
            self.count -= 1;
        }
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
    }

    fn nth(&self, mut at: usize) -> Option<f64> {
        for chunk in &self.chunks {
            match chunk.get(at) {
                Some(n) => return Some(*n),
                None => at -= chunk.len(),
            }
        }
        None
    }
}

impl WindowState for SortedNumbers {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let number = countable(value);
        if let Some(n) = number {
            self.insert(n);
        }
        self.queue.push_back(number);
        Ok(())
    }

    fn remove(&mut self) {
        if let Some(Some(n)) = self.queue.pop_front() {
            self.take_out(n);
        }
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        self.shares.write_by(&mut |share| self.nth(position(share, self.count)), out);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.count * 2 * size_of::<f64>() + self.queue.len() * size_of::<Option<f64>>()
    }
}
