//! `$min` and `$max` as a monotone deque, and `$minN`, `$topN`, ... as an ordered set.
//!
//! The deque keeps only values that may still become the result. For the maximum, a new value removes all smaller
//! values at the end, because they leave the window before it:
//!
//! ```text
//!   window   5 1 3     deque 5 3
//!   add 4              deque 5 4       1 and 3 can never be the maximum again
//!   remove 5           deque 4
//! ```

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use nagi_bson::{Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::{Best, Rank, held_bytes};

/// The smallest or largest value of a moving window; the oldest one of equal values.
pub(crate) struct Extremum {
    best: Best,
    /// Values that may still become the result, with the numbers at which they came.
    candidates: VecDeque<(u64, ValueBuf)>,
    added: u64,
    removed: u64,
    bytes: usize,
}

impl Extremum {
    pub(crate) fn new(best: Best) -> Extremum {
        Extremum { best, candidates: VecDeque::new(), added: 0, removed: 0, bytes: 0 }
    }

    /// The result; none if the window has no values.
    pub(super) fn value(&self) -> Option<Value<'_>> {
        self.candidates.front().map(|(_, value)| value.value())
    }
}

impl WindowState for Extremum {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.added += 1;
        if value.is_nullish() {
            return Ok(());
        }
        while let Some((_, last)) = self.candidates.back()
            && self.best.prefers(value, last.value())
        {
            self.bytes -= self.candidates.pop_back().map_or(0, |(_, last)| held_bytes(&last) + 8);
        }
        let value = ValueBuf::new(value);
        self.bytes += held_bytes(&value) + 8;
        self.candidates.push_back((self.added, value));
        Ok(())
    }

    fn remove(&mut self) {
        self.removed += 1;
        if let Some((number, _)) = self.candidates.front()
            && *number == self.removed
        {
            self.bytes -=
                self.candidates.pop_front().map_or(0, |(_, first)| held_bytes(&first) + 8);
        }
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.put(self.value().unwrap_or(Value::Null));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A value with its rank; equal ones in the order in which they came.
#[derive(Clone)]
struct Ranked {
    rank: Arc<Rank>,
    number: u64,
    value: Arc<ValueBuf>,
}

impl Ranked {
    fn value(&self) -> Value<'_> {
        self.value.value()
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        let order = self.rank.compare(self.value(), other.value());
        order.then_with(|| self.number.cmp(&other.number))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// The first or last n values of a moving window by rank: `$minN`, `$maxN`, `$topN`, `$bottom`, ...
pub(crate) struct Least {
    rank: Arc<Rank>,
    ranked: BTreeSet<Ranked>,
    /// The values in the order in which they were added; none for a value that is ignored.
    queue: VecDeque<Option<Ranked>>,
    added: u64,
    bytes: usize,
}

impl Least {
    pub(crate) fn new(rank: Arc<Rank>) -> Least {
        Least { rank, ranked: BTreeSet::new(), queue: VecDeque::new(), added: 0, bytes: 0 }
    }
}

/// The memory of one entry in the set and the queue.
fn entry_bytes(entry: &Ranked) -> usize {
    held_bytes(&entry.value) + 3 * size_of::<Ranked>()
}

impl WindowState for Least {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if value.is_nullish() {
            self.queue.push_back(None);
            return Ok(());
        }
        self.added += 1;
        let value = Arc::new(ValueBuf::new(value));
        let entry = Ranked { rank: Arc::clone(&self.rank), number: self.added, value };
        self.bytes += entry_bytes(&entry);
        self.ranked.insert(entry.clone());
        self.queue.push_back(Some(entry));
        Ok(())
    }

    fn remove(&mut self) {
        if let Some(Some(entry)) = self.queue.pop_front() {
            self.bytes -= entry_bytes(&entry);
            self.ranked.remove(&entry);
        }
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        // From the nearer end, so that the cost is in n, not in the window.
        if self.rank.is_last() {
            let mut chosen: Vec<_> = self.ranked.iter().rev().take(self.rank.n()).collect();
            chosen.reverse();
            self.rank.write(chosen.into_iter().map(Ranked::value), out);
        } else {
            self.rank.write(self.ranked.iter().take(self.rank.n()).map(Ranked::value), out);
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes + self.queue.len() * size_of::<usize>()
    }
}
