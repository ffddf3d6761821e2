//! A compact form of values that are stored in large numbers: the bytes of a value without type and name, and owned
//! values.

use crate::{Type, Value, view::raw, writer};

/// The maximal size of a value that is stored inline; it fits any number and an ObjectId.
const INLINE_BYTES: usize = 16;

/// Appends a value's bytes, without type and name.
pub fn append_payload(out: &mut Vec<u8>, value: Value<'_>) {
    writer::append_payload(out, value);
}

/// The value of type `kind` whose bytes [`append_payload`] wrote. The bytes are trusted: other bytes give a wrong
/// value or a panic.
#[inline]
pub fn payload_value(kind: Type, bytes: &[u8]) -> Value<'_> {
    raw::value(bytes, 0, bytes.len(), kind as u8)
}

/// An owned value of 24 bytes. Numbers, dates, ObjectIds and other small values need no allocation. Other values
/// allocate exactly their bytes, unlike a `ValueBuf`.
#[derive(Clone)]
pub struct KeptValue(Repr);

#[derive(Clone)]
enum Repr {
    Inline(Type, [u8; INLINE_BYTES]),
    Heap(Type, Box<[u8]>),
}

const _: () = assert!(size_of::<KeptValue>() == 24);

impl KeptValue {
    pub fn new(value: Value<'_>) -> KeptValue {
        let kind = value.kind();
        let mut bytes = [0; INLINE_BYTES];
        let (n, len) = match value {
            Value::Missing | Value::Null | Value::Undefined | Value::MinKey | Value::MaxKey => {
                (0, 0)
            }
            Value::Bool(v) => (u64::from(v), 1),
            Value::Int32(v) => (v as u64, 4),
            Value::Int64(v) | Value::DateTime(v) => (v as u64, 8),
            Value::Timestamp(v) => (v, 8),
            Value::Double(v) => (v.to_bits(), 8),
            Value::Decimal128(v) => {
                bytes = v.to_bytes();
                (0, 0)
            }
            Value::ObjectId(v) => {
                bytes[..v.len()].copy_from_slice(v);
                (0, 0)
            }
            _ => {
                let mut long = Vec::new();
                append_payload(&mut long, value);
                return KeptValue(Repr::Heap(kind, long.into_boxed_slice()));
            }
        };
        bytes[..len].copy_from_slice(&n.to_le_bytes()[..len]);
        KeptValue(Repr::Inline(kind, bytes))
    }

    /// The value; `Missing` comes back as `Missing`.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        match &self.0 {
            Repr::Inline(kind, bytes) => payload_value(*kind, bytes),
            Repr::Heap(kind, bytes) => payload_value(*kind, bytes),
        }
    }

    /// The number of bytes that it uses beside its own size, for accounting.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Inline(..) => 0,
            Repr::Heap(_, bytes) => bytes.len(),
        }
    }
}

impl std::fmt::Debug for KeptValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binary, CodeWithScope, Decimal128, Regex, array, doc};

    #[test]
    fn every_value_comes_back() {
        let (d, a) = (doc! { "a": 1, "b": "x" }, array![1, "two", 3.5]);
        let scoped = [19, 0, 0, 0, 2, 0, 0, 0, b'f', 0, 5, 0, 0, 0, 0];
        let scoped = doc! { "v": (Value::CodeWithScope(CodeWithScope(&scoped))) };
        let values = [
            Value::Missing,
            Value::Null,
            Value::Undefined,
            Value::Bool(true),
            Value::Bool(false),
            Value::Int32(-7),
            Value::Int64(i64::MIN),
            Value::Double(-0.0),
            Value::Double(f64::NAN),
            Value::Decimal128(Decimal128::from_i64(12)),
            Value::String(""),
            Value::String("longer than sixteen bytes"),
            Value::Symbol("s"),
            Value::Code("f()"),
            Value::Doc(d.as_doc()),
            Value::Array(a.as_array()),
            Value::Binary(Binary { subtype: 5, bytes: b"bytes" }),
            Value::ObjectId(&[7; 12]),
            Value::DateTime(-1),
            Value::Timestamp(u64::MAX),
            Value::Regex(Regex::from_bytes(b"^a\0i\0").unwrap()),
            scoped.get("v"),
            Value::MinKey,
            Value::MaxKey,
        ];
        for value in values {
            let kept = KeptValue::new(value);
            assert!(kept.value().same_bytes(&value), "{value:?}");
            let mut bytes = Vec::new();
            append_payload(&mut bytes, value);
            assert!(payload_value(value.kind(), &bytes).same_bytes(&value), "{value:?}");
        }
        assert_eq!(KeptValue::new(Value::Int32(1)).heap_bytes(), 0);
        assert_eq!(KeptValue::new(Value::String("abc")).heap_bytes(), 8);
    }
}
