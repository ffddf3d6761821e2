//! `$firstN`, `$lastN`, `$maxN`, `$minN`: select n elements of an array.
use std::cmp::Ordering;

use super::prelude::*;
use crate::accum::count_of;
use crate::collation;
use crate::ordered::order_slowly;
use nagi_bson::Array;

pub(super) static OPS: &[Named] = &[
    Named { name: "$firstN", eval: |given| part(given, false), ..N },
    Named { name: "$lastN", eval: |given| part(given, true), ..N },
    Named { name: "$maxN", eval: |given| extremes(given, Ordering::Greater), ..N },
    Named { name: "$minN", eval: |given| extremes(given, Ordering::Less), ..N },
];

const N: Named = Named {
    name: "",
    params: &[("n", Some(5787906)), ("input", Some(5787907))],
    not_object: 5787900,
    unknown: 5787901,
    short: None,
    eval: |given| part(given, false),
};

/// Evaluates `n` and the array; none if the array is null.
fn operands<'a>(given: &Given<'a, '_>) -> Result<Option<(usize, Array<'a>)>> {
    let (n, input) = (given.value(0)?, given.value(1)?);
    let items = match input {
        Value::Array(items) => items,
        value if value.is_nullish() => return Ok(None),
        _ => bail!(Code::Location(5788200), "Input must be an array"),
    };
    Ok(Some((count_of(n)?, items)))
}

fn part<'a>(given: &Given<'a, '_>, last: bool) -> Result<Value<'a>> {
    let Some((n, items)) = operands(given)? else {
        return Ok(Value::Null);
    };
    let skip = if last { items.count().saturating_sub(n) } else { 0 };
    given.cx.array(|out| {
        for item in items.iter().skip(skip).take(n) {
            out.push(given.cx.fitting(out.len(), item)?);
            given.cx.check_written(out.len())?;
        }
        Ok(())
    })
}

fn extremes<'a>(given: &Given<'a, '_>, wanted: Ordering) -> Result<Value<'a>> {
    let Some((n, items)) = operands(given)? else {
        return Ok(Value::Null);
    };
    let mut values = given.cx.list(items)?;
    values.retain(|v| !v.is_nullish());
    let compare = |a: &Value<'a>, b: &Value<'a>| {
        let order = collation::values(*a, *b, given.cx.collation);
        if wanted.is_gt() { order.reverse() } else { order }
    };
    given.cx.check_work(values.len() * size_of::<Value<'_>>())?;
    order_slowly(&mut values, &compare, &mut || given.cx.vars.step())?;
    values.truncate(n);
    given.cx.array_of(&values)
}
