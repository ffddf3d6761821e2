//! Reads strings and numbers from validated bytes. This is the only module of the crate with `unsafe` code.
//!
//! [`step`] finds the boundaries of one element in a single pass:
//!
//! ```text
//!   kind (1) | name ... | 0 | value ...        next element
//!   ^ at                ^ name_end             ^ end
//! ```
#![allow(unsafe_code)]

use crate::view::value::{CodeWithScope, DbPointer};
use crate::{Array, Binary, Decimal128, Doc, NameTag, Regex, Type, Value};

/// Converts validated bytes to a string without checking UTF-8 again on every read.
pub(crate) fn text(bytes: &[u8]) -> &str {
    // SAFETY: a `Doc` is created from bytes that passed `validate` (which checks UTF-8 of every name and string),
    // from `DocWriter` (which takes `&str`), or from an engine that returns, protected by its checksums, exactly the
    // bytes that were stored after validation.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}

const LOW: u64 = 0x0101_0101_0101_0101;

/// A word whose lowest set bit marks the first zero byte (at the byte's highest bit); 0 if there is none.
#[inline(always)]
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & (LOW << 7)
}

/// The position of the first zero byte, and if all bytes before it are ASCII. It reads eight bytes per step: names are
/// short, so a call of a search function, and one of the standard library's check of UTF-8, would cost more.
#[inline]
pub(crate) fn name_end(bytes: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut seen) = (0, 0);
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let zeros = zero_bytes(word);
        if zeros != 0 {
            seen |= word & (zeros ^ zeros.wrapping_sub(1));
            return Some((at + zeros.trailing_zeros() as usize / 8, seen & (LOW << 7) == 0));
        }
        seen |= word;
        at += 8;
    }
    let rest = bytes.get(at..)?;
    let len = rest.iter().position(|b| *b == 0)?;
    Some((at + len, seen & (LOW << 7) == 0 && rest[..len].is_ascii()))
}

/// The position of the first zero byte.
pub(crate) fn name_len(bytes: &[u8]) -> Option<usize> {
    name_end(bytes).map(|(len, _)| len)
}

/// The positions of the parts of one element: `kind name \0 value`.
pub(crate) struct Step {
    pub(crate) kind: u8,
    pub(crate) tag: NameTag,
    /// The end of the name, which begins one byte after the start of the element.
    pub(crate) name_end: usize,
    /// The end of the value, which is the start of the next element.
    pub(crate) end: usize,
}

/// Decodes the element at `at`; none at the end of the document.
#[inline(always)]
pub(crate) fn step(bytes: &[u8], at: usize) -> Option<Step> {
    let (kind, rest) = bytes.get(at..)?.split_first()?;
    let kind = *kind;
    if kind == 0 {
        return None;
    }
    let (name_len, tag) = match rest.first_chunk::<8>() {
        Some(chunk) => {
            let word = u64::from_le_bytes(*chunk);
            let zeros = zero_bytes(word);
            match zeros {
                0 => (8 + name_len(&rest[8..])?, NameTag(word)),
                // Keeps all bytes before the first zero byte.
                _ => (
                    zeros.trailing_zeros() as usize / 8,
                    NameTag(word & (zeros ^ zeros.wrapping_sub(1))),
                ),
            }
        }
        None => {
            let len = rest.iter().position(|b| *b == 0)?;
            (len, NameTag::of(text(&rest[..len])))
        }
    };
    let name_end = at + 1 + name_len;
    let value_at = name_end + 1;
    let end = value_at + value_len(bytes, value_at, kind);
    (value_at <= end && end <= bytes.len()).then_some(Step { kind, tag, name_end, end })
}

/// The two words of a number of the decimal library, whose fields are private.
pub(crate) fn decimal_words(n: dfp_number_sys::BID128) -> [u64; 2] {
    // SAFETY: `BID128` is `repr(C)` and consists of exactly `[u64; 2]`; every bit pattern is a valid u64.
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

/// The lengths of values by type; `VARIABLE` if the value contains its length.
const FIXED: [u8; 256] = {
    let mut table = [0; 256];
    let known = [
        (0x08, 1),
        (0x10, 4),
        (0x01, 8),
        (0x09, 8),
        (0x11, 8),
        (0x12, 8),
        (0x07, 12),
        (0x13, 16),
        (0x02, VARIABLE),
        (0x0D, VARIABLE),
        (0x0E, VARIABLE),
        (0x03, VARIABLE),
        (0x04, VARIABLE),
        (0x0F, VARIABLE),
        (0x05, VARIABLE),
        (0x0C, VARIABLE),
        (0x0B, VARIABLE),
    ];
    let mut at = 0;
    while at < known.len() {
        table[known[at].0] = known[at].1;
        at += 1;
    }
    table
};

const VARIABLE: u8 = 0xFF;

/// The length of the value of type `kind` at `at`. The bytes must be validated.
#[inline(always)]
pub(crate) fn value_len(bytes: &[u8], at: usize, kind: u8) -> usize {
    match FIXED[kind as usize] {
        VARIABLE => variable_len(bytes, at, kind),
        len => len as usize,
    }
}

#[inline(always)]
fn variable_len(bytes: &[u8], at: usize, kind: u8) -> usize {
    let len = int32(bytes, at) as usize;
    match kind {
        0x02 | 0x0D | 0x0E => 4 + len,
        0x05 => 5 + len,
        0x0C => 4 + len + 12,
        0x0B => regex_len(bytes.get(at..).unwrap_or(&[])),
        _ => len,
    }
}

#[cold]
fn regex_len(rest: &[u8]) -> usize {
    let pattern = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
    let tail = rest.get(pattern + 1..).unwrap_or(&[]);
    let options = tail.iter().position(|b| *b == 0).unwrap_or(tail.len());
    pattern + 1 + options + 1
}

/// The value of type `kind` in `bytes[at..end]`. The bytes must be validated.
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
