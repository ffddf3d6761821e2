//! Sums, means and deviations over a moving window, without ever subtracting.
//!
//! ```text
//!   oldest                                     newest
//!   front: results of d0.., d1.., d2..  |  back: d3, d4, d5 and their result so far
//! ```
//!
//! Forgetting pops `front`; when that is empty, `back` is turned into it, each entry the result from
//! it to the turning point. The window's result is the last of `front` joined with that of `back`:
//! the same numbers are joined as a fresh pass would join, so a 1e308 or a NaN that has left the
//! window leaves no trace. Amortised two joins a step.

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::WindowState;

/// A partial result that can be joined with that of the values behind it.
pub(crate) trait Fold: Clone + Send {
    /// Takes one more value.
    fn take(&mut self, value: Value<'_>);

    /// Joins the partial result of later values.
    fn absorb(&mut self, later: &Self);

    /// The result.
    fn result(&self) -> Value<'static>;
}

/// A moving window over a fold.
pub(crate) struct Folded<F> {
    empty: F,
    /// Results from each value to the turning point, the oldest value's on top.
    front: Vec<F>,
    /// Values behind the turning point, each alone.
    back: Vec<F>,
    /// The result of all of `back`.
    back_result: F,
    /// Whether nothing will be forgotten, so that single values need not be kept.
    grows: bool,
}

impl<F: Fold> Folded<F> {
    /// `empty` is the result of no values.
    pub(crate) fn new(empty: F) -> Folded<F> {
        let (front, back) = (Vec::new(), Vec::new());
        Folded { front, back, back_result: empty.clone(), empty, grows: false }
    }

    /// The same for a window that never forgets: O(1) memory.
    pub(super) fn growing(self) -> Folded<F> {
        Folded { grows: true, ..self }
    }

    /// The result over the window.
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

/// `$count`: how many documents are in the window.
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
