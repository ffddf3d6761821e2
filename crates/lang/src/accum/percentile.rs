//! `$percentile` and `$median`: the values at given percentiles of the sorted numbers.
//!
//! The method is named `approximate`. For a group with few numbers the result is exact: the number at rank `ceil(p *
//! n)`. For many numbers it is the result of a t-digest (see `digest`). The numbers of an array, and those of a
//! moving window, are in memory anyway, and their results are exact. NaN and values that are not numbers are ignored.

use nagi_bson::{Array, Value, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::digest::Digest;
use super::spec::parsed;
use super::{Accumulator, Parsed};
use crate::expr::{Expr, ParseCx};
use crate::window::SortedNumbers;

/// The parsed specification: the input and the requested percentiles.
#[derive(Debug, Clone)]
pub struct Shares {
    pub(crate) input: Expr,
    /// The percentiles, each from 0 to 1.
    pub(crate) shares: Box<[f64]>,
    /// True if the result is one number and not an array.
    pub(crate) single: bool,
}

impl Shares {
    /// Parses `{input, p, method}`; `$median` has no `p`.
    pub(crate) fn parse(name: &str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Shares> {
        let Value::Doc(doc) = value else {
            let code = if name == "$median" { 7_436_100 } else { 7_429_703 };
            bail!(Code::Location(code), "specification must be an object; found {name}: {value}");
        };
        let single = name == "$median";
        let (mut input, mut shares, mut method) = (None, None, false);
        for element in doc {
            match element.name() {
                "input" => input = Some(Expr::parse(element.value(), cx)?),
                "p" if !single => shares = Some(self::shares(element.value(), cx)?),
                "method" => method = check_method(name, element.value())?,
                other => {
                    bail!(Code::Location(40415), "BSON field '{name}.{other}' is an unknown field.")
                }
            }
        }
        let shares = if single { Some(Box::from([0.5])) } else { shares };
        let missing = |field: &str| {
            nagi_error::err!(
                Code::Location(40414),
                "BSON field '{name}.{field}' is missing but a required field"
            )
        };
        let input = input.ok_or_else(|| missing("input"))?;
        let shares = shares.ok_or_else(|| missing("p"))?;
        if !method {
            return Err(missing("method"));
        }
        Ok(Shares { input, shares, single })
    }

    /// Sorts `numbers` and writes the result for them.
    pub(crate) fn write(&self, numbers: &mut [f64], out: ValueSlot<'_>) {
        numbers.sort_unstable_by(f64::total_cmp);
        self.write_by(&mut |share| numbers.get(position(share, numbers.len())).copied(), out);
    }

    /// Writes the result; `at` returns the number for each percentile.
    pub(crate) fn write_by(&self, at: &mut dyn FnMut(f64) -> Option<f64>, out: ValueSlot<'_>) {
        let mut found = |share| at(share).map_or(Value::Null, Value::Double);
        if self.single {
            out.put(found(0.5));
        } else {
            out.array(|out| self.shares.iter().for_each(|share| out.push(found(*share))));
        }
    }
}

/// The index of the number for a percentile among `count` sorted numbers.
pub(crate) fn position(share: f64, count: usize) -> usize {
    ((share * count as f64).ceil() as usize).saturating_sub(1)
}

/// The value as a number; none for NaN and for values that are not numbers.
pub(crate) fn countable(value: Value<'_>) -> Option<f64> {
    number::as_f64(value).filter(|n| !n.is_nan())
}

fn shares(value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Box<[f64]>> {
    let expr = Expr::parse(value, cx)?;
    let bad = || {
        nagi_error::err!(
            Code::Location(7750301),
            "The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: \
             {value}"
        )
    };
    let items = expr.as_const().and_then(|v| v.as_array()).unwrap_or(Array::EMPTY);
    if items.is_empty() {
        return Err(bad());
    }
    let share = |item| match number::as_f64(item) {
        Some(n) if (0.0..=1.0).contains(&n) => Ok(n),
        _ => Err(bad()),
    };
    items.iter().map(share).collect()
}

fn check_method(name: &str, value: Value<'_>) -> Result<bool> {
    match value {
        Value::String("approximate") => Ok(true),
        Value::String(_) => bail!(
            Code::BAD_VALUE,
            "Currently only 'approximate' can be used as percentile 'method'."
        ),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field '{name}.method' is the wrong type '{}', expected type 'string'",
            other.kind().name()
        ),
    }
}

pub(super) fn parse(name: &'static str, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Parsed> {
    let shares = Shares::parse(name, value, cx)?;
    let input = shares.input.clone();
    let over_window = shares.clone();
    Ok(parsed(input, move || Percentile { shares: shares.clone(), digest: Digest::default() })
        .sliding(move || SortedNumbers::new(over_window.clone())))
}

struct Percentile {
    shares: Shares,
    digest: Digest,
}

impl Accumulator for Percentile {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if let Some(n) = countable(value) {
            self.digest.add(n);
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        if let Value::Doc(part) = part {
            self.digest.merge(part);
        }
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        self.digest.partial(out);
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        let digest = &mut self.digest;
        self.shares.write_by(&mut |share| digest.at(share), out);
    }

    fn bytes(&self) -> usize {
        self.digest.bytes()
    }
}
