//! The printer of Extended JSON v2, and the text forms of doubles in MongoDB.

use std::fmt::Write;

use super::{base64, date};
use crate::hex::Hex;
use crate::{Array, Doc, Value};

/// A double in the style of messages: 16 significant digits, with `.0` after whole numbers.
pub fn double_text(n: f64) -> String {
    if n.is_nan() {
        return "nan.0".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "inf.0".into() } else { "-inf.0".into() };
    }
    let scientific = format!("{n:.15e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mut text = place_point(mantissa, exponent, 16);
    if !text.contains('.') {
        text.push_str(".0");
    }
    text
}

/// A finite double like C's `%g` with the given number of significant digits: `1e+300`, `2.14748e+09`, `5`.
pub fn double_text_of(n: f64, digits: usize) -> String {
    let scientific = format!("{n:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    place_point(mantissa, exponent.parse().unwrap_or(0), digits as i32)
}

/// A double with the fewest digits that parse to the same number: `1.0`, `0.1`, `1e+16`.
pub fn shortest_double(n: f64) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let scientific = format!("{n:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mut text = place_point(mantissa, exponent, 16);
    if !text.contains(['.', 'e']) {
        text.push_str(".0");
    }
    text
}

/// The format of C's `%g`: plain between 10^-4 and 10^`plain_below`, otherwise scientific; without trailing zeros.
fn place_point(mantissa: &str, exponent: i32, plain_below: i32) -> String {
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    if exponent < -4 || exponent >= plain_below {
        let fraction = if digits.len() > 1 { format!(".{}", &digits[1..]) } else { String::new() };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        let exponent = exponent.abs();
        return format!("{sign}{}{fraction}e{exponent_sign}{exponent:02}", &digits[..1]);
    }
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        format!("{sign}{digits:0<whole$}")
    } else {
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// Prints canonical Extended JSON, from which every type can be parsed again.
pub fn to_canonical(doc: Doc<'_>) -> String {
    let mut out = String::new();
    document(&mut out, doc, true);
    out
}

/// Prints relaxed Extended JSON, with plain numbers and readable dates.
pub fn to_relaxed(doc: Doc<'_>) -> String {
    let mut out = String::new();
    document(&mut out, doc, false);
    out
}

/// Appends one value as relaxed Extended JSON; `Missing` becomes null.
pub fn write_relaxed(out: &mut String, value: Value<'_>) {
    write(out, value, false);
}

fn document(out: &mut String, doc: Doc<'_>, canonical: bool) {
    out.push('{');
    for (i, element) in doc.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        quoted(out, element.name());
        out.push(':');
        write(out, element.value(), canonical);
    }
    out.push('}');
}

fn array(out: &mut String, values: Array<'_>, canonical: bool) {
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(out, value, canonical);
    }
    out.push(']');
}

/// Appends a JSON string.
fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends `{"name":"text"}`.
fn tagged(out: &mut String, name: &str, text: &str) {
    let _ = write!(out, "{{\"{name}\":");
    quoted(out, text);
    out.push('}');
}

fn write(out: &mut String, value: Value<'_>, canonical: bool) {
    match value {
        Value::Missing | Value::Null => out.push_str("null"),
        Value::Undefined => out.push_str("{\"$undefined\":true}"),
        Value::MinKey => out.push_str("{\"$minKey\":1}"),
        Value::MaxKey => out.push_str("{\"$maxKey\":1}"),
        Value::Bool(v) => out.push_str(if v { "true" } else { "false" }),
        Value::Int32(v) if canonical => tagged(out, "$numberInt", &v.to_string()),
        Value::Int64(v) if canonical => tagged(out, "$numberLong", &v.to_string()),
        Value::Int32(v) => out.push_str(&v.to_string()),
        Value::Int64(v) => out.push_str(&v.to_string()),
        Value::Double(v) if canonical || !v.is_finite() => {
            tagged(out, "$numberDouble", &shortest_double(v));
        }
        Value::Double(v) => out.push_str(&shortest_double(v)),
        Value::Decimal128(v) => tagged(out, "$numberDecimal", &v.to_string()),
        Value::String(v) => quoted(out, v),
        Value::Symbol(v) => tagged(out, "$symbol", v),
        Value::Doc(v) => document(out, v, canonical),
        Value::Array(v) => array(out, v, canonical),
        Value::ObjectId(v) => tagged(out, "$oid", &Hex(v).to_string()),
        Value::DateTime(v) => write_date(out, v, canonical),
        Value::Timestamp(v) => {
            let _ = write!(out, "{{\"$timestamp\":{{\"t\":{},\"i\":{}}}}}", v >> 32, v as u32);
        }
        Value::Binary(v) => {
            out.push_str("{\"$binary\":{\"base64\":\"");
            base64::encode(out, v.bytes);
            let subtype = v.subtype;
            let _ = write!(out, "\",\"subType\":\"{subtype:02x}\"}}}}");
        }
        Value::Regex(v) => {
            out.push_str("{\"$regularExpression\":{\"pattern\":");
            quoted(out, v.pattern());
            out.push_str(",\"options\":");
            quoted(out, v.options());
            out.push_str("}}");
        }
        Value::DbPointer(v) => {
            out.push_str("{\"$dbPointer\":{\"$ref\":");
            quoted(out, v.namespace());
            let _ = write!(out, ",\"$id\":{{\"$oid\":\"{}\"}}}}}}", Hex(v.id()));
        }
        Value::Code(v) => tagged(out, "$code", v),
        Value::CodeWithScope(v) => {
            out.push_str("{\"$code\":");
            quoted(out, v.code());
            out.push_str(",\"$scope\":");
            document(out, v.scope(), canonical);
            out.push('}');
        }
    }
}

fn write_date(out: &mut String, ms: i64, canonical: bool) {
    match date::format_utc(ms, false) {
        Some(text) if !canonical && ms >= 0 => tagged(out, "$date", &text),
        _ => {
            let _ = write!(out, "{{\"$date\":{{\"$numberLong\":\"{ms}\"}}}}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles() {
        for (n, message, short) in [
            (1.0, "1.0", "1.0"),
            (-0.0, "-0.0", "-0.0"),
            (0.1, "0.1", "0.1"),
            (1e16, "1e+16.0", "1e+16"),
            (1.5e300, "1.5e+300", "1.5e+300"),
            (1e-5, "1e-05.0", "1e-05"),
            (123456.75, "123456.75", "123456.75"),
            (9007199254740992.0, "9007199254740992.0", "9007199254740992.0"),
            (0.1 + 0.2, "0.3", "0.30000000000000004"),
        ] {
            assert_eq!(double_text(n), message);
            assert_eq!(shortest_double(n), short);
        }
    }
}
