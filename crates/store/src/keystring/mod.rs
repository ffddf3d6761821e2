//! Index key strings: order-preserving bytes for BSON values.
//!
//! `append(a) < append(b)` as bytes exactly when `a < b` in BSON order under the field's direction.
//!
//!   tag (1 byte: type class, for numbers also sign and size) | value bytes | ... next field
//!
//! Examples, ascending (docs/format.md has the bytes):
//!
//! ```text
//!   MinKey  <  undefined  <  null  <  -1  <  0  <  1  <  1.5  <  2  <  "a"  <  "ab"  <  "b"  <  {}  <  []  <  MaxKey
//! ```
//!
//! Invariants
//! - An encoding is self-terminating: none is a prefix of another. So a key is the concatenation of its fields'
//!   encodings, and all keys that begin with the same values share a prefix.
//! - 1, NumberLong(1) and 1.0 have the same encoding; the type bits that distinguish them are stored in the value.
//! - A missing field is encoded as null, an empty array (as an index key) as undefined.
//! - A descending field is the bitwise complement of the ascending one.
//! - No key continues with the byte 0xFF after a complete field: `prefix` is a bound before all keys with these
//!   leading values, and `prefix | 0xFF` one after all of them.
//!
//! The module does not know multikey expansion (see `index::keygen`), idents, or collations (strings arrive as
//! collation keys).

mod big;
mod decode;
mod number;
mod skip;
mod typebits;

use nagi_bson::{Array, Doc, Value};

pub use decode::{decode, decode_some};
pub use skip::field_len;
pub use typebits::TypeBits;

/// Appended to a prefix of complete fields: a bound after all keys with that prefix.
pub const AFTER: u8 = 0xFF;

/// The first byte of a value. Ascending in the order of BSON types.
pub(crate) mod tag {
    pub(crate) const END: u8 = 0x00;
    pub(crate) const MIN_KEY: u8 = 0x0A;
    pub(crate) const UNDEFINED: u8 = 0x0F;
    pub(crate) const NULL: u8 = 0x14;
    pub(crate) const NAN: u8 = 0x19;
    pub(crate) const NEGATIVE_INFINITY: u8 = 0x1A;
    /// 2^63 and greater magnitudes.
    pub(crate) const NEGATIVE_LARGE: u8 = 0x1B;
    /// Integer part of n bytes: this value minus n.
    pub(crate) const NEGATIVE_INT: u8 = 0x24;
    /// Magnitudes below one.
    pub(crate) const NEGATIVE_SMALL: u8 = 0x24;
    pub(crate) const ZERO: u8 = 0x25;
    pub(crate) const POSITIVE_SMALL: u8 = 0x26;
    /// Integer part of n bytes: this value plus n.
    pub(crate) const POSITIVE_INT: u8 = 0x26;
    pub(crate) const POSITIVE_LARGE: u8 = 0x2F;
    pub(crate) const POSITIVE_INFINITY: u8 = 0x30;
    pub(crate) const STRING: u8 = 0x3C;
    pub(crate) const OBJECT: u8 = 0x46;
    pub(crate) const ARRAY: u8 = 0x50;
    pub(crate) const BINARY: u8 = 0x5A;
    pub(crate) const OBJECT_ID: u8 = 0x64;
    pub(crate) const FALSE: u8 = 0x6E;
    pub(crate) const TRUE: u8 = 0x6F;
    pub(crate) const DATE: u8 = 0x78;
    pub(crate) const TIMESTAMP: u8 = 0x82;
    pub(crate) const REGEX: u8 = 0x8C;
    pub(crate) const DB_POINTER: u8 = 0x96;
    pub(crate) const CODE: u8 = 0xA0;
    pub(crate) const CODE_WITH_SCOPE: u8 = 0xAA;
    pub(crate) const MAX_KEY: u8 = 0xF0;
}

/// Appends the encoding of one field, for a bound or a lookup. Does not allocate except for `out` (and for decimals
/// that are not short fractions).
pub fn append(value: Value<'_>, descending: bool, out: &mut Vec<u8>) {
    let start = out.len();
    encode(value, out, &mut None);
    if descending {
        complement(&mut out[start..]);
    }
}

/// Appends the encoding of one field, and appends to `bits` the information that restores the exact value.
pub fn append_typed(value: Value<'_>, descending: bool, out: &mut Vec<u8>, bits: &mut TypeBits) {
    let start = out.len();
    encode(value, out, &mut Some(bits));
    if descending {
        complement(&mut out[start..]);
    }
}

