//! Writers that append documents and arrays to a buffer owned and reused by the caller.
//!
//! ```text
//!   buffer   [ earlier bytes | length (4) | fields ... ]          while a DocWriter exists
//!            [ earlier bytes | length (4) | fields ... | 0 ]      after `finish` or drop
//! ```
//!
//! A writer remembers the start of its document. `finish` writes the terminator and the length; so does dropping a
//! writer, so the bytes are valid in any case. `truncate` removes the fields written since a mark.

use crate::{Array, Doc, Element, Value};

/// Appends one document to a buffer.
pub struct DocWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
}

/// Appends one array to a buffer; the names of the elements are counted up.
pub struct ArrayWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    next: u32,
}

/// A position in a document: see [`DocWriter::mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

impl<'b> DocWriter<'b> {
    /// Begins a document at the end of `out`.
    pub fn new(out: &'b mut Vec<u8>) -> DocWriter<'b> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        DocWriter { out, start }
    }

    /// Continues the finished document that is the whole of `out`.
    pub fn resume(out: &'b mut Vec<u8>) -> DocWriter<'b> {
        out.pop();
        DocWriter { out, start: 0 }
    }

    /// Begins a nested document.
    fn at(out: &'b mut Vec<u8>) -> DocWriter<'b> {
        DocWriter::new(out)
    }

    /// Appends a field. A `Missing` value is not written.
    pub fn put<'v>(&mut self, name: &str, value: impl Into<Value<'v>>) {
        append_element(self.out, name, value.into());
    }

    /// Appends a field of another document without decoding its value.
    pub fn put_element(&mut self, element: Element<'_>) {
        append_name(self.out, element.kind_byte(), element.name());
        self.out.extend_from_slice(element.value_bytes());
    }

    /// Appends the fields of `doc` between two offsets of its [`crate::Elements`].
    pub fn extend_between(&mut self, doc: Doc<'_>, from: usize, to: usize) {
        self.out.extend_from_slice(&doc.as_bytes()[from..to]);
    }

    /// Appends every field of `doc`.
    pub fn extend(&mut self, doc: Doc<'_>) {
        let bytes = doc.as_bytes();
        self.out.extend_from_slice(&bytes[4..bytes.len() - 1]);
    }

    /// Appends a nested document that `fill` writes; returns the result of `fill`.
    pub fn doc<R>(&mut self, name: &str, fill: impl FnOnce(&mut DocWriter<'_>) -> R) -> R {
        append_name(self.out, 0x03, name);
        let mut inner = DocWriter::at(self.out);
        fill(&mut inner)
    }

    /// Appends a nested array that `fill` writes; returns the result of `fill`.
    pub fn array<R>(&mut self, name: &str, fill: impl FnOnce(&mut ArrayWriter<'_>) -> R) -> R {
        append_name(self.out, 0x04, name);
        let mut inner = ArrayWriter::new(self.out);
        fill(&mut inner)
    }

    /// A slot for one field whose value other code writes (an expression, an accumulator).
    pub fn slot<'s>(&'s mut self, name: &'s str) -> ValueSlot<'s> {
        ValueSlot { out: self.out, name: Name::Text(name) }
    }

    /// The current position in the document, for [`DocWriter::truncate`].
    pub fn mark(&self) -> Mark {
        Mark(self.out.len())
    }

    /// Removes the fields written since `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.out.truncate(mark.0.max(self.start + 4));
    }

    /// The number of bytes written so far, without the terminator.
    pub fn len(&self) -> usize {
        self.out.len() - self.start
    }

    /// Makes the buffer large enough for exactly `additional` bytes more.
    pub fn reserve_exact(&mut self, additional: usize) {
        self.out.reserve_exact(additional);
    }

    /// The capacity of the whole buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 4
    }

    /// Removes all fields; the document stays open.
    pub fn clear(&mut self) {
        self.out.truncate(self.start + 4);
    }

    /// Ends the document.
    pub fn finish(self) {}
}

impl Drop for DocWriter<'_> {
    fn drop(&mut self) {
        seal(self.out, self.start);
    }
}

impl<'b> ArrayWriter<'b> {
    /// Begins an array at the end of `out` (without type and name).
    pub fn new(out: &'b mut Vec<u8>) -> ArrayWriter<'b> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        ArrayWriter { out, start, next: 0 }
    }

    fn index(&mut self, kind: u8) {
        append_index(self.out, kind, self.next);
        self.next += 1;
    }

