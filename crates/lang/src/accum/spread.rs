//! `$stdDevPop` and `$stdDevSamp`: standard deviation by Welford's method, in doubles.

use nagi_bson::{Value, ValueSlot, number};
use nagi_error::Result;

use super::spec::single;
use super::{Accumulator, Parsed};
use crate::expr::ParseCx;

/// Count, mean and sum of squared distances from it.
#[derive(Default)]
pub(crate) struct Spread {
    sample: bool,
    count: i64,
    mean: f64,
    squares: f64,
}

pub(super) fn parse_pop(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    single(name, value, cx, || Spread::new(false))
}

pub(super) fn parse_samp(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    single(name, value, cx, || Spread::new(true))
}

impl Spread {
    pub(crate) fn new(sample: bool) -> Spread {
        Spread { sample, ..Spread::default() }
    }
}

impl Accumulator for Spread {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if let Some(n) = number::as_f64(value) {
            self.count += 1;
            let delta = n - self.mean;
            if delta != 0.0 {
                self.mean += delta / self.count as f64;
                self.squares += delta * (n - self.mean);
            }
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        let Value::Array(parts) = part else {
            return Ok(());
        };
        let (Value::Int64(count), Value::Double(mean), Value::Double(squares)) =
            (parts.get(0), parts.get(1), parts.get(2))
        else {
            return Ok(());
        };
        if self.count == 0 {
            (self.count, self.mean, self.squares) = (count, mean, squares);
        } else if count > 0 {
            let (ours, theirs) = (self.count as f64, count as f64);
            let delta = mean - self.mean;
            let total = ours + theirs;
            self.mean = (ours * self.mean + theirs * mean) / total;
            self.squares += squares + delta * delta * (ours * theirs / total);
            self.count += count;
        }
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| {
            out.push(self.count);
            out.push(self.mean);
            out.push(self.squares);
        });
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        let count = if self.sample { self.count - 1 } else { self.count };
        out.put(if count <= 0 {
            Value::Null
        } else {
            Value::Double((self.squares / count as f64).sqrt())
        });
    }
}
