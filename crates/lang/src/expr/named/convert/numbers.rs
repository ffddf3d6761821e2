//! Numbers from other types.
use super::*;
use nagi_bson::Binary;

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

pub(super) fn to_double(value: Value<'_>, how: How<'_>) -> Result<f64> {
    match value {
        Value::Bool(b) => Ok(f64::from(u8::from(b))),
        Value::DateTime(ms) => Ok(ms as f64),
        Value::Decimal128(n) => {
            let double = n.to_f64();
            if double.is_infinite() && n.is_finite() { Err(overflow(value)) } else { Ok(double) }
        }
        Value::Binary(data) => {
            double_of_bytes(data, how.big_endian).ok_or_else(|| bad_length(data, Type::Double))
        }
        Value::String(text) if how.base.is_some() => Ok(integer_text(text, how)? as f64),
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

pub(super) fn to_integer(
    value: Value<'_>,
    kind: Type,
    (min, max): (i64, i64),
    how: How<'_>,
) -> Result<i64> {
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
        Value::String(text) => integer_text(text, how)?,
        Value::Binary(data) if kind != Type::Date => {
            let long = if kind == Type::Long { 8 } else { 4 };
            integer_of_bytes(data, how.big_endian, long).ok_or_else(|| bad_length(data, kind))?
        }
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

/// A whole number in the base that was asked for.
fn integer_text(text: &str, how: How<'_>) -> Result<i64> {
    let Some(base) = how.base else {
        check_hexadecimal(text)?;
        return text
            .parse()
            .map_err(|e: std::num::ParseIntError| not_a_number(text, &e.to_string()));
    };
    i64::from_str_radix(text, base).map_err(|e| not_a_number(text, &e.to_string()))
}

fn bad_length(data: Binary<'_>, kind: Type) -> Error {
    failure(format_args!(
        "Failed to convert binData of subtype {} and {} bytes to {}",
        { data.subtype },
        { data.bytes }.len(),
        kind.name()
    ))
}

/// One, two, four or (for a long) eight bytes of subtype 0 as a number with sign.
fn integer_of_bytes(data: Binary<'_>, big_endian: bool, most: usize) -> Option<i64> {
    let len = data.bytes.len();
    if data.subtype != 0 || len > most || !matches!(len, 1 | 2 | 4 | 8) {
        return None;
    }
    let word = data.bytes.iter().enumerate().fold(0u64, |word, (at, byte)| {
        let place = if big_endian { len - 1 - at } else { at };
        word | u64::from(*byte) << (8 * place)
    });
    let unused = 64 - 8 * len as u32;
    Some((word << unused) as i64 >> unused)
}

/// Four or eight bytes of subtype 0 as a float.
fn double_of_bytes(data: Binary<'_>, big_endian: bool) -> Option<f64> {
    if data.subtype != 0 {
        return None;
    }
    let mut bytes = data.bytes.to_vec();
    if big_endian {
        bytes.reverse();
    }
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|b| f64::from(f32::from_le_bytes(b))),
        8 => <[u8; 8]>::try_from(bytes).ok().map(f64::from_le_bytes),
        _ => None,
    }
}

pub(super) fn to_decimal(value: Value<'_>, how: How<'_>) -> Result<Decimal128> {
    match value {
        Value::Bool(b) => Ok(Decimal128::from_i64(i64::from(b))),
        Value::DateTime(ms) => Ok(Decimal128::from_i64(ms)),
        Value::String(text) if how.base.is_some() => {
            Ok(Decimal128::from_i64(integer_text(text, how)?))
        }
        Value::String(text) => {
            check_hexadecimal(text)?;
            Decimal128::parse(text)
                .ok_or_else(|| not_a_number(text, "Failed to parse string to decimal"))
        }
        _ => number::as_decimal(value).ok_or_else(|| unsupported(value, Type::Decimal)),
    }
}
