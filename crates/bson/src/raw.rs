//! The one place with `unsafe`: reading text and numbers out of bytes that were validated before.
#![allow(unsafe_code)]

use crate::value::{CodeWithScope, DbPointer};
use crate::{Array, Binary, Decimal128, Doc, Regex, Type, Value};

/// Text of validated bytes, without checking it again on every read.
pub(crate) fn text(bytes: &[u8]) -> &str {
    // SAFETY: a `Doc` is made from bytes that passed `validate` (which checks UTF-8 of every name
    // and string), from `DocWriter` (which takes `&str`), or from an engine that gives back, guarded
    // by its checksums, exactly the bytes that were stored after validation.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}

/// Position of the first zero byte, eight bytes a step: names are short, calls are not free.
pub(crate) fn name_len(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let zeros = word.wrapping_sub(LOW) & !word & (LOW << 7);
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes.get(at..)?.iter().position(|b| *b == 0).map(|i| at + i)
}

/// The two words of a number of the decimal library, which keeps them private.
pub(crate) fn decimal_words(n: dfp_number_sys::BID128) -> [u64; 2] {
    // SAFETY: `BID128` is `repr(C)` around exactly `[u64; 2]`; every bit pattern is a valid u64.
    unsafe { std::mem::transmute::<dfp_number_sys::BID128, [u64; 2]>(n) }
}

pub(crate) fn int32(bytes: &[u8], at: usize) -> i32 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => i32::from_le_bytes(*chunk),
        None => 0,
    }
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("validated: the value lies inside the document")
}

/// Length of the value of type `kind` that begins at `at`. The bytes are validated.
pub(crate) fn value_len(bytes: &[u8], at: usize, kind: u8) -> usize {
    match kind {
        0x06 | 0x0A | 0x7F | 0xFF => 0,
        0x08 => 1,
        0x10 => 4,
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x07 => 12,
        0x13 => 16,
        0x02 | 0x0D | 0x0E => 4 + int32(bytes, at) as usize,
        0x03 | 0x04 | 0x0F => int32(bytes, at) as usize,
        0x05 => 5 + int32(bytes, at) as usize,
        0x0C => 4 + int32(bytes, at) as usize + 12,
        0x0B => {
            let rest = &bytes[at..];
            let pattern = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
            let tail = rest.get(pattern + 1..).unwrap_or(&[]);
            let options = tail.iter().position(|b| *b == 0).unwrap_or(tail.len());
            pattern + 1 + options + 1
        }
        _ => 0,
    }
}

/// The value of type `kind` in `bytes[at..end]`. The bytes are validated.
pub(crate) fn value(bytes: &[u8], at: usize, end: usize, kind: u8) -> Value<'_> {
    match Type::from_byte(kind) {
        Some(Type::Double) => Value::Double(f64::from_le_bytes(*chunk(bytes, at))),
        Some(Type::String) => Value::String(text(&bytes[at + 4..end - 1])),
        Some(Type::Object) => Value::Doc(Doc::trusted(&bytes[at..end])),
        Some(Type::Array) => Value::Array(Array::trusted(&bytes[at..end])),
        Some(Type::BinData) => {
            Value::Binary(Binary { subtype: bytes[at + 4], bytes: &bytes[at + 5..end] })
        }
        Some(Type::Undefined) => Value::Undefined,
        Some(Type::ObjectId) => Value::ObjectId(chunk(bytes, at)),
        Some(Type::Bool) => Value::Bool(bytes[at] != 0),
        Some(Type::Date) => Value::DateTime(i64::from_le_bytes(*chunk(bytes, at))),
        Some(Type::Null) => Value::Null,
        Some(Type::Regex) => Value::Regex(Regex(&bytes[at..end])),
        Some(Type::DbPointer) => Value::DbPointer(DbPointer(&bytes[at..end])),
        Some(Type::JavaScript) => Value::Code(text(&bytes[at + 4..end - 1])),
        Some(Type::Symbol) => Value::Symbol(text(&bytes[at + 4..end - 1])),
        Some(Type::JavaScriptWithScope) => Value::CodeWithScope(CodeWithScope(&bytes[at..end])),
        Some(Type::Int) => Value::Int32(i32::from_le_bytes(*chunk(bytes, at))),
        Some(Type::Timestamp) => Value::Timestamp(u64::from_le_bytes(*chunk(bytes, at))),
        Some(Type::Long) => Value::Int64(i64::from_le_bytes(*chunk(bytes, at))),
        Some(Type::Decimal) => Value::Decimal128(Decimal128::from_bytes(*chunk(bytes, at))),
        Some(Type::MinKey) => Value::MinKey,
        Some(Type::MaxKey) => Value::MaxKey,
        Some(Type::Missing) | None => Value::Missing,
    }
}
