//! `$shift`: the value of the document at a given distance, or a default outside of the partition.

use nagi_bson::{Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::Queue;

/// A window of at most one document (two while it moves).
pub(super) struct Shift {
    default: ValueBuf,
    values: Queue,
}

impl Shift {
    pub(super) fn new(default: ValueBuf) -> Shift {
        Shift { default, values: Queue::default() }
    }
}

impl WindowState for Shift {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.values.push(value);
        Ok(())
    }

    fn remove(&mut self) {
        self.values.shift();
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        let value = self.values.first().unwrap_or(Value::Missing);
        out.put(if value.is_missing() { self.default.value() } else { value });
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}