    /// Appends a value. `Missing` becomes null, so that the positions of the following elements stay correct.
    pub fn push<'v>(&mut self, value: impl Into<Value<'v>>) {
        let value = match value.into() {
            Value::Missing => Value::Null,
            value => value,
        };
        self.index(value.kind() as u8);
        append_payload(self.out, value);
    }

    /// Appends the value of another document's element without decoding it; its name is not used.
    pub fn push_element(&mut self, element: Element<'_>) {
        self.index(element.kind_byte());
        self.out.extend_from_slice(element.value_bytes());
    }

    /// Appends a document as bytes; this is the copy into the batch of a find.
    pub fn push_doc(&mut self, doc: Doc<'_>) {
        self.index(0x03);
        self.out.extend_from_slice(doc.as_bytes());
    }

    pub fn doc<R>(&mut self, fill: impl FnOnce(&mut DocWriter<'_>) -> R) -> R {
        self.index(0x03);
        let mut inner = DocWriter::at(self.out);
        fill(&mut inner)
    }

    pub fn array<R>(&mut self, fill: impl FnOnce(&mut ArrayWriter<'_>) -> R) -> R {
        self.index(0x04);
        let mut inner = ArrayWriter::new(self.out);
        fill(&mut inner)
    }

    /// A slot for one element whose value other code writes.
    pub fn slot(&mut self) -> ValueSlot<'_> {
        let index = self.next;
        self.next += 1;
        ValueSlot { out: self.out, name: Name::Index(index) }
    }

    /// The number of elements written.
    pub fn count(&self) -> u32 {
        self.next
    }

    /// The number of bytes written so far, without the terminator.
    pub fn len(&self) -> usize {
        self.out.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.next == 0
    }

    /// Makes the buffer large enough for `additional` more bytes, and not larger if it has to grow for that.
    pub fn reserve_exact(&mut self, additional: usize) {
        self.out.reserve_exact(additional);
    }

    /// Ends the array.
    pub fn finish(self) {}
}

impl Drop for ArrayWriter<'_> {
    fn drop(&mut self) {
        seal(self.out, self.start);
    }
}

enum Name<'s> {
    Text(&'s str),
    Index(u32),
}

/// A place for exactly one value with a known name. If nothing is written, the field is omitted.
pub struct ValueSlot<'s> {
    out: &'s mut Vec<u8>,
    name: Name<'s>,
}

impl<'s> ValueSlot<'s> {
    fn header(&mut self, kind: u8) {
        match self.name {
            Name::Text(name) => append_name(self.out, kind, name),
            Name::Index(index) => append_index(self.out, kind, index),
        }
    }

    /// Writes a value. `Missing` writes nothing (in an array: null).
    pub fn put<'v>(mut self, value: impl Into<Value<'v>>) {
        let value = match (value.into(), &self.name) {
            (Value::Missing, Name::Text(_)) => return,
            (Value::Missing, Name::Index(_)) => Value::Null,
            (value, _) => value,
        };
        self.header(value.kind() as u8);
        append_payload(self.out, value);
    }

    pub fn doc<R>(mut self, fill: impl FnOnce(&mut DocWriter<'_>) -> R) -> R {
        self.header(0x03);
        let mut inner = DocWriter::new(self.out);
        fill(&mut inner)
    }

    pub fn array<R>(mut self, fill: impl FnOnce(&mut ArrayWriter<'_>) -> R) -> R {
        self.header(0x04);
        let mut inner = ArrayWriter::new(self.out);
        fill(&mut inner)
    }
}

fn seal(out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let len = i32::try_from(out.len() - start).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

fn append_name(out: &mut Vec<u8>, kind: u8, name: &str) {
    debug_assert!(!name.as_bytes().contains(&0));
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

fn append_index(out: &mut Vec<u8>, kind: u8, index: u32) {
    out.push(kind);
    let mut digits = [0u8; 10];
    let mut at = digits.len();
    let mut rest = index;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.push(0);
}

/// Appends type, name and value. `Missing` appends nothing.
pub(crate) fn append_element(out: &mut Vec<u8>, name: &str, value: Value<'_>) {
    if !value.is_missing() {
        append_name(out, value.kind() as u8, name);
        append_payload(out, value);
    }
}

fn append_string(out: &mut Vec<u8>, text: &str) {
    let len = i32::try_from(text.len() + 1).unwrap_or(i32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Appends the bytes of a value without type and name.
pub(crate) fn append_payload(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Missing | Value::Null | Value::Undefined | Value::MinKey | Value::MaxKey => {}
        Value::Bool(v) => out.push(u8::from(v)),
        Value::Int32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Int64(v) | Value::DateTime(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Timestamp(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Double(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Decimal128(v) => out.extend_from_slice(&v.to_bytes()),
        Value::String(v) | Value::Symbol(v) | Value::Code(v) => append_string(out, v),
        Value::Doc(v) => out.extend_from_slice(v.as_bytes()),
        Value::Array(v) => out.extend_from_slice(Array::as_bytes(&v)),
        Value::Binary(v) => {
            let len = i32::try_from(v.bytes.len()).unwrap_or(i32::MAX);
            out.extend_from_slice(&len.to_le_bytes());
            out.push(v.subtype);
            out.extend_from_slice(v.bytes);
        }
        Value::ObjectId(v) => out.extend_from_slice(v),
        Value::Regex(v) => out.extend_from_slice(v.as_bytes()),
        Value::DbPointer(v) => out.extend_from_slice(v.as_bytes()),
        Value::CodeWithScope(v) => out.extend_from_slice(v.as_bytes()),
    }
}

impl Value<'_> {
    /// Returns true if both values have the same type and bytes, without numeric conversion: NaN equals itself, -0.0
    /// differs from 0.0.
    pub fn same_bytes(&self, other: &Value<'_>) -> bool {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.kind() == other.kind() && {
            append_payload(&mut a, *self);
            append_payload(&mut b, *other);
            a == b
        }
    }
}
