//! A sequence of documents without a count.

use nagi_bson::Doc;

/// Iterates over documents that were validated when the message was parsed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Docs<'a> {
    bytes: &'a [u8],
}

impl<'a> Docs<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Docs<'a> {
        Docs { bytes }
    }

    /// The bytes of all documents.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Docs<'a> {
    type Item = Doc<'a>;

    fn next(&mut self) -> Option<Doc<'a>> {
        let len = u32::from_le_bytes(*self.bytes.first_chunk()?) as usize;
        let (head, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(Doc::trusted(head))
    }
}
