//! `$convert`: converts a value to another type. If the conversion fails, the result is `onError` or the error 241.
use super::prelude::*;
use crate::time;
use nagi_bson::{Decimal128, Type, json};

mod numbers;
mod plain_json;
mod texts;

pub(super) use texts::uuid_bytes;

pub(super) static OPS: &[Named] = &[Named {
    name: "$convert",
    params: &[
        ("input", Some(9)),
        ("to", Some(9)),
        ("onError", None),
        ("onNull", None),
        ("format", None),
        ("byteOrder", None),
        ("base", None),
    ],
    not_object: 9,
    unknown: 9,
    short: None,
    eval: eval_convert,
}];

/// The target type, with a subtype for binary data.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) kind: Type,
    pub(super) subtype: Option<u8>,
}

fn eval_convert<'a>(given: &Given<'a, '_>) -> Result<Value<'a>> {
    let to = given.value(1)?;
    let target = if to.is_nullish() { None } else { Some(target(to)?) };
    let input = given.value(0)?;
    if input.is_nullish() {
        return given.value_or_null(3);
    }
    let Some(target) = target else {
        return Ok(Value::Null);
    };
    let how = how(given)?;
    match convert(given.cx, input, target, how) {
        Err(error) if error.code() == Code::CONVERSION_FAILURE && given.has(2) => given.value(2),
        result => result,
    }
}

/// The options of a conversion between strings or bytes and other values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How<'h> {
    /// The text format of binary data (`hex`, `base64`, ...).
    pub(super) format: Option<&'h str>,
    /// True if a number in binary data begins with its most significant byte.
    big_endian: bool,
    /// The base of integers in strings: 2, 8, 10 or 16.
    base: Option<u32>,
}

impl How<'static> {
    /// The options that the shorthands (`$toString`, ...) use.
    pub(super) fn format(format: &'static str) -> How<'static> {
        How { format: Some(format), ..How::default() }
    }
}

fn how<'a>(given: &Given<'a, '_>) -> Result<How<'a>> {
    let text = |at: usize, name: &str, code: i32| match given.value(at)? {
        Value::String(text) => Ok(Some(text)),
        value if value.is_nullish() => Ok(None),
        other => bail!(
            Code::Location(code),
            "$convert requires that '{name}' be a string, found: {} with value {other}",
            type_name(other)
        ),
    };
    let format = text(4, "format", 4341114)?;
    let big_endian = match text(5, "byteOrder", 9130001)? {
        None | Some("little") => false,
        Some("big") => true,
        Some(other) => {
            bail!(Code::Location(9130002), "Invalid 'byteOrder' argument for $convert: {other}")
        }
    };
    let base = given.value(6)?;
    let base = match number::as_i64_exact(base) {
        _ if base.is_nullish() => None,
        Some(base @ (2 | 8 | 10 | 16)) => Some(base as u32),
        Some(_) => {
            bail!(Code::Location(3501301), "In $convert, 'base' argument is not a valid base")
        }
        None => bail!(Code::Location(3501300), "In $convert, 'base' argument is not an integer"),
    };
    Ok(How { format, big_endian, base })
}

fn target(to: Value<'_>) -> Result<Target> {
    let kind = match to {
        Value::String(name) => match kind_by_name(name) {
            Some(kind) => kind,
            None => bail!(Code::BAD_VALUE, "Unknown type name: {name}"),
        },
        Value::Doc(doc) if !doc.get("type").is_missing() => {
            let subtype = subtype(doc.get("subtype"))?;
            return Ok(Target { kind: target(doc.get("type"))?.kind, subtype });
        }
        value if value.is_number() => {
            let Some(code) = number::as_i64_exact(value) else {
                bail!(
                    Code::FAILED_TO_PARSE,
                    "In $convert, numeric 'to' argument is not an integer"
                );
            };
            match kind_by_code(code) {
                Some(kind) => kind,
                None => bail!(
                    Code::FAILED_TO_PARSE,
                    "In $convert, numeric value for 'to' does not correspond to a BSON type: {code}"
                ),
            }
        }
        other => bail!(
            Code::FAILED_TO_PARSE,
            "$convert's 'to' argument must be a string or number, but is {}",
            type_name(other)
        ),
    };
    Ok(Target { kind, subtype: None })
}

