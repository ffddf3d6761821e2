//! `$minMaxScaler`: the position of the document's number between the minimum and the maximum of its window.

use std::cmp::Ordering;

use nagi_bson::{Value, ValueBuf, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::calculus::quotient;
use super::{Extremum, WindowState};
use crate::accum::{Best, Queue};

/// The state. The window includes the current document, so the document's value is among the added ones.
pub(super) struct Scaler {
    /// The lower and upper end of the results.
    low: ValueBuf,
    high: ValueBuf,
    least: Extremum,
    largest: Extremum,
    /// Numbers from the current document on; the first one's position is `first`.
    values: Queue,
    first: u64,
}

impl Scaler {
    /// Scales the results to the range from `low` to `high`, which are numbers.
    pub(super) fn new(low: ValueBuf, high: ValueBuf) -> Scaler {
        Scaler {
            low,
            high,
            least: Extremum::new(Best::new(Ordering::Less, None)),
            largest: Extremum::new(Best::new(Ordering::Greater, None)),
            values: Queue::default(),
            first: 0,
        }
    }

    fn value(&self) -> Value<'static> {
        let low = self.low.value();
        let zero = Value::Int32(0);
        let (Some(value), Some(min), Some(max)) =
            (self.values.first(), self.least.value(), self.largest.value())
        else {
            return Value::Null;
        };
        if number::compare(min, max).is_eq() {
            return number::add(low, zero);
        }
        let share = quotient(number::subtract(value, min), number::subtract(max, min));
        let span = number::subtract(self.high.value(), low);
        number::add(number::multiply(share, span), low)
    }
}

impl WindowState for Scaler {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if !value.is_number() {
            bail!(
                Code::Location(10_487_001),
                "'input' argument to $minMaxScaler must evaluate to a numeric type, got: {}",
                value.kind().name()
            );
        }
        self.least.add(value)?;
        self.largest.add(value)?;
        self.values.push(value);
        Ok(())
    }

    fn remove(&mut self) {
        self.least.remove();
        self.largest.remove();
    }

    fn write(&mut self, current: u64, out: ValueSlot<'_>) -> Result<()> {
        while self.first < current && self.values.len() > 1 {
            self.values.shift();
            self.first += 1;
        }
        out.put(self.value());
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.values.bytes() + self.least.bytes() + self.largest.bytes()
    }
}
