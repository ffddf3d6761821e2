//! `$expMovingAvg`: each number has the weight `alpha`, the average of all numbers before it has the rest.

use nagi_bson::{Decimal128, Value, ValueSlot, number};
use nagi_error::Result;

use super::WindowState;

/// The average of the numbers so far.
pub(super) struct MovingAverage {
    alpha: Decimal128,
    average: Option<Value<'static>>,
}

impl MovingAverage {
    /// `alpha` is between 0 and 1.
    pub(super) fn new(alpha: Decimal128) -> MovingAverage {
        MovingAverage { alpha, average: None }
    }
}

impl WindowState for MovingAverage {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let number = match value {
            Value::Int32(n) => Value::Int32(n),
            Value::Int64(n) => Value::Int64(n),
            Value::Double(n) => Value::Double(n),
            Value::Decimal128(n) => Value::Decimal128(n),
            _ => return Ok(()),
        };
        let Some(before) = self.average else {
            self.average = Some(number);
            return Ok(());
        };
        let decimal = [number, before].iter().any(|v| matches!(v, Value::Decimal128(_)));
        self.average = Some(if decimal {
            let rest = Decimal128::ONE.add(self.alpha.neg());
            let as_decimal = |v| number::as_decimal(v).unwrap_or(Decimal128::NAN);
            let sum = as_decimal(number).mul(self.alpha).add(as_decimal(before).mul(rest));
            Value::Decimal128(sum)
        } else {
            let alpha = number::as_f64(Value::Decimal128(self.alpha)).unwrap_or(f64::NAN);
            let as_double = |v| number::as_f64(v).unwrap_or(f64::NAN);
            Value::Double(as_double(number) * alpha + as_double(before) * (1.0 - alpha))
        });
        Ok(())
    }

    fn remove(&mut self) {}

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.put(self.average.unwrap_or(Value::Null));
        Ok(())
    }

    fn bytes(&self) -> usize {
        0
    }
}
