//! A reader of untrusted bytes.

use nagi_bson::Doc;

use crate::fault::{Fault, Result};

#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((chunk, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(Fault::framing("message ends too early"));
        };
        self.bytes = rest;
        Ok(*chunk)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.chunk::<1>()?[0])
    }

    pub(crate) fn int32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.chunk()?))
    }

    pub(crate) fn uint32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.chunk()?))
    }

    pub(crate) fn int64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.chunk()?))
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.bytes.split_at_checked(len) else {
            return Err(Fault::framing("message ends too early"));
        };
        self.bytes = rest;
        Ok(head)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let Some(len) = self.bytes.iter().position(|b| *b == 0) else {
            return Err(Fault::framing("name has no terminator"));
        };
        let text = self.take(len)?;
        self.byte()?;
        std::str::from_utf8(text).map_err(|_| Fault::framing("name is not valid UTF-8"))
    }

    /// Reads one document and validates it.
    pub(crate) fn doc(&mut self) -> Result<Doc<'a>> {
        let (doc, rest) = Doc::parse_prefix(self.bytes).map_err(Fault::content)?;
        self.bytes = rest;
        Ok(doc)
    }

    /// Reads all remaining bytes as consecutive documents and validates them.
    pub(crate) fn docs(&mut self) -> Result<crate::Docs<'a>> {
        let docs = crate::Docs::new(self.bytes);
        while !self.is_empty() {
            self.doc()?;
        }
        Ok(docs)
    }
}
