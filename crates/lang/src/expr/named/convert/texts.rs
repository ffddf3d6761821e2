//! Conversions to strings, ObjectIds and binary data.
use super::*;
use crate::expr::print;
use nagi_bson::{Binary, json, text::Hex};

pub(super) fn to_object_id<'a>(cx: &Eval<'a>, value: Value<'a>) -> Result<Value<'a>> {
    match value {
        Value::ObjectId(_) => Ok(value),
        Value::String(text) => {
            let bytes = hex(text).and_then(|bytes| <[u8; 12]>::try_from(bytes).ok());
            let Some(id) = bytes else {
                let why = match text.len() {
                    24 => "Invalid character found in hex string".to_owned(),
                    found => format!(
                        "Invalid string length for parsing to OID, expected 24 but found {found}"
                    ),
                };
                return Err(Error::new(
                    Code::CONVERSION_FAILURE,
                    format!(
                        "Failed to parse objectId '{text}' in $convert with no onError value: {why}"
                    ),
                ));
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

pub(super) fn to_string<'a>(cx: &Eval<'a>, value: Value<'a>, how: How<'_>) -> Result<Value<'a>> {
    let text = match value {
        Value::String(_) => return Ok(value),
        Value::Bool(b) => b.to_string(),
        value if how.base.is_some() && value.is_number() => in_base(value, how)?,
        Value::Int32(n) => n.to_string(),
        Value::Int64(n) => n.to_string(),
        Value::Double(n) => print::double(n),
        Value::Decimal128(n) => n.to_string(),
        Value::ObjectId(id) => Hex(id).to_string(),
        Value::DateTime(ms) => time::iso_text(ms)?,
        Value::Binary(data) => {
            cx.check_work(HEX_GROWTH * data.bytes.len())?;
            binary_text(data, how.format)?
        }
        Value::Doc(_) | Value::Array(_) => plain_json::print(cx, value)?,
        Value::Regex(regex) => format!("/{}/{}", regex.pattern(), regex.options()),
        _ => return Err(unsupported(value, Type::String)),
    };
    cx.text(&text)
}

/// The temporary bytes per byte of the source when a string of hexadecimal digits is decoded (four for each digit,
/// and the result) or binary data is encoded in capital digits.
const HEX_GROWTH: usize = 6;

/// Prints an integer in the requested base.
fn in_base(value: Value<'_>, how: How<'_>) -> Result<String> {
    let Some(n) = number::as_i64_exact(value) else {
        return Err(failure(format_args!(
            "{value} is not a whole number, so it cannot be printed in \
                                         a base"
        )));
    };
    let (sign, n) = (if n < 0 { "-" } else { "" }, n.unsigned_abs());
    Ok(match how.base {
        Some(2) => format!("{sign}{n:b}"),
        Some(8) => format!("{sign}{n:o}"),
        Some(16) => format!("{sign}{n:X}"),
        _ => format!("{sign}{n}"),
    })
}

/// The subtype of UUIDs.
const UUID: u8 = 4;

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

pub(super) fn to_binary<'a>(
    cx: &Eval<'a>,
    value: Value<'a>,
    subtype: Option<u8>,
    how: How<'_>,
) -> Result<Value<'a>> {
    let subtype = subtype.unwrap_or(0);
    let raw = |bytes: &mut [u8]| {
        if how.big_endian {
            bytes.reverse();
        }
        let bytes = cx.bytes(bytes)?;
        Ok(Value::Binary(Binary { subtype, bytes }))
    };
    let text = match value {
        Value::Binary(data) if data.subtype == subtype => return Ok(value),
        Value::Binary(_) => {
            return Err(failure(
                "Conversions between different binData subtypes are not supported",
            ));
        }
        value if subtype == UUID && value.is_number() => {
            return Err(unsupported(value, Type::BinData));
        }
        Value::Int32(n) => return raw(&mut n.to_le_bytes()),
        Value::Int64(n) => return raw(&mut n.to_le_bytes()),
        Value::Double(n) => return raw(&mut n.to_le_bytes()),
        Value::String(text) => text,
        _ => return Err(unsupported(value, Type::BinData)),
    };
    if how.format.is_some() && (how.format == Some("uuid")) != (subtype == UUID) {
        return Err(failure(format_args!(
            "Only the UUID subtype ({UUID}) goes with the format 'uuid', and no other: found \
             subtype {subtype}"
        )));
    }
    cx.check_work(HEX_GROWTH * text.len())?;
    let bytes = match how.format {
        None => {
            bail!(
                Code::Location(4341115),
                "Format must be speficied when converting from 'string' to 'binData'"
            )
        }
        Some("base64") => json::base64_decode(text),
        Some("base64url") => {
            let mut text = text.replace('-', "+").replace('_', "/");
            text.extend(std::iter::repeat_n('=', (4 - text.len() % 4) % 4));
            json::base64_decode(&text)
        }
        Some("hex") => hex(text),
        Some("utf8") => Some(text.as_bytes().to_vec()),
        Some("uuid" | "auto") => uuid_bytes(text).map(Vec::from),
        Some(other) => {
            bail!(Code::Location(4341125), "Invalid 'format' argument for $convert: {other}")
        }
    };
    let Some(bytes) = bytes else {
        return Err(failure(format_args!("Input string '{text}' could not be decoded")));
    };
    let bytes = cx.bytes(&bytes)?;
    Ok(Value::Binary(Binary { subtype, bytes }))
}

/// Parses the usual text form of a UUID.
pub(in crate::expr::named) fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let dashes = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
    if !dashes.eq([8, 13, 18, 23]) || text.len() != 36 {
        return None;
    }
    hex(&text.replace('-', ""))?.try_into().ok()
}
