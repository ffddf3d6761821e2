//! `$shift`: the value of the document at a given distance, or a default outside of the partition.

use std::collections::VecDeque;

use nagi_bson::{Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::WindowState;

/// A window of at most one document (two while it moves).
pub(super) struct Shift {
    default: ValueBuf,
    values: VecDeque<ValueBuf>,
}

impl Shift {
    pub(super) fn new(default: ValueBuf) -> Shift {
        Shift { default, values: VecDeque::new() }
    }
}

impl WindowState for Shift {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.values.push_back(ValueBuf::new(value));
        Ok(())
    }

    fn remove(&mut self) {
        self.values.pop_front();
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        let value = self.values.front().map_or(Value::Missing, ValueBuf::value);
        out.put(if value.is_missing() { self.default.value() } else { value });
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.values.iter().map(ValueBuf::heap_bytes).sum()
    }
}
