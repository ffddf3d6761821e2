//! `$percentile` and `$median` over the numbers of an array.

use super::{Form, form};
use crate::accum::{Shares, countable};
use crate::expr::{Eval, Expr, ParseCx};
use nagi_bson::Value;
use nagi_error::Result;

pub(super) fn parse_percentile(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    form(Form::Percentile(Shares::parse("$percentile", argument, cx)?))
}

pub(super) fn parse_median(argument: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Expr> {
    form(Form::Percentile(Shares::parse("$median", argument, cx)?))
}

pub(super) fn eval<'a>(shares: &'a Shares, cx: &Eval<'a>) -> Result<Value<'a>> {
    let mut numbers: Vec<f64> = match shares.input.eval(cx)? {
        Value::Array(items) => {
            cx.check_work(2 * items.count() * size_of::<f64>())?;
            items.iter().filter_map(countable).collect()
        }
        other => countable(other).into_iter().collect(),
    };
    let result = cx.doc(|out| {
        shares.write(&mut numbers, out.slot(""));
        Ok(())
    })?;
    Ok(result.as_doc().map_or(Value::Missing, |doc| doc.get("")))
}
