//! Owned documents, arrays and values, for data that outlives a request: catalog entries, constants of parsed
//! filters, tests.

use crate::{Array, ArrayWriter, Doc, DocWriter, Result, Value, view::raw};

/// An owned document.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DocBuf(Vec<u8>);

/// An owned array.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ArrayBuf(Vec<u8>);

/// An owned value: a document with the value as its only field, named "".
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ValueBuf(Vec<u8>);

impl DocBuf {
    /// The empty document.
    pub fn new() -> DocBuf {
        Doc::EMPTY.to_buf()
    }

    /// Builds a document with a writer.
    pub fn build(fill: impl FnOnce(&mut DocWriter<'_>)) -> DocBuf {
        let mut bytes = Vec::new();
        let mut writer = DocWriter::new(&mut bytes);
        fill(&mut writer);
        writer.finish();
        DocBuf(bytes)
    }

    /// Like [`DocBuf::build`], for a document of which the size is known approximately.
    pub fn build_sized(bytes: usize, fill: impl FnOnce(&mut DocWriter<'_>)) -> DocBuf {
        let mut out = Vec::with_capacity(bytes);
        fill(&mut DocWriter::new(&mut out));
        DocBuf(out)
    }

    pub fn from_doc(doc: Doc<'_>) -> DocBuf {
        DocBuf(doc.as_bytes().to_vec())
    }

    /// Takes bytes from an external source.
    ///
    /// # Errors
    /// If they are not one valid document.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<DocBuf> {
        Doc::parse(&bytes)?;
        Ok(DocBuf(bytes))
    }

    pub fn as_doc(&self) -> Doc<'_> {
        Doc::trusted(&self.0)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn get(&self, name: &str) -> Value<'_> {
        self.as_doc().get(name)
    }
}

impl Default for DocBuf {
    fn default() -> Self {
        DocBuf::new()
    }
}

impl ArrayBuf {
    /// Builds an array with a writer.
    pub fn build(fill: impl FnOnce(&mut ArrayWriter<'_>)) -> ArrayBuf {
        let mut bytes = Vec::new();
        let mut writer = ArrayWriter::new(&mut bytes);
        fill(&mut writer);
        writer.finish();
        ArrayBuf(bytes)
    }

    pub fn from_array(array: Array<'_>) -> ArrayBuf {
        ArrayBuf(array.as_bytes().to_vec())
    }

    pub fn as_array(&self) -> Array<'_> {
        Array::trusted(&self.0)
    }
}

impl ValueBuf {
    pub fn new(value: Value<'_>) -> ValueBuf {
        ValueBuf(DocBuf::build(|w| w.put("", value)).0)
    }

    /// The value; `Missing` comes back as `Missing`.
    pub fn value(&self) -> Value<'_> {
        // The only field has the name "", so its value begins at byte 6.
        match self.0[4] {
            0 => Value::Missing,
            kind => raw::value(&self.0, 6, self.0.len() - 1, kind),
        }
    }

    /// Replaces the value; the memory is used again.
    pub fn set(&mut self, value: Value<'_>) {
        self.0.clear();
        DocWriter::new(&mut self.0).put("", value);
    }

    /// The number of bytes that it has allocated, for accounting.
    pub fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }
}

impl From<Value<'_>> for ValueBuf {
    fn from(value: Value<'_>) -> Self {
        ValueBuf::new(value)
    }
}

impl Doc<'_> {
    pub fn to_buf(&self) -> DocBuf {
        DocBuf::from_doc(*self)
    }
}

impl Array<'_> {
    pub fn to_buf(&self) -> ArrayBuf {
        ArrayBuf::from_array(*self)
    }
}

impl<'a> From<&'a DocBuf> for Value<'a> {
    fn from(v: &'a DocBuf) -> Self {
        Value::Doc(v.as_doc())
    }
}

impl<'a> From<&'a ArrayBuf> for Value<'a> {
    fn from(v: &'a ArrayBuf) -> Self {
        Value::Array(v.as_array())
    }
}
