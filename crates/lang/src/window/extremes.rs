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

use nagi_bson::{Array, Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::{held_bytes, order_of_rows};
use crate::collation::{self, Collation};

/// The smallest or largest value of a moving window; the oldest one of equal values.
pub(crate) struct Extremum {
    wanted: Ordering,
    collation: Option<&'static Collation>,
    /// The values that may still become the result, with their sequence numbers.
    candidates: VecDeque<(u64, ValueBuf)>,
    added: u64,
    removed: u64,
    bytes: usize,
}

impl Extremum {
    /// `Less` selects the smallest, `Greater` the largest value.
    pub(crate) fn new(wanted: Ordering, collation: Option<&'static Collation>) -> Extremum {
        let candidates = VecDeque::new();
        Extremum { wanted, collation, candidates, added: 0, removed: 0, bytes: 0 }
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
            && collation::values(value, last.value(), self.collation) == self.wanted
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

/// The order in which the values of a window are ranked.
#[derive(Clone)]
enum Order {
    /// By value; `Greater` ranks the largest value first.
    Values(Ordering, Option<&'static Collation>),
    /// Rows `[output, sort value, ...]`, by the directions of a sort.
    Rows(Arc<[bool]>, Option<&'static Collation>),
}

/// A value with its rank. Equal values are ranked by their sequence numbers.
#[derive(Clone)]
struct Ranked {
    order: Order,
    number: u64,
    value: Arc<ValueBuf>,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        let (a, b) = (self.value.value(), other.value.value());
        let order = match &self.order {
            Order::Values(Ordering::Greater, own) => collation::values(b, a, *own),
            Order::Values(_, own) => collation::values(a, b, *own),
            Order::Rows(descending, own) => {
                let (a, b) = (a.as_array(), b.as_array());
                let (a, b) = (a.unwrap_or(Array::EMPTY), b.unwrap_or(Array::EMPTY));
                order_of_rows(a, b, descending, *own)
            }
        };
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
    order: Order,
    n: usize,
    last: bool,
    single: bool,
    ranked: BTreeSet<Ranked>,
    /// The values in the order in which they were added; none for a value that is ignored.
    queue: VecDeque<Option<Ranked>>,
    added: u64,
    bytes: usize,
}

impl Least {
    /// Selects the n smallest (`Less`) or largest (`Greater`) values.
    pub(crate) fn values(
        wanted: Ordering,
        n: usize,
        collation: Option<&'static Collation>,
    ) -> Least {
        Least::new(Order::Values(wanted, collation), n)
    }

    /// Selects the outputs of the first or last n rows.
    pub(crate) fn rows(
        (descending, collation): (Arc<[bool]>, Option<&'static Collation>),
        n: usize,
        last: bool,
        single: bool,
    ) -> Least {
        Least { last, single, ..Least::new(Order::Rows(descending, collation), n) }
    }

    fn new(order: Order, n: usize) -> Least {
        Least {
            order,
            n,
            last: false,
            single: false,
            ranked: BTreeSet::new(),
            queue: VecDeque::new(),
            added: 0,
            bytes: 0,
        }
    }

    fn output<'v>(&self, value: Value<'v>) -> Value<'v> {
        match (&self.order, value) {
            (Order::Rows(..), Value::Array(row)) => row.get(0),
            (_, value) => value,
        }
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
        let entry = Ranked { order: self.order.clone(), number: self.added, value };
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
        let skipped = if self.last { self.ranked.len().saturating_sub(self.n) } else { 0 };
        // Iterates from the nearer end, so that the cost depends on n and not on the size of the window.
        let mut chosen: Vec<&Ranked> = if self.last {
            self.ranked.iter().rev().take(self.ranked.len() - skipped).collect()
        } else {
            self.ranked.iter().take(self.n).collect()
        };
        if self.last {
            chosen.reverse();
        }
        let mut values = chosen.iter().map(|entry| self.output(entry.value.value()));
        if self.single {
            out.put(values.next().unwrap_or(Value::Null));
        } else {
            out.array(|out| values.for_each(|value| out.push(value)));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes + self.queue.len() * size_of::<usize>()
    }
}