fn complement(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

fn encode(value: Value<'_>, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    match value {
        Value::Missing => null(out, bits, true),
        Value::Null => null(out, bits, false),
        Value::Undefined => out.push(tag::UNDEFINED),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
            number::encode(value, out, bits);
        }
        Value::String(text) => string(text, false, out, bits),
        Value::Symbol(text) => string(text, true, out, bits),
        Value::Doc(doc) => object(doc, tag::OBJECT, out, bits),
        Value::Array(items) => array(items, out, bits),
        Value::Binary(binary) => {
            out.push(tag::BINARY);
            length(binary.bytes.len(), out);
            out.push(binary.subtype);
            out.extend_from_slice(binary.bytes);
        }
        Value::ObjectId(id) => {
            out.push(tag::OBJECT_ID);
            out.extend_from_slice(id);
        }
        Value::Bool(false) => out.push(tag::FALSE),
        Value::Bool(true) => out.push(tag::TRUE),
        Value::DateTime(ms) => {
            out.push(tag::DATE);
            out.extend_from_slice(&((ms as u64) ^ (1 << 63)).to_be_bytes());
        }
        Value::Timestamp(stamp) => {
            out.push(tag::TIMESTAMP);
            out.extend_from_slice(&stamp.to_be_bytes());
        }
        Value::Regex(regex) => {
            out.push(tag::REGEX);
            escaped(regex.pattern().as_bytes(), out);
            escaped(regex.options().as_bytes(), out);
        }
        Value::DbPointer(pointer) => {
            out.push(tag::DB_POINTER);
            length(pointer.namespace().len(), out);
            out.extend_from_slice(pointer.namespace().as_bytes());
            out.extend_from_slice(pointer.id());
        }
        Value::Code(code) => {
            out.push(tag::CODE);
            escaped(code.as_bytes(), out);
        }
        Value::CodeWithScope(code) => {
            out.push(tag::CODE_WITH_SCOPE);
            escaped(code.code().as_bytes(), out);
            fields(code.scope(), out, bits);
        }
        Value::MinKey => out.push(tag::MIN_KEY),
        Value::MaxKey => out.push(tag::MAX_KEY),
    }
}

fn null(out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>, missing: bool) {
    out.push(tag::NULL);
    if let Some(bits) = bits {
        bits.push(u64::from(missing), 1);
    }
}

fn string(text: &str, symbol: bool, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    out.push(tag::STRING);
    escaped(text.as_bytes(), out);
    if let Some(bits) = bits {
        bits.push(u64::from(symbol), 1);
    }
}

/// Text in byte order: 0 becomes 1 1, 1 becomes 1 2, and a 0 terminates it.
fn escaped(text: &[u8], out: &mut Vec<u8>) {
    if text.iter().any(|byte| *byte <= 1) {
        for byte in text {
            match byte {
                0 | 1 => out.extend_from_slice(&[1, byte + 1]),
                _ => out.push(*byte),
            }
        }
    } else {
        out.extend_from_slice(text);
    }
    out.push(tag::END);
}

/// A length in the order of numbers: one byte, or 0xFF and four bytes.
fn length(len: usize, out: &mut Vec<u8>) {
    match u8::try_from(len) {
        Ok(short) if short < 0xFF => out.push(short),
        _ => {
            out.push(0xFF);
            out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}

fn object(doc: Doc<'_>, tag: u8, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    out.push(tag);
    fields(doc, out, bits);
}

/// Field by field: type class, name, value; of two with a common beginning, the shorter is less.
fn fields(doc: Doc<'_>, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    for element in doc {
        let value = element.value();
        out.push(class(value));
        escaped(element.name().as_bytes(), out);
        encode(value, out, bits);
    }
    out.push(tag::END);
}

/// Element by element; names are ignored.
fn array(items: Array<'_>, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    out.push(tag::ARRAY);
    for value in items.iter() {
        encode(value, out, bits);
    }
    out.push(tag::END);
}

/// The class by which fields of objects compare before their names: the least tag of the class.
fn class(value: Value<'_>) -> u8 {
    match value {
        Value::MinKey => tag::MIN_KEY,
        Value::Undefined => tag::UNDEFINED,
        Value::Missing | Value::Null => tag::NULL,
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => tag::NAN,
        Value::String(_) | Value::Symbol(_) => tag::STRING,
        Value::Doc(_) => tag::OBJECT,
        Value::Array(_) => tag::ARRAY,
        Value::Binary(_) => tag::BINARY,
        Value::ObjectId(_) => tag::OBJECT_ID,
        Value::Bool(_) => tag::FALSE,
        Value::DateTime(_) => tag::DATE,
        Value::Timestamp(_) => tag::TIMESTAMP,
        Value::Regex(_) => tag::REGEX,
        Value::DbPointer(_) => tag::DB_POINTER,
        Value::Code(_) => tag::CODE,
        Value::CodeWithScope(_) => tag::CODE_WITH_SCOPE,
        Value::MaxKey => tag::MAX_KEY,
    }
}
