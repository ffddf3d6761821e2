//! `$percentile` and `$median`: values at given shares of the sorted numbers.
//!
//! The method is called approximate: a group's answer is exact, the number at rank `ceil(p * n)`, while
//! its numbers are few, and that of a t-digest when they are many (see `digest`). An array's numbers, and
//! those of a moving window, are there anyway and answered exactly. Values that are no numbers do not
//! count, nor does NaN.

use nagi_bson::{Array, Value, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::digest::Digest;
use super::spec::parsed;
use super::{Accumulator, Parsed};
use crate::expr::{Expr, ParseCx};
use crate::window::SortedNumbers;

/// The specification, parsed: what is looked at and which shares are wanted.
#[derive(Debug, Clone)]
pub struct Shares {
    pub(crate) input: Expr,
    /// Each from 0 to 1.
    pub(crate) shares: Box<[f64]>,
    /// Whether the result is one number instead of an array.
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

    /// Writes the result for `numbers`, which get sorted.
    pub(crate) fn write(&self, numbers: &mut [f64], out: ValueSlot<'_>) {
        numbers.sort_unstable_by(f64::total_cmp);
        self.write_by(&mut |share| numbers.get(position(share, numbers.len())).copied(), out);
    }

    /// Writes the result, each number as `at` finds it for its share.
    pub(crate) fn write_by(&self, at: &mut dyn FnMut(f64) -> Option<f64>, out: ValueSlot<'_>) {
        let mut found = |share| at(share).map_or(Value::Null, Value::Double);
        if self.single {
            out.put(found(0.5));
        } else {
            out.array(|out| self.shares.iter().for_each(|share| out.push(found(*share))));
        }
    }
}

/// Where a share's number stands among `count` sorted ones.
pub(crate) fn position(share: f64, count: usize) -> usize {
    ((share * count as f64).ceil() as usize).saturating_sub(1)
}

/// A value as a number that counts; what is none, and NaN, does not.
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
