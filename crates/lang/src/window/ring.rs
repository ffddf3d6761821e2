//! The window's values as they are: `$push`, `$first`, `$last`, `$firstN`, `$lastN`, `$concatArrays`.

use std::collections::VecDeque;

use nagi_bson::{Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::{elements, held_bytes};

/// Which of the values are the result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    /// All but missing ones.
    All,
    /// The elements of all, which are arrays.
    Elements,
    First,
    Last,
    FirstN(usize),
    LastN(usize),
}

/// A queue of values.
pub(crate) struct Ring {
    pick: Pick,
    values: VecDeque<ValueBuf>,
    bytes: usize,
}

impl Ring {
    pub(crate) fn new(pick: Pick) -> Ring {
        Ring { pick, values: VecDeque::new(), bytes: 0 }
    }
}

fn null_for_missing(value: Value<'_>) -> Value<'_> {
    if value.is_missing() { Value::Null } else { value }
}

impl WindowState for Ring {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if let Pick::Elements = self.pick {
            elements("$concatArrays", value)?;
        }
        let value = ValueBuf::new(value);
        self.bytes += held_bytes(&value);
        self.values.push_back(value);
        Ok(())
    }

    fn remove(&mut self) {
        self.bytes -= self.values.pop_front().as_ref().map_or(0, held_bytes);
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        let mut values = self.values.iter().map(ValueBuf::value);
        match self.pick {
            Pick::First => out.put(null_for_missing(values.next().unwrap_or(Value::Null))),
            Pick::Last => out.put(null_for_missing(values.next_back().unwrap_or(Value::Null))),
            Pick::All => out.array(|out| {
                values.filter(|v| !v.is_missing()).for_each(|v| out.push(v));
            }),
            Pick::Elements => out.array(|out| {
                let arrays = values.filter_map(|v| v.as_array());
                arrays.for_each(|array| array.iter().for_each(|item| out.push(item)));
            }),
            Pick::FirstN(n) => out.array(|out| values.take(n).for_each(|v| out.push(v))),
            Pick::LastN(n) => out.array(|out| {
                let skipped = self.values.len().saturating_sub(n);
                values.skip(skipped).for_each(|v| out.push(v));
            }),
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
