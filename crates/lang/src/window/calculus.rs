//! `$derivative` and `$integral`: the change per unit of the sort key, and the area below the curve.
//!
//! The values are pairs `[sort key, input]`. If the sort key is a date, a `unit` is required: the change is per unit,
//! and the width is measured in it. If the sort key is a number, a `unit` is an error.

use nagi_bson::{Decimal128, Value, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::WindowState;
use super::folded::{Fold, Folded};
use crate::accum::{NumberSum, Queue};

/// The sort key and the input of a pair.
fn pair(value: Value<'_>) -> (Value<'_>, Value<'_>) {
    value.as_array().map_or((Value::Missing, Value::Missing), |pair| (pair.get(0), pair.get(1)))
}

/// The result of `$subtract` for `a - b`; null if either is null or missing.
fn difference(a: Value<'_>, b: Value<'_>) -> Result<Value<'static>> {
    match (a, b) {
        (a, b) if a.is_number() && b.is_number() => Ok(number::subtract(a, b)),
        (a, b) if a.is_nullish() || b.is_nullish() => Ok(Value::Null),
        (Value::DateTime(a), Value::DateTime(b)) => match a.checked_sub(b) {
            Some(ms) => Ok(Value::Int64(ms)),
            None => bail!(
                Code::DURATION_OVERFLOW,
                "Overflow casting from a lower-precision duration to a higher-precision duration"
            ),
        },
        (a, b) => bail!(
            Code::Location(16556),
            "can't $subtract {} from {}",
            b.kind().name(),
            a.kind().name()
        ),
    }
}

/// `a / b` as a double, or as a decimal if either is one. `b` must not be zero.
pub(super) fn quotient(a: Value<'_>, b: Value<'_>) -> Value<'static> {
    if let (Value::Decimal128(_), _) | (_, Value::Decimal128(_)) = (a, b) {
        let decimal = |value| number::as_decimal(value).unwrap_or(Decimal128::NAN);
        return Value::Decimal128(decimal(a).div(decimal(b)));
    }
    let double = |value| number::as_f64(value).unwrap_or(f64::NAN);
    Value::Double(double(a) / double(b))
}

fn is_zero(value: Value<'_>) -> bool {
    number::compare(value, Value::Int32(0)).is_eq()
}

/// The slope between the first and the last document of the window.
pub(super) struct Derivative {
    unit_ms: Option<i64>,
    /// True if only the first and the last value are kept, because no value will be removed.
    grows: bool,
    queue: Queue,
}

impl Derivative {
    pub(super) fn new(unit_ms: Option<i64>, grows: bool) -> Derivative {
        Derivative { unit_ms, grows, queue: Queue::default() }
    }

    fn check(&self, x: Value<'_>) -> Result<()> {
        let is_date = matches!(x, Value::DateTime(_));
        match self.unit_ms {
            Some(_) if !is_date => bail!(
                Code::Location(5_624_900),
                "$derivative with 'unit' expects the sortBy field to be a Date"
            ),
            None if is_date => bail!(
                Code::Location(5_624_901),
                "$derivative where the sortBy is a Date requires an 'unit'"
            ),
            None if !x.is_number() && !x.is_nullish() => bail!(
                Code::Location(5_624_902),
                "$derivative (with no 'unit') expects the sortBy field to be numeric"
            ),
            _ => Ok(()),
        }
    }

    fn value(&self) -> Result<Value<'static>> {
        let (Some(first), Some(last)) = (self.queue.first(), self.queue.last()) else {
            return Ok(Value::Null);
        };
        let ((x1, y1), (x2, y2)) = (pair(first), pair(last));
        self.check(x1)?;
        self.check(x2)?;
        let (rise, run) = (difference(y2, y1)?, difference(x2, x1)?);
        if rise.is_nullish() || run.is_nullish() || is_zero(run) {
            return Ok(Value::Null);
        }
        let slope = quotient(rise, run);
        Ok(match self.unit_ms {
            Some(unit) => number::multiply(slope, Value::Int64(unit)),
            None => slope,
        })
    }
}

impl WindowState for Derivative {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if self.grows && self.queue.len() == 2 {
            self.queue.pop();
        }
        self.queue.push(value);
        Ok(())
    }

    fn remove(&mut self) {
        self.queue.shift();
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.put(self.value()?);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.queue.bytes()
    }
}

/// The area below the straight lines between consecutive points.
#[derive(Clone, Default)]
struct Area {
    /// The first and the last point.
    ends: Option<[(Value<'static>, Value<'static>); 2]>,
    sum: NumberSum,
}

/// A number, or a date as its milliseconds, without a borrow.
fn plain(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Int32(n) => Value::Int32(n),
        Value::Int64(n) => Value::Int64(n),
        Value::Double(n) => Value::Double(n),
        Value::Decimal128(n) => Value::Decimal128(n),
        Value::DateTime(ms) => Value::Int64(ms),
        _ => Value::Null,
    }
}

impl Fold for Area {
    fn take(&mut self, value: Value<'_>) {
        let (x, y) = pair(value);
        let point = (plain(x), plain(y));
        self.absorb(&Area { ends: Some([point, point]), sum: NumberSum::default() });
    }

    fn absorb(&mut self, later: &Area) {
        let Some([first, last]) = later.ends else { return };
        let Some([begin, end]) = self.ends else {
            *self = later.clone();
            return;
        };
        let width = number::subtract(first.0, end.0);
        let heights = number::add(end.1, first.1);
        self.sum.add(quotient(number::multiply(width, heights), Value::Int32(2)));
        self.sum.merge(&later.sum);
        self.ends = Some([begin, last]);
    }

    fn result(&self) -> Value<'static> {
        if self.ends.is_some() { self.sum.value() } else { Value::Null }
    }
}

/// The state of `$integral`.
pub(super) struct Integral {
    unit_ms: Option<i64>,
    area: Folded<Area>,
}

impl Integral {
    pub(super) fn new(unit_ms: Option<i64>, grows: bool) -> Integral {
        let area = Folded::default();
        Integral { unit_ms, area: if grows { area.growing() } else { area } }
    }
}

impl WindowState for Integral {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let (x, y) = pair(value);
        let is_date = matches!(x, Value::DateTime(_));
        if !y.is_number() || !(x.is_number() || is_date) {
            bail!(
                Code::Location(5_423_900),
                "The input value of $integral window function must be a vector of 2 value, the \
                 first value must be numeric or date type and the second must be numeric."
            );
        }
        match self.unit_ms {
            Some(_) if !is_date => bail!(
                Code::Location(5_423_901),
                "$integral with 'unit' expects the sortBy field to be a Date"
            ),
            None if is_date => bail!(
                Code::Location(5_423_902),
                "$integral (with no 'unit') expects the sortBy field to be numeric"
            ),
            _ => self.area.add(value),
        }
    }

    fn remove(&mut self) {
        self.area.remove();
    }

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        let area = self.area.result();
        out.put(match self.unit_ms {
            Some(unit) if area.is_number() => quotient(area, Value::Int64(unit)),
            _ => area,
        });
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.area.bytes()
    }
}
