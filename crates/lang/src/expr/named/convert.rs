//! `$convert`: from type to type; a value that does not go gives `onError` or code 241.
use super::prelude::*;
use crate::expr::print;
use crate::time;
use nagi_bson::{Binary, Decimal128, Type, json, text::Hex};

pub(super) static OPS: &[Named] = &[Named {
    name: "$convert",
    params: &[
        ("input", Some(9)),
        ("to", Some(9)),
        ("onError", None),
        ("onNull", None),
        ("format", None),
    ],
    not_object: 9,
    unknown: 9,
    short: None,
    eval: eval_convert,
}];

/// The type wanted, with a subtype for binary data.
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
    let format = match given.value(4)? {
        Value::String(format) => Some(format),
        value if value.is_nullish() => None,
        other => bail!(
            Code::Location(4341114),
            "$convert requires that 'format' be a string, found: {}",
            type_name(other)
        ),
    };
    match convert(given.cx, input, target, format) {
        Err(error) if error.code() == Code::CONVERSION_FAILURE && given.has(2) => given.value(2),
        result => result,
    }
}

fn target(to: Value<'_>) -> Result<Target> {
    let kind = match to {
        Value::String(name) => match kind_by_name(name) {
            Some(kind) => kind,
            None => bail!(Code::BAD_VALUE, "Unknown type name: {name}"),
        },
        Value::Doc(doc) if !doc.get("type").is_missing() => {
            let subtype = match number::as_i64_exact(doc.get("subtype")) {
                Some(n) => u8::try_from(n).ok(),
                None => None,
            };
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

fn overflow(value: Value<'_>) -> Error {
    failure(format_args!("Conversion would overflow target type: {value}"))
}

fn unsupported(value: Value<'_>, kind: Type) -> Error {
    failure(format_args!("Unsupported conversion from {} to {}", type_name(value), kind.name()))
}

/// Converts a value that is not null.
pub(super) fn convert<'a>(
    cx: &Eval<'a>,
    value: Value<'a>,
    target: Target,
    format: Option<&str>,
) -> Result<Value<'a>> {
    match target.kind {
        Type::Bool => Ok(Value::Bool(to_bool(value))),
        Type::Double => to_double(value).map(Value::Double),
        Type::Int => to_integer(value, Type::Int, i64::from(i32::MIN), i64::from(i32::MAX))
            .map(|n| Value::Int32(n as i32)),
        Type::Long => to_integer(value, Type::Long, i64::MIN, i64::MAX).map(Value::Int64),
        Type::Decimal => to_decimal(value).map(Value::Decimal128),
        Type::String => to_string(cx, value, format),
        Type::ObjectId => to_object_id(cx, value),
        Type::Date => to_date(value).map(Value::DateTime),
        Type::BinData => to_binary(cx, value, target.subtype, format),
        kind => Err(unsupported(value, kind)),
    }
}

/// Numbers by their value; everything else that is there is true.
fn to_bool(value: Value<'_>) -> bool {
    match value {
        Value::Bool(_) => value.is_truthy(),
        _ if value.is_number() => value.is_truthy(),
        _ => true,
    }
}

fn not_a_number(text: &str, why: &str) -> Error {
    Error::new(
        Code::CONVERSION_FAILURE,
        format!("Failed to parse number '{text}' in $convert with no onError value: {why}"),
    )
}

fn check_hexadecimal(text: &str) -> Result<()> {
    if text.starts_with("0x") {
        return Err(failure(format_args!("Illegal hexadecimal input in $convert: {text}")));
    }
    Ok(())
}

fn to_double(value: Value<'_>) -> Result<f64> {
    match value {
        Value::Bool(b) => Ok(f64::from(u8::from(b))),
        Value::DateTime(ms) => Ok(ms as f64),
        Value::Decimal128(n) => {
            let double = n.to_f64();
            if double.is_infinite() && n.is_finite() { Err(overflow(value)) } else { Ok(double) }
        }
        Value::String(text) => {
            check_hexadecimal(text)?;
            let n: f64 =
                text.parse().map_err(|_| not_a_number(text, "Did not consume any digits"))?;
            let digits = text.bytes().any(|b| b.is_ascii_digit());
            if n.is_infinite() && digits {
                return Err(not_a_number(text, "Out of range"));
            }
            Ok(n)
        }
        _ => number::as_f64(value).ok_or_else(|| unsupported(value, Type::Double)),
    }
}

fn to_integer(value: Value<'_>, kind: Type, min: i64, max: i64) -> Result<i64> {
    let n = match value {
        Value::Bool(b) => i64::from(b),
        Value::DateTime(ms) if kind == Type::Long => ms,
        Value::Int32(n) => i64::from(n),
        Value::Int64(n) => n,
        Value::Double(n) => {
            check_finite(n)?;
            // The number itself must be in range: 2147483647.5 is no int, 2.5 is 2.
            if n < min as f64 || n > max as f64 {
                return Err(overflow(value));
            }
            number::f64_as_i64_exact(n.trunc()).ok_or_else(|| overflow(value))?
        }
        Value::Decimal128(n) => {
            check_finite(if n.is_finite() { 0.0 } else { n.to_f64() })?;
            n.to_i64().ok_or_else(|| overflow(value))?
        }
        Value::String(text) => integer_text(text)?,
        _ => return Err(unsupported(value, kind)),
    };
    if n < min || n > max {
        return Err(match value {
            Value::String(text) => not_a_number(text, "Overflow"),
            _ => overflow(value),
        });
    }
    Ok(n)
}

fn check_finite(n: f64) -> Result<()> {
    if n.is_nan() {
        return Err(failure("Attempt to convert NaN value to integer type"));
    }
    if n.is_infinite() {
        return Err(failure("Attempt to convert infinity value to integer type"));
    }
    Ok(())
}

fn integer_text(text: &str) -> Result<i64> {
    check_hexadecimal(text)?;
    text.parse().map_err(|e: std::num::ParseIntError| not_a_number(text, &e.to_string()))
}

fn to_decimal(value: Value<'_>) -> Result<Decimal128> {
    match value {
        Value::Bool(b) => Ok(Decimal128::from_i64(i64::from(b))),
        Value::DateTime(ms) => Ok(Decimal128::from_i64(ms)),
        Value::String(text) => {
            check_hexadecimal(text)?;
            Decimal128::parse(text)
                .ok_or_else(|| not_a_number(text, "Failed to parse string to decimal"))
        }
        _ => number::as_decimal(value).ok_or_else(|| unsupported(value, Type::Decimal)),
    }
}

fn to_date(value: Value<'_>) -> Result<i64> {
    match value {
        Value::DateTime(ms) => Ok(ms),
        Value::Timestamp(stamp) => Ok((stamp >> 32) as i64 * 1000),
        Value::ObjectId(id) => Ok(super::date_parts::object_id_ms(id)),
        Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
            to_integer(value, Type::Date, i64::MIN, i64::MAX)
        }
        Value::String(text) => time::parse(text, None),
        _ => Err(unsupported(value, Type::Date)),
    }
}

