//! `$avg`: the mean of the numbers; null if there are none.

use nagi_bson::{Decimal128, Value, ValueSlot};
use nagi_error::Result;

use super::spec::single;
use super::{Accumulator, NumberSum, Parsed};
use crate::expr::{ParseCx, Vars};
use crate::window::{Fold, Folded};

/// Sum and count of the numbers.
#[derive(Default, Clone)]
pub(crate) struct Average {
    sum: NumberSum,
    count: i64,
}

pub(super) fn parse(name: &'static str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    Ok(single(name, value, cx, Average::default)?.sliding(Folded::<Average>::default))
}

impl Accumulator for Average {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.count += i64::from(self.sum.add(value));
        Ok(())
    }

    fn add_doubles(&mut self, values: &[f64], _: &Vars<'_>) -> Result<()> {
        self.sum.add_doubles(values);
        self.count += values.len() as i64;
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        if let Value::Array(parts) = part {
            self.sum.merge(&NumberSum::from_partial(parts.get(0)));
            if let Value::Int64(count) = parts.get(1) {
                self.count += count;
            }
        }
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| {
            out.array(|out| self.sum.write_partial(out));
            out.push(self.count);
        });
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(self.value());
    }
}

impl Average {
    fn value(&self) -> Value<'static> {
        if self.count == 0 {
            Value::Null
        } else if self.sum.is_decimal() {
            Value::Decimal128(self.sum.decimal().div(Decimal128::from_i64(self.count)))
        } else {
            Value::Double(self.sum.double() / self.count as f64)
        }
    }
}

impl Fold for Average {
    fn take(&mut self, value: Value<'_>) {
        self.count += i64::from(self.sum.add(value));
    }

    fn absorb(&mut self, later: &Average) {
        self.sum.merge(&later.sum);
        self.count += later.count;
    }

    fn result(&self) -> Value<'static> {
        self.value()
    }
}
