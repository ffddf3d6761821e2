//! `$first`, `$last`, `$firstN`, `$lastN`: values by the order of the input; a missing value counts as null.

use std::collections::VecDeque;

use nagi_bson::{KeptValue, Value, ValueBuf, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::spec::{parsed, single};
use super::{Accumulator, Parsed, held_bytes};
use crate::expr::{Expr, ParseCx};
use crate::window::{Pick, Ring};

pub(super) fn parse_first(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let parsed = single(name, value, cx, || One { last: false, value: None })?;
    Ok(parsed.sliding(|| Ring::new(Pick::First)))
}

pub(super) fn parse_last(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let parsed = single(name, value, cx, || One { last: true, value: None })?;
    Ok(parsed.sliding(|| Ring::new(Pick::Last)))
}

pub(super) fn parse_first_n(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let (input, n) = parse_n(name, value, cx)?;
    Ok(parsed(input, move || Several { last: false, n, values: VecDeque::new(), bytes: 0 })
        .sliding(move || Ring::new(Pick::FirstN(n))))
}

pub(super) fn parse_last_n(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    let (input, n) = parse_n(name, value, cx)?;
    Ok(parsed(input, move || Several { last: true, n, values: VecDeque::new(), bytes: 0 })
        .sliding(move || Ring::new(Pick::LastN(n))))
}

/// Parses `{input, n}`; `n` must be a constant.
pub(super) fn parse_n(name: &str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<(Expr, usize)> {
    let Value::Doc(doc) = value else {
        bail!(Code::Location(5787900), "specification must be an object; found {name}: {value}");
    };
    let (mut input, mut n) = (None, None);
    for element in doc {
        match element.name() {
            "input" => input = Some(Expr::parse(element.value(), cx)?),
            "n" => n = Some(Expr::parse(element.value(), cx)?),
            other => bail!(Code::Location(5787901), "Unknown argument for 'n' operator: {other}"),
        }
    }
    let Some(n) = n else {
        bail!(Code::Location(5787906), "Missing value for 'n'");
    };
    let Some(input) = input else {
        bail!(Code::Location(5787907), "Missing value for 'input'");
    };
    Ok((input, count(&n)?))
}

/// The constant value of `n`.
pub(super) fn count(n: &Expr) -> Result<usize> {
    let value = n.as_const().unwrap_or(Value::Missing);
    if !value.is_number() {
        bail!(
            Code::Location(5787902),
            "Value for 'n' must be of integral type, but found {}",
            value.kind().name()
        );
    }
    match number::as_i64_exact(value) {
        Some(n) if n > 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        Some(n) => bail!(Code::Location(5787908), "'n' must be greater than 0, found {n}"),
        None => bail!(
            Code::Location(5787903),
            "Value for 'n' must be of integral type, but found {value}"
        ),
    }
}

struct One {
    last: bool,
    value: Option<KeptValue>,
}

impl Accumulator for One {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if self.last || self.value.is_none() {
            self.value = Some(KeptValue::new(value));
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
        out.array(|out| self.value.iter().for_each(|v| out.push(v.value())));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(match self.value.as_ref().map(KeptValue::value) {
            None | Some(Value::Missing) => Value::Null,
            Some(value) => value,
        });
    }

    fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, KeptValue::heap_bytes)
    }
}

struct Several {
    last: bool,
    n: usize,
    values: VecDeque<ValueBuf>,
    bytes: usize,
}

impl Accumulator for Several {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if self.values.len() == self.n {
            if !self.last {
                return Ok(());
            }
            self.bytes -= self.values.pop_front().as_ref().map_or(0, held_bytes);
        }
        let value = if value.is_missing() { Value::Null } else { value };
        let value = ValueBuf::new(value);
        self.bytes += held_bytes(&value);
        self.values.push_back(value);
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
