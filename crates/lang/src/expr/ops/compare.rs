//! `$cmp`, `$eq`, ...: comparisons by BSON order over all types. A missing value sorts below null.

use std::cmp::Ordering;

use super::prelude::*;

pub(super) static OPS: &[Operator] = &[
    row("$cmp", Args::Exactly(2), |cx, args| Ok(Value::Int32(order(cx, args) as i32))),
    row("$eq", Args::Exactly(2), |cx, args| Ok(Value::Bool(order(cx, args).is_eq()))),
    row("$gt", Args::Exactly(2), |cx, args| Ok(Value::Bool(order(cx, args).is_gt()))),
    row("$gte", Args::Exactly(2), |cx, args| Ok(Value::Bool(order(cx, args).is_ge()))),
    row("$lt", Args::Exactly(2), |cx, args| Ok(Value::Bool(order(cx, args).is_lt()))),
    row("$lte", Args::Exactly(2), |cx, args| Ok(Value::Bool(order(cx, args).is_le()))),
    row("$ne", Args::Exactly(2), |cx, args| Ok(Value::Bool(order(cx, args).is_ne()))),
];

fn order(cx: &Eval<'_>, args: &[Value<'_>]) -> Ordering {
    collation::expr_values(args[0], args[1], cx.collation)
}
