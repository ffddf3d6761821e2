//! `$firstN`, `$lastN`: by the order of the input; missing counts as null.

use nagi_bson::{Value, ValueSlot, number};
use nagi_error::{Code, Result, bail};

use super::spec::parsed;
use super::{Accumulator, Parsed, Queue};
use crate::expr::{Expr, ParseCx};
use crate::window::{Pick, Ring};

pub(super) fn parse(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
    last: bool,
) -> Result<Parsed> {
    let (input, n) = parse_n(name, value, cx)?;
    let pick = if last { Pick::LastN(n) } else { Pick::FirstN(n) };
    Ok(parsed(input, move || Several { last, n, values: Queue::default() })
        .sliding(move || Ring::new(pick)))
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
    count_of(n.as_const().unwrap_or(Value::Missing))
}

/// A value of `n` as a number.
pub(crate) fn count_of(value: Value<'_>) -> Result<usize> {
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

/// The first or last n values.
struct Several {
    last: bool,
    n: usize,
    values: Queue,
}

impl Accumulator for Several {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        if self.values.len() == self.n {
            if !self.last {
                return Ok(());
            }
            self.values.shift();
        }
        self.values.push(value);
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        self.values.write(out);
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}
