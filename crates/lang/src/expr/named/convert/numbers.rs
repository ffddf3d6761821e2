//! Conversions to numbers.
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
        return Err(failed_with("Illegal hexadecimal input", text));
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
            parse_double(text).map_err(|why| not_a_number(text, why))
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
            // The range check precedes the truncation: 2147483647.5 is not an int, 2.5 becomes 2.
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

/// Parses an integer in the requested base (10 by default).
fn integer_text(text: &str, how: How<'_>) -> Result<i64> {
    if how.base.is_none() {
        check_hexadecimal(text)?;
    }
    parse_integer(text, how.base.unwrap_or(10)).map_err(|why| not_a_number(text, why))
}

/// Parses an optional sign and the digits of the base. The error is MongoDB's text for the problem.
fn parse_integer(text: &str, base: u32) -> std::result::Result<i64, &'static str> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let digits = match digits {
        [b'0', b'x' | b'X', rest @ ..] if base == 16 => rest,
        all => all,
    };
    if digits.is_empty() {
        return Err("No digits");
    }
    let mut magnitude = 0_u64;
    for byte in digits {
        let digit = char::from(*byte).to_digit(base).ok_or("Did not consume whole string.")?;
        let shifted = magnitude.checked_mul(u64::from(base));
        magnitude = shifted.and_then(|n| n.checked_add(u64::from(digit))).ok_or("Overflow")?;
    }
    let signed = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    i64::try_from(signed).map_err(|_| "Overflow")
}

/// Parses a number like C's `strtod`. The error is MongoDB's text for the problem.
fn parse_double(text: &str) -> std::result::Result<f64, &'static str> {
    if text.is_empty() {
        return Err("Empty string");
    }
    if text.starts_with(|c: char| c.is_ascii_whitespace() || c == '\x0B') {
        return Err("Leading whitespace");
    }
    if let Some((n, length)) = hexadecimal_double(text.as_bytes()) {
        return match n {
            _ if n.is_infinite() || n != 0.0 && n.abs() < f64::MIN_POSITIVE => Err("Out of range"),
            _ if length < text.len() => Err("Did not consume whole string."),
            _ => Ok(n),
        };
    }
    let length = double_length(text.as_bytes());
    // The part that was read is ASCII.
    let (read, rest) = text.split_at(length);
    let n: f64 = read.parse().map_err(|_| "Did not consume any digits")?;
    let mantissa = read.split(['e', 'E']).next().unwrap_or("");
    let lost = n.is_infinite()
        || (n.abs() < f64::MIN_POSITIVE && mantissa.contains(|c| matches!(c, '1'..='9')));
    match lost && mantissa.bytes().any(|byte| byte.is_ascii_digit()) {
        true => Err("Out of range"),
        false if rest.is_empty() => Ok(n),
        false => Err("Did not consume whole string."),
    }
}

/// The number of bytes at the beginning of the text that form a number; 0 if it does not begin with a number.
fn double_length(text: &[u8]) -> usize {
    let digits =
        |from: usize| text.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    for name in ["infinity", "inf", "nan"] {
        if text
            .get(sign..sign + name.len())
            .is_some_and(|s| s.eq_ignore_ascii_case(name.as_bytes()))
        {
            return sign + name.len();
        }
    }
    let whole = digits(sign);
    let mut end = sign + whole;
    if text.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if whole + fraction == 0 {
            return 0;
        }
        end += 1 + fraction;
    } else if whole == 0 {
        return 0;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'-' | b'+')));
        match digits(end + 1 + sign) {
            0 => {}
            exponent => end += 1 + sign + exponent,
        }
    }
    end
}

/// Reads a hexadecimal number at the beginning of the text, such as `-0x1A` or `0X1.8p3`, and its length; `None` if the
/// text does not begin with one.
fn hexadecimal_double(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    if !matches!(text.get(sign..sign + 2), Some([b'0', b'x' | b'X'])) {
        return None;
    }
    let (mut mantissa, mut exponent, mut any, mut fraction) = (0_u64, 0_i64, false, false);
    let mut at = sign + 2;
    while let Some(&byte) = text.get(at) {
        match char::from(byte).to_digit(16) {
            Some(digit) => {
                any = true;
                exponent -= if fraction { 4 } else { 0 };
                if mantissa >> 60 == 0 {
                    mantissa = mantissa << 4 | u64::from(digit);
                } else {
                    // The last bit tells for the rounding that there were more digits.
                    mantissa |= u64::from(digit != 0);
                    exponent += 4;
                }
            }
            None if byte == b'.' && !fraction => fraction = true,
            None => break,
        }
        at += 1;
    }
    if !any {
        return None;
    }
    if matches!(text.get(at), Some(b'p' | b'P')) {
        let signed = usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        let digits = text.iter().skip(at + 1 + signed).take_while(|byte| byte.is_ascii_digit());
        let (count, given) = digits.fold((0, 0_i64), |(count, n), digit| {
            (count + 1, n.saturating_mul(10).saturating_add(i64::from(digit - b'0')))
        });
        if count > 0 {
            let negative = text.get(at + 1) == Some(&b'-');
            exponent = exponent.saturating_add(if negative { -given } else { given });
            at += 1 + signed + count;
        }
    }
    // In two steps, because the power alone may be out of range.
    let exponent = exponent.clamp(-2200, 2200) as i32;
    let half = exponent / 2;
    let n = mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(exponent - half);
    Some((if text.first() == Some(&b'-') { -n } else { n }, at))
}

fn bad_length(data: Binary<'_>, kind: Type) -> Error {
    failure(format_args!(
        "Failed to convert binData of subtype {} and {} bytes to {}",
        { data.subtype },
        { data.bytes }.len(),
        kind.name()
    ))
}

/// Reads one, two, four or (for a long) eight bytes of subtype 0 as a signed number.
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

/// Reads four or eight bytes of subtype 0 as a floating-point number.
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
            if text.is_empty() {
                return Err(not_a_number(text, "Empty string"));
            }
            Decimal128::parse(text)
                .ok_or_else(|| not_a_number(text, "Failed to parse string to decimal"))
        }
        _ => number::as_decimal(value).ok_or_else(|| unsupported(value, Type::Decimal)),
    }
}
