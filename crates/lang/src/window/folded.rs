//! Sums, means and deviations over a moving window, as a queue made of two stacks, without subtraction.
//!
//! ```text
//!   oldest                                                newest
//!   front: results of d0..d2, d1..d2, d2..d2  |  back: d3, d4, d5, and back_result = d3..d5
//!                                             ^ turning point
//! ```
//!
//! - `add` pushes a value to `back` and joins it to `back_result`.
//! - `remove` pops an entry of `front`. If `front` is empty, the values of `back` move to it: each entry becomes the
//!   result from its value to the turning point.
//! - The result of the window is the top of `front` (its oldest entry) joined with `back_result`.
//!
//! Every result is thus a join of the values in the window, as if it were computed anew. A 1e308 or a NaN that has
//! left the window has no effect. The amortized cost is two joins per step.

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::WindowState;

/// A partial result that can be joined with the result of the values after it.
pub(crate) trait Fold: Clone + Send {
    /// Adds one value.
    fn take(&mut self, value: Value<'_>);

    /// Joins the partial result of later values.
    fn absorb(&mut self, later: &Self);

    /// The result.
    fn result(&self) -> Value<'static>;
}

/// The state of a fold over a moving window.
pub(crate) struct Folded<F> {
    empty: F,
    /// The results from each value to the turning point; the entry of the oldest value is on top.
    front: Vec<F>,
    /// The values after the turning point, each as a separate result.
    back: Vec<F>,
    /// The joined result of `back`.
    back_result: F,
    /// True if no value will be removed, so that single values need not be kept.
    grows: bool,
}

impl<F: Fold> Folded<F> {
    /// `empty` is the result of no values.
    pub(crate) fn new(empty: F) -> Folded<F> {
        let (front, back) = (Vec::new(), Vec::new());
        Folded { front, back, back_result: empty.clone(), empty, grows: false }
    }

    /// Configures a window that never removes a value. It needs O(1) memory.
    pub(super) fn growing(self) -> Folded<F> {
        Folded { grows: true, ..self }
    }

    /// The result of the current window.
    pub(super) fn result(&self) -> Value<'static> {
        match self.front.last() {
            None => self.back_result.result(),
            Some(front) => {
                let mut whole = front.clone();
                whole.absorb(&self.back_result);
                whole.result()
            }
        }
    }
}

impl<F: Fold + Default> Default for Folded<F> {
    fn default() -> Folded<F> {
        Folded::new(F::default())
    }
}

impl<F: Fold> WindowState for Folded<F> {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let mut one = self.empty.clone();
        one.take(value);
        self.back_result.absorb(&one);
        if !self.grows {
            self.back.push(one);
        }
        Ok(())
    }

    fn remove(&mut self) {
        if self.front.is_empty() {
            let mut so_far = self.empty.clone();
            for mut one in self.back.drain(..).rev() {
                one.absorb(&so_far);
                so_far = one.clone();
                self.front.push(one);
            }
            self.back_result = self.empty.clone();
        }
        self.front.pop();
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.put(self.result());
        Ok(())
    }

    fn bytes(&self) -> usize {
        (self.front.capacity() + self.back.capacity()) * size_of::<F>()
    }
}

/// `$count`: the number of documents in the window.
#[derive(Default)]
pub(crate) struct Counter(i64);

impl WindowState for Counter {
    fn add(&mut self, _: Value<'_>) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn remove(&mut self) {
        self.0 -= 1;
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.put(i32::try_from(self.0).map_or(Value::Int64(self.0), Value::Int32));
        Ok(())
    }

    fn bytes(&self) -> usize {
        0
    }
}
