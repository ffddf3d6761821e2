//! Results that are read batch by batch.

use nagi_bson::number::as_i64_exact as integer;
use nagi_bson::{Array, Doc, DocBuf, Value};

use nagi_error::Code;

use crate::scope::Scope;
use crate::{Error, ErrorKind, Result};

/// Documents of a batch after the first one, unless the query says otherwise. A batch costs some microseconds here, so
/// there is no reason to hold as many as a client at the end of a network would.
const BATCH_SIZE: i64 = 1000;

/// The documents of a query, as an iterator.
///
/// It holds one batch: 101 documents, then 1000, or `batchSize`, and at most 16 MB. The next one is fetched when it is
/// needed. Between two batches it holds no
/// snapshot. Dropping the cursor frees what the query still holds. A cursor keeps its database open, but not against
/// [`crate::Database::close`].
///
/// ```
/// # let db = nagi::Database::in_memory()?;
/// use nagi::{DocBuf, doc, number};
/// let numbers = db.database("test").collection("numbers");
/// numbers.insert_many((0..1000).map(|n| doc! { "_id": n }))?;
/// let mut cursor = numbers.find_with(doc! {}, doc! { "sort": { "_id": 1 }, "batchSize": 10 })?;
/// let mut sum = 0;
/// while let Some(doc) = cursor.advance()? {
///     sum += number::as_i64_exact(doc.get("_id")).unwrap_or(0); // borrowed from the batch, without a copy
/// }
/// assert_eq!(sum, 499_500);
/// let all: Vec<DocBuf> = numbers.find(doc! {})?.collect::<Result<_, _>>()?;
/// assert_eq!(all.len(), 1000);
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug)]
pub struct Cursor {
    scope: Scope,
    db: String,
    collection: String,
    /// The id for the next batch; 0 if there is none.
    id: i64,
    batch_size: i64,
    reply: DocBuf,
    /// The offset of the next document in the batch.
    offset: Option<usize>,
}

impl Cursor {
    /// Takes the first batch from the reply of a command.
    pub(crate) fn new(scope: Scope, db: &str, options: Doc<'_>, reply: DocBuf) -> Result<Cursor> {
        let batch_size = options.get("batchSize");
        let nested = options.get("cursor").as_doc().map(|cursor| cursor.get("batchSize"));
        let batch_size = integer(batch_size).or_else(|| nested.and_then(integer));
        let mut cursor = Cursor {
            scope,
            db: db.to_owned(),
            collection: String::new(),
            id: 0,
            batch_size: batch_size.filter(|size| *size > 0).unwrap_or(BATCH_SIZE),
            reply,
            offset: None,
        };
        let part = part(&cursor.reply)?;
        let namespace = part.get("ns").as_str().unwrap_or_default();
        let collection = namespace.split_once('.').map_or("", |(_, collection)| collection);
        let (id, collection) = (integer(part.get("id")).unwrap_or(0), collection.to_owned());
        cursor.id = id;
        cursor.collection = collection;
        Ok(cursor)
    }

    /// Moves to the next document and lends its bytes; `None` after the last one.
    ///
    /// # Errors
    /// Those of the query. [`ErrorKind::Closed`] if the database was closed; documents of the present batch are still
    /// returned then.
    pub fn advance(&mut self) -> Result<Option<Doc<'_>>> {
        loop {
            if let Some(at) = self.step() {
                return self.at(at).map(Some);
            }
            if self.id == 0 || !self.fetch(None)? {
                return Ok(None);
            }
        }
    }

    /// The documents that are left of the batch in memory, without fetching another one.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// # use nagi::doc;
    /// # let numbers = db.database("test").collection("numbers");
    /// # numbers.insert_many((0..30).map(|n| doc! { "_id": n }))?;
    /// let cursor = numbers.find_with(doc! {}, doc! { "batchSize": 10 })?;
    /// assert_eq!(cursor.buffered(), 10);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn buffered(&self) -> usize {
        let Ok(batch) = batch(&self.reply) else { return 0 };
        self.offset.map_or_else(|| batch.count(), |at| batch.elements_from(at).count())
    }

    /// The offset of the next document, which becomes the previous one.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let batch = batch(&self.reply).ok()?;
        let mut elements = match self.offset {
            Some(at) => batch.elements_from(at),
            None => batch.elements(),
        };
        let at = elements.offset();
        elements.next()?;
        self.offset = Some(elements.offset());
        Some(at)
    }

    /// The document at an offset of [`Cursor::step`].
    pub(crate) fn at(&self, offset: usize) -> Result<Doc<'_>> {
        let element = batch(&self.reply)?.elements_from(offset).next();
        Ok(element.and_then(|element| element.value().as_doc()).unwrap_or(Doc::EMPTY))
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.id == 0
    }

    /// The field of the cursor in the last reply.
    pub(crate) fn field(&self, name: &str) -> Value<'_> {
        part(&self.reply).map_or(Value::Missing, |part| part.get(name))
    }

    /// Fetches the next batch, for which a tailable cursor waits `wait_ms`. Returns true if it may have documents.
    pub(crate) fn fetch(&mut self, wait_ms: Option<i64>) -> Result<bool> {
        let (id, collection, batch_size) = (self.id, self.collection.as_str(), self.batch_size);
        let fetched = self.scope.read(&self.db, |out| {
            out.put("getMore", id);
            out.put("collection", collection);
            out.put("batchSize", batch_size);
            if let Some(ms) = wait_ms {
                out.put("maxTimeMS", ms);
            }
        });
        match fetched {
            Ok(reply) => {
                self.reply = reply;
                self.offset = None;
                self.id = integer(self.field("id")).unwrap_or(0);
                Ok(true)
            }
            Err(error) => {
                // An error closes the cursor.
                self.id = 0;
                self.offset = None;
                self.reply = DocBuf::new();
                Err(error)
            }
        }
    }
}

impl Iterator for Cursor {
    type Item = Result<DocBuf>;

    fn next(&mut self) -> Option<Result<DocBuf>> {
        self.advance().map(|doc| doc.map(|doc| doc.to_buf())).transpose()
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if self.id != 0 {
            let (id, collection) = (self.id, self.collection.as_str());
            // A closed database has closed its cursors.
            let _ = self.scope.read(&self.db, |out| {
                out.put("killCursors", collection);
                out.array("cursors", |out| out.push(id));
            });
        }
    }
}

/// The `cursor` field of a reply.
fn part(reply: &DocBuf) -> Result<Doc<'_>> {
    reply.get("cursor").as_doc().ok_or_else(|| {
        Error::new(ErrorKind::Command, Code::INTERNAL_ERROR, "the reply has no cursor")
    })
}

/// The batch of a reply; empty if it has none.
fn batch(reply: &DocBuf) -> Result<Array<'_>> {
    let Value::Doc(part) = reply.get("cursor") else { return Ok(Array::EMPTY) };
    let first = part.get("firstBatch").as_array();
    Ok(first.or_else(|| part.get("nextBatch").as_array()).unwrap_or(Array::EMPTY))
}
