//! A window without a lower bound: an accumulator of `$group` whose result is requested for every document.

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::Accumulator;

/// Never removes a value.
pub(super) struct Growing(pub(super) Box<dyn Accumulator>);

impl WindowState for Growing {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.0.add(value)
    }

    fn remove(&mut self) {}

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        self.0.finish(out);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
