//! `$sum` and `$count`.

use nagi_bson::{Value, ValueSlot};
use nagi_error::{Code, Result, bail};

use super::spec::{parsed, single};
use super::whole::WholeSums;
use super::{Accumulator, NumberSum, Parsed};
use crate::expr::{Expr, ParseCx, Vars};
use crate::window::{Counter, Fold, Folded};

/// Adds numbers and ignores all other values.
#[derive(Default, Clone)]
pub(crate) struct Sum(NumberSum);

pub(super) fn parse_sum(
    name: &'static str,
    value: Value<'_>,
    cx: &mut ParseCx<'_>,
) -> Result<Parsed> {
    Ok(single(name, value, cx, Sum::default)?
        .kept_as(WholeSums::default)
        .sliding(Folded::<Sum>::default))
}

pub(super) fn parse_count(
    name: &'static str,
    value: Value<'_>,
    _: &mut ParseCx<'_>,
) -> Result<Parsed> {
    match value {
        Value::Doc(doc) if doc.is_empty() => {
            Ok(parsed(Expr::constant(Value::Int32(1)), Sum::default)
                .kept_as(WholeSums::default)
                .sliding(Counter::default))
        }
        _ => bail!(Code::TYPE_MISMATCH, "{name} takes no arguments, i.e. {name}:{{}}"),
    }
}

impl Accumulator for Sum {
    fn add(&mut self, value: Value<'_>) -> Result<()> {
        self.0.add(value);
        Ok(())
    }

    fn add_doubles(&mut self, values: &[f64], _: &Vars<'_>) -> Result<()> {
        self.0.add_doubles(values);
        Ok(())
    }

    fn merge(&mut self, part: Value<'_>) -> Result<()> {
        self.0.merge(&NumberSum::from_partial(part));
        Ok(())
    }

    fn partial(&self, out: ValueSlot<'_>) {
        out.array(|out| self.0.write_partial(out));
    }

    fn finish(&mut self, out: ValueSlot<'_>) {
        out.put(self.0.value());
    }
}

impl Fold for Sum {
    fn take(&mut self, value: Value<'_>) {
        self.0.add(value);
    }

    fn absorb(&mut self, later: &Sum) {
        self.0.merge(&later.0);
    }

    fn result(&self) -> Value<'static> {
        self.0.value()
    }
}
