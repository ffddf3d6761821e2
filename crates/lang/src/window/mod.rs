//! Window functions: the outputs of `$setWindowFields`, which are computed for each document from the documents
//! around it.
//!
//! ```text
//!   partition, sorted:   d0 d1 d2 [d3 d4 *d5* d6] d7 ...      window of d5: documents [-2, 1]
//! ```
//!
//! [`WindowFunction`] is one parsed output. For each partition it creates a [`WindowState`]. The stage of
//! `nagi-query` drives the state: it adds the argument's values in order ([`WindowState::add`]), removes the oldest
//! value when it leaves the window ([`WindowState::remove`]), and requests the result for a document
//! ([`WindowState::write`]).
//!
//! ```text
//!   window of d4 = [d2 d3 d4 d5]      write(4)
//!   window of d5 =    [d3 d4 d5 d6]   add(d6)  remove()  write(5)
//! ```
//!
//! Windows only move forward, so a state is a queue of values:
//! - Sums, means and deviations are two stacks of partial results (`folded`). They never subtract, so rounding,
//!   infinities and NaN leave no trace after their value has left the window.
//! - Minimum and maximum are a monotone deque (`extremes`), ranked values an ordered set, percentiles sorted chunks
//!   (`numbers`).
//! - A window without a lower bound never removes a value. It uses the accumulator of `$group` (`growing`).
//!
//! Beside writing the result, a step costs O(1) or O(log n) in the size of the window; for percentiles, also a scan
//! over the chunks.
//!
//! This module does not know where documents are kept, and does not handle partitions or memory limits; a state only
//! reports its size.

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

/// The state of one window function in one partition.
pub trait WindowState: Send {
    /// Adds the argument's value for the next document of the window.
    fn add(&mut self, value: Value<'_>) -> Result<()>;

    /// Removes the oldest value. It is only called if there is one.
    fn remove(&mut self);

    /// Returns true if the result for the document at `current` needs values that follow its window.
    fn needs_more(&mut self, _current: u64) -> bool {
        false
    }

    /// Writes the result for the document at position `current` of the partition. The positions of successive calls
    /// increase.
    fn write(&mut self, current: u64, out: ValueSlot<'_>) -> Result<()>;

    /// The memory that the state uses, in bytes.
    fn bytes(&self) -> usize;
}

/// Creates a state.
pub(crate) type NewWindowState = Box<dyn Fn() -> Box<dyn WindowState> + Send + Sync>;
