//! `$min`, `$max`, `$minN`, `$maxN`: extremes in BSON order; null and missing are ignored.

use std::cmp::Ordering;

use nagi_bson::{KeptValue, Value, ValueBuf, ValueSlot};
use nagi_error::Result;

use super::positions::parse_n;
use super::spec::{parsed, single};
use super::{Accumulator, Parsed, held_bytes};
use crate::collation::{self, Collation};
use crate::expr::{Expr, ParseCx};
use crate::window::{Extremum, Least};

/// The smallest or largest value so far.
pub(crate) struct Extreme {
    wanted: Ordering,
    collation: Option<&'static Collation>,
    value: Option<KeptValue>,
}

pub(super) fn parse_min(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let own = cx.collation();
    let parsed = single(name, value, cx, move || Extreme::new(Ordering::Less, own))?;
    Ok(parsed.sliding(move || Extremum::new(Ordering::Less, own)))
}

pub(super) fn parse_max(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let own = cx.collation();
    let parsed = single(name, value, cx, move || Extreme::new(Ordering::Greater, own))?;
    Ok(parsed.sliding(move || Extremum::new(Ordering::Greater, own)))
}

impl Extreme {
    /// `Less` selects the smallest, `Greater` the largest value.
    pub(crate) fn new(wanted: Ordering, collation: Option<&'static Collation>) -> Extreme {
        Extreme { wanted, collation, value: None }
    }
}

impl Accumulator for Extreme {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let better = match &self.value {
            Some(best) => collation::values(value, best.value(), self.collation) == self.wanted,
            None => true,
        };
        if better {
            self.value = Some(KeptValue::new(value));
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        self.add(part)
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.put(self.value.as_ref().map_or(Value::Null, KeptValue::value));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.partial(out);
    }

    fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, KeptValue::heap_bytes)
    }
}

/// The n smallest or largest values, sorted.
struct Extremes {
    wanted: Ordering,
    collation: Option<&'static Collation>,
    n: usize,
    values: Vec<ValueBuf>,
    bytes: usize,
}

pub(super) fn parse_min_n(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let (input, n) = parse_n(name, value, cx)?;
    Ok(parsed_extremes(input, n, Ordering::Less, cx.collation()))
}

pub(super) fn parse_max_n(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let (input, n) = parse_n(name, value, cx)?;
    Ok(parsed_extremes(input, n, Ordering::Greater, cx.collation()))
}

fn parsed_extremes(
    input: Expr,
    n: usize,
    wanted: Ordering,
    collation: Option<&'static Collation>,
) -> Parsed {
    parsed(input, move || Extremes { wanted, collation, n, values: Vec::new(), bytes: 0 })
        .sliding(move || Least::values(wanted, n, collation))
}

impl Accumulator for Extremes {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if value.is_nullish() {
            return Ok(());
        }
        let better = |other: &ValueBuf| {
            collation::values(value, other.value(), self.collation) == self.wanted
        };
        let at = self.values.partition_point(|other| !better(other));
        if at < self.n {
            let value = ValueBuf::new(value);
            self.bytes += held_bytes(&value);
            self.values.insert(at, value);
            if self.values.len() > self.n {
                self.bytes -= self.values.pop().as_ref().map_or(0, held_bytes);
            }
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|v| self.add(v)),
            _ => Ok(()),
        }
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.values.iter().for_each(|v| out.push(v.value())));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.partial(out);
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