fn subtype(value: Value<'_>) -> Result<Option<u8>> {
    if value.is_nullish() {
        return Ok(None);
    }
    if !value.is_number() {
        bail!(
            Code::Location(4341108),
            "For BinData, $convert's 'subtype' argument must be a number, but is {}",
            type_name(value)
        );
    }
    let Some(code) = number::as_i64_exact(value) else {
        bail!(Code::Location(4341106), "In $convert, numeric 'subtype' argument is not an integer");
    };
    match u8::try_from(code) {
        // Subtypes between the standard's and the user-defined ones are not assigned.
        Ok(subtype @ (0..=9 | 128..)) => Ok(Some(subtype)),
        _ => bail!(
            Code::Location(4341107),
            "In $convert, numeric value for 'subtype' does not correspond to a BinData type: {code}"
        ),
    }
}

fn kind_by_code(code: i64) -> Option<Type> {
    match code {
        -1 => Some(Type::MinKey),
        0 => Some(Type::Missing),
        255 => None,
        code => u8::try_from(code).ok().and_then(Type::from_byte),
    }
}

fn kind_by_name(name: &str) -> Option<Type> {
    (0..=255).filter_map(Type::from_byte).chain([Type::Missing]).find(|kind| kind.name() == name)
}

fn failure(message: impl std::fmt::Display) -> Error {
    Error::new(Code::CONVERSION_FAILURE, format!("{message} in $convert with no onError value"))
}

/// A failure whose message ends with the value, without quotes.
fn failed_with(message: &str, value: impl std::fmt::Display) -> Error {
    Error::new(
        Code::CONVERSION_FAILURE,
        format!("{message} in $convert with no onError value: {value}"),
    )
}

fn overflow(value: Value<'_>) -> Error {
    let message = "Conversion would overflow target type";
    match value {
        Value::Double(n) => failed_with(message, json::double_text_of(n, 6)),
        other => failed_with(message, other),
    }
}

fn unsupported(value: Value<'_>, kind: Type) -> Error {
    failure(format_args!("Unsupported conversion from {} to {}", type_name(value), kind.name()))
}

/// Converts a value that is not null.
pub(super) fn convert<'a>(
    cx: &Eval<'a>,
    value: Value<'a>,
    target: Target,
    how: How<'_>,
) -> Result<Value<'a>> {
    match target.kind {
        Type::Bool => Ok(Value::Bool(to_bool(value))),
        Type::Double => numbers::to_double(value, how).map(Value::Double),
        Type::Int => {
            let range = (i64::from(i32::MIN), i64::from(i32::MAX));
            numbers::to_integer(value, Type::Int, range, how).map(|n| Value::Int32(n as i32))
        }
        Type::Long => {
            numbers::to_integer(value, Type::Long, (i64::MIN, i64::MAX), how).map(Value::Int64)
        }
        Type::Decimal => numbers::to_decimal(value, how).map(Value::Decimal128),
        Type::String => texts::to_string(cx, value, how),
        Type::ObjectId => texts::to_object_id(cx, value),
        Type::Date => to_date(value).map(Value::DateTime),
        Type::BinData => texts::to_binary(cx, value, target.subtype, how),
        Type::Object => match value {
            Value::Doc(_) => Ok(value),
            Value::String(text) => plain_json::read(cx, text, true),
            _ => Err(unsupported(value, Type::Object)),
        },
        Type::Array => match value {
            Value::Array(_) => Ok(value),
            Value::String(text) => plain_json::read(cx, text, false),
            Value::Binary(_) => super::similarity::elements(cx, value)
                .ok_or_else(|| unsupported(value, Type::Array)),
            _ => Err(unsupported(value, Type::Array)),
        },
        kind => Err(unsupported(value, kind)),
    }
}

/// Numbers convert by their value; all other values except false are true.
fn to_bool(value: Value<'_>) -> bool {
    match value {
        Value::Bool(_) => value.is_truthy(),
        _ if value.is_number() => value.is_truthy(),
        _ => true,
    }
}

fn to_date(value: Value<'_>) -> Result<i64> {
    match value {
        Value::DateTime(ms) => Ok(ms),
        Value::Timestamp(stamp) => Ok((stamp >> 32) as i64 * 1000),
        Value::ObjectId(id) => Ok(super::date_parts::object_id_ms(id)),
        Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
            numbers::to_integer(value, Type::Date, (i64::MIN, i64::MAX), How::default())
        }
        Value::String(text) => time::parse(text, None),
        _ => Err(unsupported(value, Type::Date)),
    }
}
