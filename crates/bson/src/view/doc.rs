//! A borrowed document and the iteration over its elements.

use crate::{
    NameTag, Result, Type, Value,
    view::{raw, validate},
};

/// A document: a slice that begins with its length and ends with a zero byte.
///
/// Equality is equality of bytes; for MongoDB's equality see [`crate::compare`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Doc<'a>(&'a [u8]);

/// One field: its name, its type byte and the bytes of its value.
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

    /// Validates `bytes` as exactly one document. The cost is linear; it does not allocate.
    ///
    /// # Errors
    /// If the bytes are not one valid document, nested at most 200 levels deep.
    pub fn parse(bytes: &'a [u8]) -> Result<Doc<'a>> {
        validate::document(bytes, validate::DEPTH_MAX)?;
        Ok(Doc(bytes))
    }

    /// Like [`Doc::parse`], for a document that the storage wrote around a client's document, which adds some levels.
    ///
    /// # Errors
    /// As for [`Doc::parse`].
    pub fn parse_wrapped(bytes: &'a [u8]) -> Result<Doc<'a>> {
        validate::document(bytes, validate::WRAPPED_DEPTH_MAX)?;
        Ok(Doc(bytes))
    }

    /// Validates the document at the beginning of `bytes` and returns it with the rest.
    ///
    /// # Errors
    /// As for [`Doc::parse`].
    pub fn parse_prefix(bytes: &'a [u8]) -> Result<(Doc<'a>, &'a [u8])> {
        let len = validate::document_len(bytes)?;
        let (head, rest) = bytes.split_at(len);
        Ok((Doc::parse(head)?, rest))
    }

    /// Takes bytes that have already been validated (stored records, replies just written).
    ///
    /// Only for bytes that come from [`Doc::as_bytes`], [`crate::DocWriter`] or an engine.
    pub fn trusted(bytes: &'a [u8]) -> Doc<'a> {
        debug_assert!(bytes.len() < 5 || raw::int32(bytes, 0) as usize == bytes.len());
        if bytes.len() < 5 { Doc::EMPTY } else { Doc(bytes) }
    }

    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The size in bytes, including the length and the terminator.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the document has no fields.
    pub const fn is_empty(&self) -> bool {
        self.0.len() <= 5
    }

    pub fn iter(&self) -> Elements<'a> {
        Elements { bytes: self.0, at: 4 }
    }

    /// The value of the first field named `name`, or `Missing`. The cost is linear in the fields before it.
    pub fn get(&self, name: &str) -> Value<'a> {
        self.element(name).map_or(Value::Missing, |e| e.value())
    }

    /// The first field named `name`.
    pub fn element(&self, name: &str) -> Option<Element<'a>> {
        self.element_tagged(NameTag::of(name), name)
    }

    /// The first field named `name`; the caller passes the name's tag.
    pub fn element_tagged(&self, tag: NameTag, name: &str) -> Option<Element<'a>> {
        let (bytes, mut at) = (self.0, 4);
        loop {
            let step = raw::step(bytes, at)?;
            if step.tag == tag
                && (tag.is_whole() || bytes[at + 1..step.name_end] == *name.as_bytes())
            {
                return Some(Element::of(bytes, at, &step));
            }
            at = step.end;
        }
    }

    /// The value of the first field named `name`, or `Missing`; the caller passes the name's tag.
    pub fn get_tagged(&self, tag: NameTag, name: &str) -> Value<'a> {
        self.element_tagged(tag, name).map_or(Value::Missing, |e| e.value())
    }

    /// The first field.
    pub fn first(&self) -> Option<Element<'a>> {
        self.iter().next()
    }

    pub fn count(&self) -> usize {
        self.iter().count()
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

impl<'a> Element<'a> {
    #[inline(always)]
    fn of(bytes: &'a [u8], at: usize, step: &raw::Step) -> Element<'a> {
        Element {
            name: raw::text(&bytes[at + 1..step.name_end]),
            kind: step.kind,
            value: &bytes[step.name_end + 1..step.end],
        }
    }

    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// The type byte as it is in the document.
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

    /// The offset in bytes of the next element, for a later [`crate::Array::elements_from`].
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The next element with the tag of its name.
    #[inline]
    pub fn next_tagged(&mut self) -> Option<(NameTag, Element<'a>)> {
        let step = raw::step(self.bytes, self.at)?;
        let element = Element::of(self.bytes, self.at, &step);
        self.at = step.end;
        Some((step.tag, element))
    }
}

impl<'a> Elements<'a> {
    /// The next element whose name has one of four tags, and a bit for each matching tag. For names of eight bytes or
    /// more, the caller must compare the whole names.
    pub fn find_any(&mut self, tags: &[NameTag; 4]) -> Option<(u32, Element<'a>)> {
        loop {
            let step = raw::step(self.bytes, self.at)?;
            let mut which = 0;
            for (at, tag) in tags.iter().enumerate() {
                which |= u32::from(*tag == step.tag) << at;
            }
            let begin = std::mem::replace(&mut self.at, step.end);
            if which != 0 {
                return Some((which, Element::of(self.bytes, begin, &step)));
            }
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.next_tagged().map(|(_, element)| element)
    }
}
