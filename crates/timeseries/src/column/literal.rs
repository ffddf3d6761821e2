//! Values as BSON elements with an empty name.

use nagi_bson::{Doc, Type};
use nagi_error::{Code, Result, err};

/// The value of type `kind` at the beginning of `bytes`, checked as BSON from a client is. Returns its length.
pub(super) fn check(kind: Type, bytes: &[u8]) -> Result<usize> {
    let len = length(kind, bytes).filter(|len| *len <= bytes.len()).ok_or_else(truncated)?;
    // A document with the value as its only field is valid exactly if the value is, one level down, where a
    // measurement has it.
    let mut doc = Vec::with_capacity(len + 7);
    doc.extend_from_slice(&i32::try_from(len + 7).map_err(|_| truncated())?.to_le_bytes());
    doc.extend_from_slice(&[kind as u8, 0]);
    doc.extend_from_slice(&bytes[..len]);
    doc.push(0);
    match Doc::parse(&doc) {
        Ok(_) => Ok(len),
        Err(error) => Err(err!(Code::INVALID_BSON, "Invalid literal in a BSONColumn: {error}")),
    }
}

fn truncated() -> nagi_error::Error {
    err!(Code::INVALID_BSON, "Invalid BSON Column encoding has overflowed buffer")
}

/// The length of a value according to its first bytes.
pub(super) fn length(kind: Type, bytes: &[u8]) -> Option<usize> {
    let int32 = || {
        let len = i32::from_le_bytes(*bytes.first_chunk()?);
        usize::try_from(len).ok()
    };
    match kind {
        Type::Null | Type::Undefined | Type::MinKey | Type::MaxKey => Some(0),
        Type::Bool => Some(1),
        Type::Int => Some(4),
        Type::Double | Type::Date | Type::Timestamp | Type::Long => Some(8),
        Type::ObjectId => Some(12),
        Type::Decimal => Some(16),
        Type::String | Type::JavaScript | Type::Symbol => Some(int32()? + 4),
        Type::Object | Type::Array | Type::JavaScriptWithScope => int32(),
        Type::BinData => Some(int32()? + 5),
        Type::DbPointer => Some(int32()? + 4 + 12),
        Type::Regex => {
            let mut zeros = bytes.iter().enumerate().filter(|(_, b)| **b == 0).map(|(i, _)| i + 1);
            zeros.nth(1)
        }
        Type::Missing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::{Value, append_payload, array, doc};

    #[test]
    fn lengths_agree_with_what_is_written() {
        let (d, a) = (doc! { "a": { "b": 1 } }, array![1, "x"]);
        let regex = nagi_bson::Regex::from_bytes(b"^a\0i\0").unwrap();
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int32(1),
            Value::Double(1.5),
            Value::String("text"),
            Value::Symbol(""),
            Value::ObjectId(&[1; 12]),
            Value::Doc(d.as_doc()),
            Value::Array(a.as_array()),
            Value::Regex(regex),
            Value::Binary(nagi_bson::Binary { subtype: 4, bytes: b"123" }),
            Value::MaxKey,
        ];
        for value in values {
            let mut bytes = Vec::new();
            append_payload(&mut bytes, value);
            let len = bytes.len();
            bytes.extend_from_slice(&[0; 8]);
            assert_eq!(check(value.kind(), &bytes).unwrap(), len, "{value}");
            assert!(len == 0 || check(value.kind(), &bytes[..len - 1]).is_err(), "{value}");
        }
        assert!(check(Type::String, &[3, 0, 0, 0, 0xFF, 0xFE, 0]).is_err(), "not UTF-8");
        assert!(check(Type::String, &[0xFF, 0xFF, 0xFF, 0x7F, 0]).is_err());
        assert!(check(Type::Object, &[0xFF; 8]).is_err());
    }
}
