//! `$stdDevPop` and `$stdDevSamp`: the standard deviation by Welford's method, in doubles.

use nagi_bson::{Value, ValueSlot, number};
use nagi_error::Result;

use super::spec::single;
use super::{Accumulator, Parsed};
use crate::expr::ParseCx;
use crate::window::{Fold, Folded};

/// The count, the mean, and the sum of the squared deviations from it.
#[derive(Default, Clone)]
pub(crate) struct Spread {
    sample: bool,
    count: i64,
    mean: f64,
    squares: f64,
}

pub(super) fn parse(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
    sample: bool,
) -> Result<Parsed> {
    let parsed = single(name, value, cx, move || Spread::new(sample))?;
    Ok(parsed.sliding(move || Folded::new(Spread::new(sample))))
}

impl Spread {
    pub(crate) fn new(sample: bool) -> Spread {
        Spread { sample, ..Spread::default() }
    }
}

impl Accumulator for Spread {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.take(value);
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
        self.absorb(&Spread { sample: self.sample, count, mean, squares });
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
        out.put(self.result());
    }
}

impl Fold for Spread {
    fn take(&mut self, value: Value<'_>) {
        if let Some(n) = number::as_f64(value) {
            self.count += 1;
            let delta = n - self.mean;
            if delta != 0.0 {
                self.mean += delta / self.count as f64;
                self.squares += delta * (n - self.mean);
            }
        }
    }

    fn absorb(&mut self, later: &Spread) {
        if self.count == 0 {
            (self.count, self.mean, self.squares) = (later.count, later.mean, later.squares);
        } else if later.count > 0 {
            let (ours, theirs) = (self.count as f64, later.count as f64);
            let delta = later.mean - self.mean;
            let total = ours + theirs;
            self.mean = (ours * self.mean + theirs * later.mean) / total;
            self.squares += later.squares + delta * delta * (ours * theirs / total);
            self.count += later.count;
        }
    }

    fn result(&self) -> Value<'static> {
        let count = if self.sample { self.count - 1 } else { self.count };
        if count <= 0 {
            return Value::Null;
        }
        Value::Double((self.squares / count as f64).sqrt())
    }
}
