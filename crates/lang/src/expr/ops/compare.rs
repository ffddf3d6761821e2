//! `$cmp`, `$eq`, ...: BSON order over all types; missing sorts below null.

use std::cmp::Ordering;

use super::prelude::*;

pub(super) static OPS: &[Operator] = &[
    row("$cmp", Args::Exactly(2), |_, args| Ok(Value::Int32(order(args) as i32))),
    row("$eq", Args::Exactly(2), |_, args| Ok(Value::Bool(order(args).is_eq()))),
    row("$gt", Args::Exactly(2), |_, args| Ok(Value::Bool(order(args).is_gt()))),
    row("$gte", Args::Exactly(2), |_, args| Ok(Value::Bool(order(args).is_ge()))),
    row("$lt", Args::Exactly(2), |_, args| Ok(Value::Bool(order(args).is_lt()))),
    row("$lte", Args::Exactly(2), |_, args| Ok(Value::Bool(order(args).is_le()))),
    row("$ne", Args::Exactly(2), |_, args| Ok(Value::Bool(order(args).is_ne()))),
];

fn order(args: &[Value<'_>]) -> Ordering {
    compare::expr_values(args[0], args[1])
}
