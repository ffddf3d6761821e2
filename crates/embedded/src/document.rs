//! What may be passed as a document.

use nagi_bson::{Doc, DocBuf};

use crate::{Error, Result};

/// Anything that is a BSON document: bytes, [`DocBuf`], [`Doc`], and with the feature `bson` the documents of the
/// official crate.
///
/// Bytes are validated when they are used, in one linear pass without an allocation.
///
/// ```
/// use nagi::{Document, doc};
/// let built = doc! { "a": 1 };
/// let bytes: Vec<u8> = built.as_bytes().to_vec();
/// assert_eq!(bytes.document()?.as_doc(), built.as_doc());
/// assert!([1_u8, 2, 3].as_slice().document().is_err());
/// # Ok::<(), nagi::Error>(())
/// ```
pub trait Document {
    /// The document.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Document`] if the bytes are not one valid document, nested at most 200 levels deep, or if
    /// the value does not convert to one.
    fn document(&self) -> Result<Parsed<'_>>;
}

/// A valid document, borrowed if it had the form of bytes already.
#[derive(Debug, Clone)]
pub enum Parsed<'a> {
    /// Bytes of the value itself.
    Borrowed(Doc<'a>),
    /// Bytes that the conversion made.
    Owned(DocBuf),
}

impl Parsed<'_> {
    /// The document.
    pub fn as_doc(&self) -> Doc<'_> {
        match self {
            Parsed::Borrowed(doc) => *doc,
            Parsed::Owned(doc) => doc.as_doc(),
        }
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Doc<'_>> {
    Doc::parse(bytes).map_err(|error| Error::document(format!("invalid BSON: {error}")))
}

impl Document for DocBuf {
    fn document(&self) -> Result<Parsed<'_>> {
        Ok(Parsed::Borrowed(self.as_doc()))
    }
}

impl Document for Doc<'_> {
    fn document(&self) -> Result<Parsed<'_>> {
        Ok(Parsed::Borrowed(*self))
    }
}

impl Document for [u8] {
    fn document(&self) -> Result<Parsed<'_>> {
        parse(self).map(Parsed::Borrowed)
    }
}

impl Document for Vec<u8> {
    fn document(&self) -> Result<Parsed<'_>> {
        parse(self).map(Parsed::Borrowed)
    }
}

impl<T: Document + ?Sized> Document for &T {
    fn document(&self) -> Result<Parsed<'_>> {
        (**self).document()
    }
}

/// Reads a document of Extended JSON (canonical or relaxed), or in the notation of the shell.
///
/// ```
/// let doc = nagi::from_json(r#"{"n": 5, "at": {"$date": "2026-01-01T00:00:00Z"}}"#)?;
/// assert_eq!(doc.get("n"), nagi::Value::Int32(5));
/// assert!(nagi::from_json("{").is_err());
/// # Ok::<(), nagi::Error>(())
/// ```
///
/// # Errors
/// [`crate::ErrorKind::Document`]; the text says what is wrong and where.
pub fn from_json(text: &str) -> Result<DocBuf> {
    nagi_bson::json::parse(text).map_err(Error::document)
}

/// Prints a document as relaxed Extended JSON.
///
/// ```
/// assert_eq!(nagi::to_json(nagi::doc! { "a": 1 }.as_doc()), r#"{"a":1}"#);
/// ```
pub fn to_json(doc: Doc<'_>) -> String {
    nagi_bson::json::to_relaxed(doc)
}
