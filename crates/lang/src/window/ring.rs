//! The state of functions that return values of the window: `$push`, `$first`, `$last`, `$firstN`, `$lastN`,
//! `$concatArrays`.

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::WindowState;
use crate::accum::{Queue, elements};

/// Selects the values of the result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick {
    /// All values except missing ones.
    All,
    /// The elements of all values, which are arrays.
    Elements,
    First,
    Last,
    FirstN(usize),
    LastN(usize),
}

/// The values of a window, of which some are the result.
pub(crate) struct Ring {
    pick: Pick,
    queue: Queue,
}

impl Ring {
    pub(crate) fn new(pick: Pick) -> Ring {
        Ring { pick, queue: Queue::default() }
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
        self.queue.push(value);
        Ok(())
    }

    fn remove(&mut self) {
        self.queue.shift();
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        let mut values = self.queue.iter();
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
                let skipped = self.queue.len().saturating_sub(n);
                values.skip(skipped).for_each(|v| out.push(v));
            }),
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.queue.bytes()
    }
}
