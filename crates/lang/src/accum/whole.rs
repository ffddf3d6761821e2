//! The sums of many groups, in a compact form. As long as all inputs are integers and all sums fit into 64 bits, a
//! group costs 16 bytes. The first double, decimal or overflow converts all sums to [`NumberSum`].

use nagi_bson::{Value, ValueSlot};
use nagi_error::Result;

use super::{NumberSum, Numbered, States};
use crate::expr::Vars;

/// The states of `$sum` and `$count`.
pub(super) struct WholeSums(Sums);

enum Sums {
    Small(Numbered<Small>),
    Wide(Numbered<NumberSum>),
}

/// A sum of integers.
#[derive(Clone, Copy, Default)]
struct Small {
    sum: i64,
    /// True if an input was a long; the sum is then a long as well.
    is_long: bool,
}

impl Default for WholeSums {
    fn default() -> Self {
        WholeSums(Sums::Small(Numbered::default()))
    }
}

impl Small {
    /// Adds a value. Returns false if it needs a wide sum.
    #[inline]
    fn add(&mut self, value: Value<'_>) -> bool {
        let (n, is_long) = match value {
            Value::Int32(n) => (i64::from(n), false),
            Value::Int64(n) => (n, true),
            Value::Double(_) | Value::Decimal128(_) => return false,
            _ => return true,
        };
        self.take_in(n, is_long)
    }

    #[inline]
    fn take_in(&mut self, n: i64, is_long: bool) -> bool {
        let Some(sum) = self.sum.checked_add(n) else { return false };
        self.sum = sum;
        self.is_long |= is_long;
        true
    }
}

impl WholeSums {
    fn widen(&mut self) -> &mut Numbered<NumberSum> {
        if let Sums::Small(small) = &mut self.0 {
            let mut wide = Numbered::default();
            for small in std::mem::take(small).into_items() {
                wide.push(NumberSum::of_whole(small.sum, small.is_long));
            }
            self.0 = Sums::Wide(wide);
        }
        match &mut self.0 {
            Sums::Wide(wide) => wide,
            Sums::Small(_) => unreachable!("was made wide above"),
        }
    }

    fn value_of(&self, at: usize) -> NumberSum {
        match &self.0 {
            Sums::Small(small) => {
                let small = small.at(at);
                NumberSum::of_whole(small.sum, small.is_long)
            }
            Sums::Wide(wide) => *wide.at(at),
        }
    }
}

impl States for WholeSums {
    fn push(&mut self) {
        match &mut self.0 {
            Sums::Small(small) => small.push(Small::default()),
            Sums::Wide(wide) => wide.push(NumberSum::default()),
        }
    }

    fn start(&mut self, _: usize, _: Value<'_>, _: &Vars<'_>, _: i64) -> Result<()> {
        Ok(())
    }

    /// The change to wide sums takes memory.
    fn grows(&self) -> bool {
        matches!(self.0, Sums::Wide(_))
    }

    #[inline]
    fn add(&mut self, at: usize, value: Value<'_>, _: &Vars<'_>) -> Result<()> {
        if let Sums::Small(small) = &mut self.0
            && small.at_mut(at).add(value)
        {
            return Ok(());
        }
        self.widen().at_mut(at).add(value);
        Ok(())
    }

    fn add_doubles(&mut self, at: usize, values: &[f64], _: &Vars<'_>) -> Result<()> {
        if !values.is_empty() {
            self.widen().at_mut(at).add_doubles(values);
        }
        Ok(())
    }

    fn merge(&mut self, at: usize, part: Value<'_>, vars: &Vars<'_>) -> Result<()> {
        if !matches!(part, Value::Array(_)) {
            return self.add(at, part, vars);
        }
        let later = NumberSum::from_partial(part);
        if let (Sums::Small(small), Some((sum, is_long))) = (&mut self.0, later.as_whole())
            && small.at_mut(at).take_in(sum, is_long)
        {
            return Ok(());
        }
        self.widen().at_mut(at).merge(&later);
        Ok(())
    }

    fn partial(&self, at: usize, out: ValueSlot<'_>) {
        let sum = self.value_of(at);
        match sum.as_whole() {
            // The plain value is equivalent: an int is a sum of ints only.
            Some((n, true)) => out.put(n),
            Some((n, false)) if i32::try_from(n).is_ok() => out.put(n as i32),
            _ => out.array(|out| sum.write_partial(out)),
        }
    }

    fn finish(&mut self, at: usize, _: &Vars<'_>, out: ValueSlot<'_>) -> Result<()> {
        out.put(self.value_of(at).value());
        Ok(())
    }

    fn bytes(&self) -> usize {
        match &self.0 {
            Sums::Small(small) => small.bytes(),
            Sums::Wide(wide) => wide.bytes(),
        }
    }

    fn clear(&mut self) {
        match &mut self.0 {
            Sums::Small(small) => small.clear(),
            Sums::Wide(wide) => wide.clear(),
        }
    }
}
