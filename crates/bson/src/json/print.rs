//! The printer of Extended JSON v2, and the text forms of doubles in MongoDB.

use std::fmt::{Display, Write};

use super::writer::{JsonWriter, Spacing};
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
    whole(doc, true)
}

/// Prints relaxed Extended JSON, with plain numbers and readable dates.
pub fn to_relaxed(doc: Doc<'_>) -> String {
    whole(doc, false)
}

/// Prints canonical or relaxed Extended JSON; `None` if it is longer than `bytes_max`. Then it allocates little more
/// than `bytes_max`, as long as no single binary value is longer.
pub fn to_text_within(doc: Doc<'_>, canonical: bool, bytes_max: usize) -> Option<String> {
    let mut out = String::new();
    let mut w = JsonWriter::within(&mut out, Spacing::Compact, bytes_max);
    document(&mut w, doc, canonical);
    (!w.is_over()).then_some(out)
}

fn whole(doc: Doc<'_>, canonical: bool) -> String {
    let mut out = String::new();
    document(&mut JsonWriter::new(&mut out, Spacing::Compact), doc, canonical);
    out
}

/// Appends one value as relaxed Extended JSON; `Missing` becomes null.
pub fn write_relaxed(out: &mut String, value: Value<'_>) {
    write(&mut JsonWriter::new(out, Spacing::Compact), value, false);
}

fn document(w: &mut JsonWriter<'_>, doc: Doc<'_>, canonical: bool) {
    w.object(|w| {
        for element in doc.iter() {
            if w.is_over() {
                return;
            }
            write(w.key(element.name()), element.value(), canonical);
        }
    });
}

fn array(w: &mut JsonWriter<'_>, values: Array<'_>, canonical: bool) {
    w.array(|w| {
        for value in values.iter() {
            if w.is_over() {
                return;
            }
            write(w, value, canonical);
        }
    });
}

/// Writes `{"name":"text"}`.
fn tagged(w: &mut JsonWriter<'_>, name: &str, text: &str) {
    w.object(|w| w.key(name).string(text));
}

/// The same for what prints without characters that need an escape.
fn tagged_plain(w: &mut JsonWriter<'_>, name: &str, value: impl Display) {
    w.object(|w| plain(w.key(name), value));
}

fn plain(w: &mut JsonWriter<'_>, value: impl Display) {
    w.plain_string(|out| {
        let _ = write!(out, "{value}");
    });
}

fn write(w: &mut JsonWriter<'_>, value: Value<'_>, canonical: bool) {
    match value {
        Value::Missing | Value::Null => w.null(),
        Value::Undefined => w.object(|w| w.key("$undefined").literal(true)),
        Value::MinKey => w.object(|w| w.key("$minKey").literal(1)),
        Value::MaxKey => w.object(|w| w.key("$maxKey").literal(1)),
        Value::Bool(v) => w.literal(v),
        Value::Int32(v) if canonical => tagged_plain(w, "$numberInt", v),
        Value::Int64(v) if canonical => tagged_plain(w, "$numberLong", v),
        Value::Int32(v) => w.literal(v),
        Value::Int64(v) => w.literal(v),
        Value::Double(v) if canonical || !v.is_finite() => {
            tagged_plain(w, "$numberDouble", shortest_double(v));
        }
        Value::Double(v) => w.literal(shortest_double(v)),
        Value::Decimal128(v) => tagged_plain(w, "$numberDecimal", v),
        Value::String(v) => w.string(v),
        Value::Symbol(v) => tagged(w, "$symbol", v),
        Value::Doc(v) => document(w, v, canonical),
        Value::Array(v) => array(w, v, canonical),
        Value::ObjectId(v) => tagged_plain(w, "$oid", Hex(v)),
        Value::DateTime(v) => write_date(w, v, canonical),
        Value::Code(v) => tagged(w, "$code", v),
        Value::Timestamp(v) => w.object(|w| {
            w.key("$timestamp").object(|w| {
                w.key("t").literal(v >> 32);
                w.key("i").literal(v as u32);
            });
        }),
        Value::Binary(v) => w.object(|w| {
            w.key("$binary").object(|w| {
                w.key("base64").plain_string(|out| base64::encode(out, v.bytes));
                plain(w.key("subType"), format_args!("{:02x}", v.subtype));
            });
        }),
        Value::Regex(v) => w.object(|w| {
            w.key("$regularExpression").object(|w| {
                w.key("pattern").string(v.pattern());
                w.key("options").string(v.options());
            });
        }),
        Value::DbPointer(v) => w.object(|w| {
            w.key("$dbPointer").object(|w| {
                w.key("$ref").string(v.namespace());
                tagged_plain(w.key("$id"), "$oid", Hex(v.id()));
            });
        }),
        Value::CodeWithScope(v) => w.object(|w| {
            w.key("$code").string(v.code());
            document(w.key("$scope"), v.scope(), canonical);
        }),
    }
}

fn write_date(w: &mut JsonWriter<'_>, ms: i64, canonical: bool) {
    match date::format_utc(ms, false) {
        Some(text) if !canonical && ms >= 0 => tagged_plain(w, "$date", text),
        _ => w.object(|w| tagged_plain(w.key("$date"), "$numberLong", ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_within_a_limit() {
        let doc = crate::doc! { "a": "\u{1}\n\"x", "b": [1, 2, { "c": (crate::Value::MinKey) }] };
        for canonical in [false, true] {
            let whole = whole(doc.as_doc(), canonical);
            let within = |most| to_text_within(doc.as_doc(), canonical, most);
            assert_eq!(within(whole.len()).as_ref(), Some(&whole));
            (0..whole.len()).for_each(|most| assert_eq!(within(most), None, "{most}"));
        }
        let text = "\u{1}".repeat(1 << 20);
        let large = crate::doc! { "a": (text.as_str()), "b": 1 };
        let mut out = String::new();
        let mut w = JsonWriter::within(&mut out, Spacing::Compact, 1 << 21);
        document(&mut w, large.as_doc(), false);
        assert!(w.is_over());
        assert!(out.capacity() < 1 << 10, "{}", out.capacity());
    }

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
