//! Window functions: what `$setWindowFields` computes for each document from documents around it.
//!
//! ```text
//!   partition, sorted:   d0 d1 d2 [d3 d4 *d5* d6] d7 ...      window of d5: documents [-2, 1]
//! ```
//!
//! [`WindowFunction`] is one parsed output. For each partition it makes a [`WindowState`], which takes
//! the argument's values in order (`add`), forgets the oldest one (`remove`) and writes the result for
//! a document. Windows only move forwards, so a state is a queue: sums and deviations are kept as two
//! stacks of partial results (no subtraction, so nothing is lost to rounding, infinities or NaN),
//! extremes as a monotone deque, ranked values in an ordered set. A step costs O(1) or O(log n) in the
//! size of the window, beside writing the result.
//!
//! A window without lower bound never forgets: there the accumulator of `$group` serves as it is.
//!
//! Does not know about: where documents are kept, partitions, memory limits (it reports its bytes).

mod bounds;
mod calculus;
mod covariance;
mod extremes;
mod fill;
mod folded;
mod growing;
mod moving_average;
mod numbers;
mod ranks;
mod ring;
mod scaler;
mod sets;
mod shift;
mod spec;

pub use bounds::{Bound, Bounds, RangeBounds};
pub use spec::{Argument, WindowFunction, window_function_names};

pub(crate) use extremes::{Extremum, Least};
pub(crate) use folded::{Counter, Fold, Folded};
pub(crate) use numbers::SortedNumbers;
pub(crate) use ring::{Pick, Ring};
pub(crate) use sets::Counted;

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

/// The state of one window function over one partition.
pub trait WindowState: Send {
    /// Takes the argument's value for the next document of the window.
    fn add(&mut self, value: Value<'_>) -> Result<()>;

    /// Forgets the oldest value; only called when there is one.
    fn remove(&mut self);

    /// Whether the result for the document at `current` needs values behind its window.
    fn needs_more(&mut self, _current: u64) -> bool {
        false
    }

    /// Writes the result for the document at position `current` of the partition. The positions of
    /// the documents it may be asked for grow.
    fn write(&mut self, current: u64, out: ValueSlot<'_>) -> Result<()>;

    /// Memory that it holds.
    fn bytes(&self) -> usize;
}

/// Makes a state.
pub(crate) type NewWindowState = Box<dyn Fn() -> Box<dyn WindowState> + Send + Sync>;
