//! `$locf` and `$linearFill`: fill in missing values from neighbouring documents.

use std::collections::VecDeque;

use nagi_bson::{Type, Value, ValueBuf, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::WindowState;
use super::calculus::quotient;

/// The last value that is not null or missing.
#[derive(Default)]
pub(super) struct LastKnown(Option<ValueBuf>);

impl WindowState for LastKnown {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if !value.is_nullish() {
            self.0 = Some(ValueBuf::new(value));
        }
        Ok(())
    }

    fn remove(&mut self) {}

    fn write(&mut self, _: u64, out: ValueSlot<'_>) -> Result<()> {
        out.put(self.0.as_ref().map_or(Value::Null, ValueBuf::value));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, ValueBuf::heap_bytes)
    }
}

/// A point. `x` is a number, or a date as its milliseconds; `y` is none if the value has to be filled in.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: Value<'static>,
    y: Option<Value<'static>>,
}

/// Linear interpolation between the known values. The values are pairs `[sort key, input]`. The state reads ahead to
/// the next known value, so it keeps as many points as the longest gap has.
#[derive(Default)]
pub(super) struct LinearFill {
    /// The last known point before the current document.
    before: Option<(Value<'static>, Value<'static>)>,
    /// The points from the current document on. The first one has the position `first`.
    points: VecDeque<Point>,
    first: u64,
    last_key: Option<(Type, Value<'static>)>,
}

fn number_of(value: Value<'_>) -> Option<Value<'static>> {
    Some(match value {
        Value::Int32(n) => Value::Int32(n),
        Value::Int64(n) => Value::Int64(n),
        Value::Double(n) => Value::Double(n),
        Value::Decimal128(n) => Value::Decimal128(n),
        _ => return None,
    })
}

impl LinearFill {
    fn point(&mut self, key: Value<'_>, input: Value<'_>) -> Result<Point> {
        let y = match number_of(input) {
            None if !input.is_nullish() => bail!(
                Code::TYPE_MISMATCH,
                "Value to be filled must be numeric or nullish, but found type: {}",
                input.kind().name()
            ),
            y => y,
        };
        let x = match key {
            Value::DateTime(ms) => Some(Value::Int64(ms)),
            key => number_of(key),
        };
        let Some(x) = x else {
            bail!(
                Code::TYPE_MISMATCH,
                "Expected sortBy value to be numeric or a date, but found type: {}",
                key.kind().name()
            );
        };
        let is_date = |kind| kind == Type::Date;
        if let Some((kind, last)) = self.last_key {
            if is_date(kind) != is_date(key.kind()) {
                bail!(
                    Code::TYPE_MISMATCH,
                    "Conflicting sort value types, previous and current types don't match"
                );
            }
            if number::compare(last, x).is_eq() {
                bail!(
                    Code::Location(6_050_106),
                    "There can be no repeated values in the sort field in the same partition"
                );
            }
        }
        self.last_key = Some((key.kind(), x));
        Ok(Point { x, y })
    }

    /// Drops the points before `current`.
    fn come_to(&mut self, current: u64) {
        while self.first < current {
            let Some(point) = self.points.pop_front() else { return };
            self.first += 1;
            if let Some(y) = point.y {
                self.before = Some((point.x, y));
            }
        }
    }

    fn value(&self) -> Value<'static> {
        let Some(here) = self.points.front() else { return Value::Null };
        if let Some(y) = here.y {
            return y;
        }
        let after = self.points.back().and_then(|point| point.y.map(|y| (point.x, y)));
        let (Some((x1, y1)), Some((x2, y2))) = (self.before, after) else { return Value::Null };
        let slope = quotient(number::subtract(y2, y1), number::subtract(x2, x1));
        let along = number::multiply(number::subtract(here.x, x1), slope);
        match number::add(y1, along) {
            Value::Decimal128(n) => Value::Decimal128(n),
            sum => Value::Double(number::as_f64(sum).unwrap_or(f64::NAN)),
        }
    }
}

impl WindowState for LinearFill {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        let pair = value.as_array();
        let part = |at| pair.map_or(Value::Missing, |pair| pair.get(at));
        let point = self.point(part(0), part(1))?;
        self.points.push_back(point);
        Ok(())
    }

    fn remove(&mut self) {}

    fn needs_more(&mut self, current: u64) -> bool {
        self.come_to(current);
        let known = |point: Option<&Point>| point.is_some_and(|point| point.y.is_some());
        self.before.is_some() && !known(self.points.front()) && !known(self.points.back())
    }

    fn write(&mut self, current: u64, out: ValueSlot<'_>) -> Result<()> {
        self.come_to(current);
        out.put(self.value());
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.points.capacity() * size_of::<Point>()
    }
}
