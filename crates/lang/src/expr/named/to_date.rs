//! The shorthands of `$convert`: `$toDate`, `$toString`, ...
use super::convert::{How, Target, convert};
use super::prelude::*;
use nagi_bson::Type;

macro_rules! shorthand {
    ($name:literal, $kind:expr) => {
        shorthand!($name, Target { kind: $kind, subtype: None }, "auto")
    };
    ($name:literal, $target:expr, $format:literal) => {
        Named {
            name: $name,
            params: &[("input", Some(50723))],
            not_object: 50723,
            unknown: 50723,
            short: Some(single),
            eval: |given| {
                let input = given.value(0)?;
                if input.is_nullish() {
                    return Ok(Value::Null);
                }
                convert(given.cx, input, $target, How::format($format))
            },
        }
    };
}

pub(super) static OPS: &[Named] = &[
    shorthand!("$toArray", Type::Array),
    shorthand!("$toBool", Type::Bool),
    shorthand!("$toDate", Type::Date),
    shorthand!("$toDecimal", Type::Decimal),
    shorthand!("$toDouble", Type::Double),
    shorthand!("$toInt", Type::Int),
    shorthand!("$toLong", Type::Long),
    shorthand!("$toObject", Type::Object),
    shorthand!("$toObjectId", Type::ObjectId),
    shorthand!("$toString", Type::String),
    shorthand!("$toUUID", Target { kind: Type::BinData, subtype: Some(4) }, "uuid"),
];

/// Parses one argument, alone or in an array.
fn single(row: &'static Named, value: Value<'_>, cx: &mut ParseCx<'_>) -> Result<Option<Args>> {
    let args = parse::arguments(value, cx)?;
    match <[Expr; 1]>::try_from(args.into_vec()) {
        Ok([input]) => Ok(Some(Box::new([Some(input)]))),
        Err(args) => bail!(
            Code::Location(50723),
            "{} requires a single argument, got {}",
            row.name,
            args.len()
        ),
    }
}
