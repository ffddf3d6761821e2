//! The official crate `bson`, and collections of types that implement serde's traits.

use std::marker::PhantomData;

use bson::{RawDocument, RawDocumentBuf};
use nagi_bson::{DocBuf, ValueBuf};
use serde::{Serialize, de::DeserializeOwned};

use crate::document::parse;
use crate::{Collection, Cursor, Document, Error, Parsed, Result, Updated};

impl Document for RawDocument {
    fn document(&self) -> Result<Parsed<'_>> {
        parse(self.as_bytes()).map(Parsed::Borrowed)
    }
}

impl Document for RawDocumentBuf {
    fn document(&self) -> Result<Parsed<'_>> {
        parse(self.as_bytes()).map(Parsed::Borrowed)
    }
}

impl Document for bson::Document {
    fn document(&self) -> Result<Parsed<'_>> {
        to_doc(self).map(Parsed::Owned)
    }
}

/// Converts a value of any serializable type, such as `bson::Document`, to a document.
///
/// ```
/// let doc = nagi::to_doc(&bson::doc! { "a": 1 })?;
/// assert_eq!(doc, nagi::doc! { "a": 1 });
/// # Ok::<(), nagi::Error>(())
/// ```
///
/// # Errors
/// [`crate::ErrorKind::Document`] if the type does not serialize as a document.
pub fn to_doc<T: Serialize>(value: &T) -> Result<DocBuf> {
    let bytes =
        bson::serialize_to_vec(value).map_err(|error| Error::document(error.to_string()))?;
    DocBuf::from_bytes(bytes).map_err(|error| Error::document(error.to_string()))
}

/// Converts a document to a deserializable type, such as `bson::Document`.
///
/// ```
/// let doc: bson::Document = nagi::from_doc(nagi::doc! { "a": 1 })?;
/// assert_eq!(doc, bson::doc! { "a": 1 });
/// # Ok::<(), nagi::Error>(())
/// ```
///
/// # Errors
/// [`crate::ErrorKind::Document`] if the document does not have the form of the type.
pub fn from_doc<T: DeserializeOwned>(doc: impl Document) -> Result<T> {
    let parsed = doc.document()?;
    let bytes = parsed.as_doc().as_bytes();
    bson::deserialize_from_slice(bytes).map_err(|error| Error::document(error.to_string()))
}

/// A [`Collection`] whose documents are of one type. Filters, updates and pipelines are documents of either crate.
///
/// ```
/// use bson::doc;
/// use serde::{Deserialize, Serialize};
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Book { _id: i32, title: String, year: i32 }
///
/// let db = nagi::Database::in_memory()?;
/// let books = db.database("library").collection("books").typed::<Book>();
/// books.insert_many(&[Book { _id: 1, title: "Ubik".into(), year: 1969 }])?;
/// for book in books.find(doc! { "year": { "$lt": 1970 } })? {
///     assert_eq!(book?.title, "Ubik");
/// }
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug)]
pub struct TypedCollection<T> {
    raw: Collection,
    of: PhantomData<fn() -> T>,
}

impl Collection {
    /// The same collection with documents of a type that implements serde's traits.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Person { name: String }
    /// let people = db.database("app").collection("people").typed::<Person>();
    /// people.insert_one(&Person { name: "Ada".into() })?;
    /// assert_eq!(people.find_one(nagi::doc! {})?.expect("one").name, "Ada");
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn typed<T>(&self) -> TypedCollection<T> {
        TypedCollection::new(self.clone())
    }
}

impl<T> Clone for TypedCollection<T> {
    fn clone(&self) -> Self {
        TypedCollection::new(self.raw.clone())
    }
}

impl<T> TypedCollection<T> {
    pub(crate) fn new(raw: Collection) -> TypedCollection<T> {
        TypedCollection { raw, of: PhantomData }
    }

    /// The collection without the type: for aggregations, indexes, counts, deletions, change streams.
    pub fn raw(&self) -> &Collection {
        &self.raw
    }
}

impl<T: Serialize> TypedCollection<T> {
    /// Inserts a value and returns its `_id`.
    ///
    /// # Errors
    /// As for [`Collection::insert_one`], or if the value does not serialize as a document.
    pub fn insert_one(&self, value: &T) -> Result<ValueBuf> {
        self.raw.insert_one(to_doc(value)?)
    }

    /// Inserts values in order and returns their number.
    ///
    /// # Errors
    /// As for [`Collection::insert_many`], or if a value does not serialize as a document; none is inserted then.
    pub fn insert_many<'v>(&self, values: impl IntoIterator<Item = &'v T>) -> Result<u64>
    where
        T: 'v,
    {
        let documents: Result<Vec<DocBuf>> = values.into_iter().map(to_doc).collect();
        self.raw.insert_many(documents?)
    }

    /// Replaces the first document that matches by a value.
    ///
    /// ```
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Book { _id: i32, title: String }
    /// # let db = nagi::Database::in_memory()?;
    /// # let books = db.database("library").collection("books").typed::<Book>();
    /// # books.insert_one(&Book { _id: 1, title: "Ubik".into() })?;
    /// let other = Book { _id: 1, title: "Solaris".into() };
    /// assert_eq!(books.replace_one(bson::doc! { "_id": 1 }, &other)?.modified, 1);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Collection::update_one`].
    pub fn replace_one(&self, filter: impl Document, value: &T) -> Result<Updated> {
        self.raw.update_one(filter, to_doc(value)?)
    }
}

impl<T: DeserializeOwned> TypedCollection<T> {
    /// The values that match a filter.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn find(&self, filter: impl Document) -> Result<TypedCursor<T>> {
        Ok(TypedCursor { raw: self.raw.find(filter)?, of: PhantomData })
    }

    /// As [`TypedCollection::find`], with further fields of `find`.
    ///
    /// # Errors
    /// Those of the filter and the options.
    pub fn find_with(
        &self,
        filter: impl Document,
        options: impl Document,
    ) -> Result<TypedCursor<T>> {
        Ok(TypedCursor { raw: self.raw.find_with(filter, options)?, of: PhantomData })
    }

    /// The first value that matches a filter.
    ///
    /// # Errors
    /// Those of the filter, or if the document does not have the form of the type.
    pub fn find_one(&self, filter: impl Document) -> Result<Option<T>> {
        self.raw.find_one(filter)?.map(from_doc).transpose()
    }
}

/// The values of a query, as an iterator.
///
/// ```
/// # let db = nagi::Database::in_memory()?;
/// let all = db.database("library").collection("books").typed::<bson::Document>().find(nagi::doc! {})?;
/// assert_eq!(all.count(), 0);
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug)]
pub struct TypedCursor<T> {
    raw: Cursor,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for TypedCursor<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let doc = self.raw.advance().transpose()?;
        Some(doc.and_then(from_doc))
    }
}
