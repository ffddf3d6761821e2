//! Blocks of record numbers, over an engine to which other nodes write: the numbers of a collection that this node may
//! give to new records.
//!
//! ```text
//!   stored      next number that no node has       1        65       193      449
//!   node A      numbers in memory                  1 .. 64           193 .. 448
//!   node B                                                  65 .. 192
//! ```
//!
//! A collection that is not stored yet is known to this node alone, so its numbers have no end. When it is stored, the
//! numbers that were used and a first block are stored with it.

use nagi_error::{Error, Result};

/// Numbers of the first block that a process takes.
const BLOCK_MIN: i64 = 64;
/// Each block is twice as large as the one before, up to this.
const BLOCK_MAX: i64 = 4096;
/// Record numbers end here. A thousand starts in each second would take blocks for 35,000 years.
const NUMBER_MAX: i64 = 1 << 56;

/// See the module's header.
pub(crate) struct Numbers {
    next: i64,
    /// The first number that is not this node's.
    end: i64,
    /// The size of the next block.
    size: i64,
}

impl Default for Numbers {
    /// Of a stored collection: none.
    fn default() -> Numbers {
        Numbers { next: 0, end: 0, size: BLOCK_MIN }
    }
}

impl Numbers {
    /// Of a collection that is not stored yet.
    pub(crate) fn of_nothing() -> Numbers {
        Numbers { next: 1, end: i64::MAX, size: BLOCK_MIN }
    }

    pub(crate) fn take(&mut self) -> Option<i64> {
        let number = self.next;
        (number < self.end).then(|| {
            self.next += 1;
            number
        })
    }

    /// The collection is to be stored: the first number that is no longer this node's; none if it was stored before.
    pub(crate) fn bound(&mut self) -> Option<i64> {
        (self.end == i64::MAX).then(|| {
            self.end = self.next + BLOCK_MIN;
            self.end
        })
    }

    /// The size of the block to take next.
    pub(crate) fn size(&self) -> i64 {
        self.size
    }

    /// A block of that size was taken.
    pub(crate) fn refill(&mut self, first: i64) {
        (self.next, self.end) = (first, first.saturating_add(self.size));
        self.size = (2 * self.size).min(BLOCK_MAX);
    }
}

/// The stored form of the next number.
pub(crate) fn stored_next(value: &[u8]) -> Result<i64> {
    match value.try_into().map(i64::from_le_bytes) {
        Ok(next) if (1..=NUMBER_MAX).contains(&next) => Ok(next),
        _ => Err(Error::bug("the stored next record number is damaged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_twice_as_large_as_the_one_before() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.take(), None);
        assert_eq!(numbers.bound(), None);
        let mut sizes = Vec::new();
        for block in 0..8 {
            sizes.push(numbers.size());
            numbers.refill(100_000 * block);
            let mut last = None;
            while let Some(number) = numbers.take() {
                last = Some(number);
            }
            assert_eq!(last, Some(100_000 * block + sizes.last().copied().unwrap_or(0) - 1));
        }
        assert_eq!(sizes, [64, 128, 256, 512, 1024, 2048, 4096, 4096]);
    }

    #[test]
    fn a_collection_that_is_not_stored_has_all_numbers() {
        let mut numbers = Numbers::of_nothing();
        let taken: Vec<_> = std::iter::from_fn(|| numbers.take()).take(1000).collect();
        assert_eq!((taken.first(), taken.last()), (Some(&1), Some(&1000)));
        assert_eq!(numbers.bound(), Some(1001 + 64));
        assert_eq!(numbers.bound(), None, "once");
        assert_eq!(std::iter::from_fn(|| numbers.take()).last(), Some(1064));
    }

    #[test]
    fn a_damaged_number_is_refused() {
        assert_eq!(stored_next(&7_i64.to_le_bytes()).ok(), Some(7));
        for damaged in [&b""[..], &[1; 7], &[0; 8], &[0xFF; 8]] {
            assert!(stored_next(damaged).is_err(), "{damaged:?}");
        }
    }
}
