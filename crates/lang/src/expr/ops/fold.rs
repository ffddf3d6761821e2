//! Accumulators as expressions: they fold their arguments, or the elements of a single array argument.
use std::cmp::Ordering;

use super::prelude::*;
use crate::accum::{Accumulator, Average, Best, MergeObjects, One, Spread, Sum};

pub(super) static OPS: &[Operator] = &[
    row("$avg", Args::Any, |cx, args| over(cx, args, Average::default())),
    row("$max", Args::Any, |cx, args| {
        over(cx, args, One::new(Best::new(Ordering::Greater, cx.collation)))
    }),
    row("$mergeObjects", Args::Any, |cx, args| over(cx, args, MergeObjects::default())),
    row("$min", Args::Any, |cx, args| {
        over(cx, args, One::new(Best::new(Ordering::Less, cx.collation)))
    }),
    row("$stdDevPop", Args::Any, |cx, args| over(cx, args, Spread::new(false))),
    row("$stdDevSamp", Args::Any, |cx, args| over(cx, args, Spread::new(true))),
    row("$sum", Args::Any, |cx, args| over(cx, args, Sum::default())),
];

fn over<'a>(cx: &Eval<'a>, args: &[Value<'a>], mut state: impl Accumulator) -> Result<Value<'a>> {
    match args {
        [Value::Array(items)] => items.iter().try_for_each(|v| {
            cx.vars.step()?;
            state.add(v)
        })?,
        values => values.iter().try_for_each(|v| state.add(*v))?,
    }
    let result = cx.doc(|out| {
        state.finish(out.slot(""));
        Ok(())
    })?;
    Ok(result.as_doc().map_or(Value::Missing, |doc| doc.get("")))
}