fn to_object_id<'a>(cx: &Eval<'a>, value: Value<'a>) -> Result<Value<'a>> {
    match value {
        Value::ObjectId(_) => Ok(value),
        Value::String(text) => {
            let bytes = hex(text).and_then(|bytes| <[u8; 12]>::try_from(bytes).ok());
            let Some(id) = bytes else {
                return Err(failure(format_args!(
                    "Failed to parse objectId '{text}': Invalid string length for parsing to OID"
                )));
            };
            Ok(Value::ObjectId(cx.arena.alloc(id)))
        }
        _ => Err(unsupported(value, Type::ObjectId)),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[a, b]| (a * 16 + b) as u8).collect())
}

fn to_string<'a>(cx: &Eval<'a>, value: Value<'a>, format: Option<&str>) -> Result<Value<'a>> {
    let text = match value {
        Value::String(_) => return Ok(value),
        Value::Bool(b) => b.to_string(),
        Value::Int32(n) => n.to_string(),
        Value::Int64(n) => n.to_string(),
        Value::Double(n) => print::double(n),
        Value::Decimal128(n) => n.to_string(),
        Value::ObjectId(id) => Hex(id).to_string(),
        Value::DateTime(ms) => time::iso_text(ms)?,
        Value::Binary(data) => binary_text(data, format)?,
        _ => return Err(unsupported(value, Type::String)),
    };
    Ok(cx.text(&text))
}

fn uuid_text(bytes: &[u8]) -> Option<String> {
    let text = Hex(bytes).to_string();
    (bytes.len() == 16)
        .then(|| [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    json::base64_encode(&mut text, bytes);
    text
}

fn binary_text(data: Binary<'_>, format: Option<&str>) -> Result<String> {
    let bad = |format: &str| failure(format_args!("Failed to convert binData to {format}"));
    match format {
        None => Err(unsupported(Value::Binary(data), Type::String)),
        Some("auto") if data.subtype == 4 => uuid_text(data.bytes).ok_or_else(|| bad("uuid")),
        Some("auto" | "base64") => Ok(base64(data.bytes)),
        Some("base64url") => {
            let text = base64(data.bytes);
            Ok(text.trim_end_matches('=').replace('+', "-").replace('/', "_"))
        }
        Some("hex") => Ok(Hex(data.bytes).to_string().to_uppercase()),
        Some("utf8") => String::from_utf8(data.bytes.to_vec()).map_err(|_| bad("utf8")),
        Some("uuid") => uuid_text(data.bytes).ok_or_else(|| bad("uuid")),
        Some(other) => Err(Error::new(
            Code::Location(4341125),
            format!("Invalid 'format' argument for $convert: {other}"),
        )),
    }
}

fn to_binary<'a>(
    cx: &Eval<'a>,
    value: Value<'a>,
    subtype: Option<u8>,
    format: Option<&str>,
) -> Result<Value<'a>> {
    let subtype = subtype.unwrap_or(0);
    let text = match value {
        Value::Binary(data) if data.subtype == subtype => return Ok(value),
        Value::String(text) => text,
        _ => return Err(unsupported(value, Type::BinData)),
    };
    let bytes = match format {
        None => {
            bail!(Code::Location(4341115), "Conversion from string to binData requires a 'format'")
        }
        Some("base64") => json::base64_decode(text),
        Some("base64url") => {
            let mut text = text.replace('-', "+").replace('_', "/");
            text.extend(std::iter::repeat_n('=', (4 - text.len() % 4) % 4));
            json::base64_decode(&text)
        }
        Some("hex") => hex(text),
        Some("utf8") => Some(text.as_bytes().to_vec()),
        Some("uuid" | "auto") => {
            let dashes = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
            if dashes.eq([8, 13, 18, 23]) && text.len() == 36 {
                hex(&text.replace('-', ""))
            } else {
                None
            }
        }
        Some(other) => {
            bail!(Code::Location(4341125), "Invalid 'format' argument for $convert: {other}")
        }
    };
    let Some(bytes) = bytes else {
        return Err(failure(format_args!("Input string '{text}' could not be decoded")));
    };
    let bytes = cx.arena.alloc_slice_copy(&bytes);
    Ok(Value::Binary(Binary { subtype, bytes }))
}
