//! `$percentile` and `$median`: values at given shares of the sorted numbers.
//!
//! The method is called approximate and is exact here: the numbers are kept (8 bytes each) and sorted
//! once, and the answer is the one at rank `ceil(p * n)`. Values that are no numbers do not count.

use nagi_bson::{Array, Value, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::spec::parsed;
use super::{Accumulator, Parsed};
use crate::expr::{Expr, ParseCx};
use crate::window::SortedNumbers;

/// What one state may keep.
const PERCENTILE_BYTES_MAX: usize = 100 * 1024 * 1024;

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
        numbers.sort_by(|a, b| number::compare_f64(*a, *b));
        self.write_by(numbers.len(), &|at| numbers.get(at).copied(), out);
    }

    /// Writes the result for `count` numbers, of which `nth` gives one by its position in order.
    pub(crate) fn write_by(
        &self,
        count: usize,
        nth: &dyn Fn(usize) -> Option<f64>,
        out: ValueSlot<'_>,
    ) {
        let at = |share: f64| {
            let rank = (share * count as f64).ceil() as usize;
            nth(rank.saturating_sub(1)).map_or(Value::Null, Value::Double)
        };
        if self.single {
            out.put(at(0.5));
        } else {
            out.array(|out| self.shares.iter().for_each(|share| out.push(at(*share))));
        }
    }
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
    Ok(parsed(input, move || Percentile { shares: shares.clone(), numbers: Vec::new() })
        .sliding(move || SortedNumbers::new(over_window.clone())))
}

struct Percentile {
    shares: Shares,
    numbers: Vec<f64>,
}

impl Accumulator for Percentile {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if let Some(n) = number::as_f64(value) {
            self.numbers.push(n);
            if self.bytes() > PERCENTILE_BYTES_MAX {
                bail!(
                    Code::EXCEEDED_MEMORY_LIMIT,
                    "$percentile used too much memory and cannot spill to disk. Memory limit: \
                     {PERCENTILE_BYTES_MAX} bytes"
                );
            }
        }
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        match part {
            Value::Array(numbers) => numbers.iter().try_for_each(|n| self.add(n)),
            _ => Ok(()),
        }
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.numbers.iter().for_each(|n| out.push(*n)));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        self.shares.write(&mut self.numbers, out);
    }

    fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<f64>()
    }
}
