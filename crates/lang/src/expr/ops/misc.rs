//! Operators on types, truth values, sizes, timestamps and random numbers.
use super::prelude::*;
use crate::hash;

pub(super) static OPS: &[Operator] = &[
    unary("$binarySize", binary_size),
    unary("$bsonSize", bson_size),
    row("$isNumber", Args::Exactly(1), |_, args| Ok(Value::Bool(args[0].is_number()))),
    row("$not", Args::Exactly(1), |_, args| Ok(Value::Bool(!args[0].is_truthy()))),
    Operator { name: "$rand", args: Args::Any, nulls: Nulls::Pass, pure: false, eval: rand },
    unary("$subtype", |_, args| match args[0] {
        Value::Binary(data) => Ok(Value::Int32(i32::from(data.subtype))),
        other => bail!(
            Code::Location(10389300),
            "Provided value: {other}, does not have a subtype, but $subtype was used."
        ),
    }),
    row("$toHashedIndexKey", Args::Exactly(1), |_, args| {
        Ok(Value::Int64(hash::index_key(args[0])))
    }),
    unary("$tsIncrement", |_, args| {
        Ok(Value::Int64((timestamp("$tsIncrement", 5687302, args[0])? & 0xFFFF_FFFF) as i64))
    }),
    unary("$tsSecond", |_, args| {
        Ok(Value::Int64((timestamp("$tsSecond", 5687301, args[0])? >> 32) as i64))
    }),
    row("$type", Args::Exactly(1), |_, args| Ok(Value::String(type_name(args[0])))),
];

fn binary_size<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args[0] {
        Value::String(text) => Ok(Value::Int32(text.len() as i32)),
        Value::Binary(data) => Ok(Value::Int32(data.bytes.len() as i32)),
        other => bail!(
            Code::Location(51276),
            "$binarySize requires a string or BinData argument, found: {}",
            type_name(other)
        ),
    }
}

fn bson_size<'a>(_: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    match args[0] {
        Value::Doc(doc) => Ok(Value::Int32(doc.len() as i32)),
        other => bail!(
            Code::Location(31393),
            "$bsonSize requires a document input, found: {}",
            type_name(other)
        ),
    }
}

fn timestamp(name: &str, code: i32, value: Value<'_>) -> Result<u64> {
    match value {
        Value::Timestamp(stamp) => Ok(stamp),
        other => bail!(
            Code::Location(code),
            "Argument to {name} must be a timestamp, but is {}",
            type_name(other)
        ),
    }
}

/// A number in [0, 1).
fn rand<'a>(cx: &Eval<'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let none = match args {
        [] => true,
        [Value::Doc(doc)] => doc.is_empty(),
        _ => false,
    };
    if !none {
        bail!(Code::Location(3040501), "$rand does not currently accept arguments");
    }
    Ok(Value::Double((cx.random() >> 11) as f64 / (1u64 << 53) as f64))
}
