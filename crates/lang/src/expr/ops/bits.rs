//! Bitwise operators. They accept only ints and longs; mixed arguments give a long.
use super::prelude::*;

pub(super) static OPS: &[Operator] = &[
    row("$bitAnd", Args::Any, |_, args| fold("$bitAnd", args, -1, |a, b| a & b)),
    unary("$bitNot", |_, args| match args[0] {
        Value::Int32(n) => Ok(Value::Int32(!n)),
        Value::Int64(n) => Ok(Value::Int64(!n)),
        other => Err(not_integer("$bitNot", other)),
    }),
    row("$bitOr", Args::Any, |_, args| fold("$bitOr", args, 0, |a, b| a | b)),
    row("$bitXor", Args::Any, |_, args| fold("$bitXor", args, 0, |a, b| a ^ b)),
];

fn not_integer(name: &str, value: Value<'_>) -> Error {
    err!(
        Code::TYPE_MISMATCH,
        "{name} only supports int and long operands, not {}",
        type_name(value)
    )
}

fn fold<'a>(
    name: &str,
    args: &[Value<'a>],
    start: i64,
    combine: fn(i64, i64) -> i64,
) -> Result<Value<'a>> {
    let (mut total, mut long) = (start, false);
    for arg in args {
        match *arg {
            Value::Int32(n) => total = combine(total, i64::from(n)),
            Value::Int64(n) => {
                total = combine(total, n);
                long = true;
            }
            value if value.is_nullish() => return Ok(Value::Null),
            other => return Err(not_integer(name, other)),
        }
    }
    Ok(if long { Value::Int64(total) } else { super::arith::int_or_long(total) })
}
