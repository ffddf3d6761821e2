//! A borrowed document and the walk over its elements.

use crate::{DocBuf, Result, Type, Value, raw, validate};

/// A document: a slice that begins with its length and ends with a zero byte.
///
/// Equality is equality of bytes; for MongoDB's equality see [`crate::compare`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Doc<'a>(&'a [u8]);

/// One field: its name, its type byte and where its value lies.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    name: &'a str,
    kind: u8,
    value: &'a [u8],
}

/// The elements of a document or an array, in order.
#[derive(Clone)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Doc<'a> {
    /// The empty document.
    pub const EMPTY: Doc<'static> = Doc(&[5, 0, 0, 0, 0]);

    /// Validates `bytes` as exactly one document. Linear; no allocation.
    pub fn parse(bytes: &'a [u8]) -> Result<Doc<'a>> {
        validate::document(bytes)?;
        Ok(Doc(bytes))
    }

    /// Validates the document at the beginning of `bytes` and returns it with what follows.
    pub fn parse_prefix(bytes: &'a [u8]) -> Result<(Doc<'a>, &'a [u8])> {
        let len = validate::document_len(bytes)?;
        let (head, rest) = bytes.split_at(len);
        Ok((Doc::parse(head)?, rest))
    }

    /// Takes bytes that were validated before (stored records, replies just written).
    ///
    /// Only for bytes that came out of [`Doc::as_bytes`], [`crate::DocWriter`] or an engine.
    pub fn trusted(bytes: &'a [u8]) -> Doc<'a> {
        debug_assert!(bytes.len() < 5 || raw::int32(bytes, 0) as usize == bytes.len());
        if bytes.len() < 5 { Doc::EMPTY } else { Doc(bytes) }
    }

    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Size in bytes, length and terminator included.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no field at all.
    pub const fn is_empty(&self) -> bool {
        self.0.len() <= 5
    }

    pub fn iter(&self) -> Elements<'a> {
        Elements { bytes: self.0, at: 4 }
    }

    /// The value of the first field called `name`, or `Missing`. Linear in the fields before it.
    pub fn get(&self, name: &str) -> Value<'a> {
        self.element(name).map_or(Value::Missing, |e| e.value())
    }

    /// The first field called `name`.
    pub fn element(&self, name: &str) -> Option<Element<'a>> {
        self.iter().find(|e| e.name == name)
    }

    /// The first field.
    pub fn first(&self) -> Option<Element<'a>> {
        self.iter().next()
    }

    pub fn count(&self) -> usize {
        self.iter().count()
    }

    pub fn to_buf(&self) -> DocBuf {
        DocBuf::from_doc(*self)
    }
}

impl Default for Doc<'_> {
    fn default() -> Self {
        Doc::EMPTY
    }
}

impl<'a> IntoIterator for Doc<'a> {
    type Item = Element<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Doc<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        crate::text::write_doc(f, *self)
    }
}

impl<'a> Element<'a> {
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// The type byte as it stands in the document.
    pub const fn kind_byte(&self) -> u8 {
        self.kind
    }

    pub fn kind(&self) -> Type {
        Type::from_byte(self.kind).unwrap_or(Type::Missing)
    }

    pub fn value(&self) -> Value<'a> {
        raw::value(self.value, 0, self.value.len(), self.kind)
    }

    /// The bytes of the value, without type and name.
    pub const fn value_bytes(&self) -> &'a [u8] {
        self.value
    }
}

impl<'a> Elements<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Elements { bytes, at: 4 }
    }

    pub(crate) fn from_offset(bytes: &'a [u8], at: usize) -> Self {
        Elements { bytes, at }
    }

    /// Byte at which the next element begins, to go on later with [`crate::Array::elements_from`].
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let kind = *self.bytes.get(self.at)?;
        if kind == 0 {
            return None;
        }
        let name_at = self.at + 1;
        let name_len = raw::name_len(self.bytes.get(name_at..)?)?;
        let value_at = name_at + name_len + 1;
        let len = raw::value_len(self.bytes, value_at, kind);
        let value = self.bytes.get(value_at..value_at + len)?;
        self.at = value_at + len;
        Some(Element { name: raw::text(&self.bytes[name_at..name_at + name_len]), kind, value })
    }
}
