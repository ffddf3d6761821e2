//! A collection: documents, queries, indexes.

use nagi_bson::{Doc, DocBuf, DocWriter, Value, ValueBuf, doc, number};

use crate::cursor::Cursor;
use crate::document::Parsed;
use crate::pipeline::aggregate;
use crate::scope::Scope;
use crate::stream::ChangeStream;
use crate::{Document, Result};

/// Documents and bytes of one `insert` command of [`Collection::insert_many`].
const BATCH_DOCUMENTS_MAX: usize = 100_000;
const BATCH_BYTES_MAX: usize = 16 << 20;

/// A collection of documents.
///
/// Methods that end in `_with` take options: a document with further fields of the command, as in MongoDB's reference
/// (`sort`, `limit`, `projection`, `hint`, `collation`, ...). An unknown field is an error (40415).
///
/// ```
/// # let db = nagi::Database::in_memory()?;
/// use nagi::doc;
/// let people = db.database("app").collection("people");
/// people.create_index_with(doc! { "email": 1 }, doc! { "unique": true })?;
/// people.insert_many([
///     doc! { "_id": 1, "name": "Ada", "email": "ada@example.org", "age": 36 },
///     doc! { "_id": 2, "name": "Alan", "email": "alan@example.org", "age": 41 },
/// ])?;
/// people.update_one(doc! { "_id": 1 }, doc! { "$inc": { "age": 1 } })?;
/// let eldest = people.find_with(doc! {}, doc! { "sort": { "age": -1 }, "limit": 1 })?;
/// assert_eq!(eldest.count(), 1);
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Collection {
    scope: Scope,
    db: String,
    name: String,
}

/// The outcome of an update.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Updated {
    /// Documents that the filter matched.
    pub matched: u64,
    /// Documents that changed.
    pub modified: u64,
    /// The `_id` of the document that an upsert inserted.
    pub upserted: Option<ValueBuf>,
}

/// How many documents an update or a deletion concerns.
#[derive(Clone, Copy)]
enum Count {
    One,
    All,
}

impl Collection {
    pub(crate) fn new(scope: Scope, db: &str, name: &str) -> Collection {
        Collection { scope, db: db.to_owned(), name: name.to_owned() }
    }

    /// The name, without that of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same collection, with writes that return only when they are on disk (`{w: 1, j: true}`): see
    /// [`crate::Options::journaled`].
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// let orders = db.database("shop").collection("orders").journaled();
    /// orders.insert_one(nagi::doc! { "_id": 1 })?;
    /// # Ok::<(), nagi::Error>(())
    /// ```
    #[must_use]
    pub fn journaled(&self) -> Collection {
        let scope = Scope { journaled: true, ..self.scope.clone() };
        Collection { scope, ..self.clone() }
    }

    /// Inserts a document and returns its `_id`, which is a new ObjectId if the document has none.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// # let orders = db.database("shop").collection("orders");
    /// let id = orders.insert_one(nagi::doc! { "item": "tea" })?;
    /// let again = orders.insert_one(nagi::doc! { "_id": (id.value()) }).unwrap_err();
    /// assert_eq!((again.code(), again.kind()), (11000, nagi::ErrorKind::Write));
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// 11000 for a duplicate key, 121 if the validator refuses it, 10334 if it is larger than 16 MB.
    pub fn insert_one(&self, document: impl Document) -> Result<ValueBuf> {
        let parsed = document.document()?;
        let mut bytes = Vec::new();
        self.push_with_id(&mut bytes, parsed.as_doc());
        let id = ValueBuf::new(Doc::trusted(&bytes).get("_id"));
        self.insert(Doc::EMPTY, &bytes)?;
        Ok(id)
    }

    /// Inserts documents in order and returns their number.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// # let numbers = db.database("test").collection("numbers");
    /// assert_eq!(numbers.insert_many((0..3).map(|n| nagi::doc! { "n": n }))?, 3);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of the first document that fails, whose predecessors are inserted.
    pub fn insert_many<D: Document>(&self, documents: impl IntoIterator<Item = D>) -> Result<u64> {
        self.insert_many_with(documents, DocBuf::new())
    }

    /// As [`Collection::insert_many`]; with `ordered: false` the documents after a failed one are inserted too.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::doc;
    /// # let numbers = db.database("test").collection("numbers");
    /// let twice = [doc! { "_id": 1 }, doc! { "_id": 1 }, doc! { "_id": 2 }];
    /// let error = numbers.insert_many_with(twice, doc! { "ordered": false }).unwrap_err();
    /// assert_eq!(error.code(), 11000);
    /// assert_eq!(numbers.count(doc! {})?, 2);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Collection::insert_many`]. [`crate::Error::reply`] has the failed documents of the last command: many
    /// documents are inserted by several commands.
    pub fn insert_many_with<D: Document>(
        &self,
        documents: impl IntoIterator<Item = D>,
        options: impl Document,
    ) -> Result<u64> {
        let options = options.document()?;
        let ordered = !matches!(options.as_doc().get("ordered"), Value::Bool(false));
        let (mut bytes, mut count, mut inserted) = (Vec::new(), 0, 0);
        let mut failed = None;
        let mut flush = |bytes: &mut Vec<u8>, count: &mut usize| {
            let outcome = match *count {
                0 => Ok(0),
                _ => self.insert(options.as_doc(), bytes),
            };
            bytes.clear();
            *count = 0;
            match outcome {
                Ok(n) => inserted += n,
                Err(error) if ordered || error.kind() != crate::ErrorKind::Write => {
                    return Err(error);
                }
                Err(error) => failed = Some(error),
            }
            Ok(())
        };
        for document in documents {
            let parsed = document.document()?;
            let size = parsed.as_doc().len();
            if count == BATCH_DOCUMENTS_MAX || (count > 0 && bytes.len() + size > BATCH_BYTES_MAX) {
                flush(&mut bytes, &mut count)?;
            }
            self.push_with_id(&mut bytes, parsed.as_doc());
            count += 1;
        }
        flush(&mut bytes, &mut count)?;
        match failed {
            Some(error) => Err(error),
            None => Ok(inserted),
        }
    }

    fn insert(&self, options: Doc<'_>, documents: &[u8]) -> Result<u64> {
        let documents = Some(("documents", documents));
        let reply = self.scope.write(&self.db, options, documents, |out| {
            out.put("insert", self.name.as_str());
        })?;
        Ok(unsigned(reply.get("n")))
    }

    /// Appends a document, with a new `_id` in front if it has none.
    fn push_with_id(&self, out: &mut Vec<u8>, document: Doc<'_>) {
        if document.element("_id").is_some() {
            return out.extend_from_slice(document.as_bytes());
        }
        let mut writer = DocWriter::new(out);
        writer.put("_id", &self.scope.db.next_oid());
        writer.extend(document);
        writer.finish();
    }

    /// The documents that match a filter, which `doc! {}` does for all.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn find(&self, filter: impl Document) -> Result<Cursor> {
        self.find_with(filter, DocBuf::new())
    }

    /// As [`Collection::find`], with further fields of `find`.
    ///
    /// # Errors
    /// Those of the filter and the options.
    pub fn find_with(&self, filter: impl Document, options: impl Document) -> Result<Cursor> {
        let (filter, options) = (filter.document()?, options.document()?);
        let reply = self.scope.read(&self.db, |out| {
            out.put("find", self.name.as_str());
            out.put("filter", filter.as_doc());
            out.extend(options.as_doc());
        })?;
        Cursor::new(self.scope.clone(), &self.db, options.as_doc(), reply)
    }

    /// The first document that matches a filter.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// # let orders = db.database("shop").collection("orders");
    /// assert!(orders.find_one(nagi::doc! { "_id": 7 })?.is_none());
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the filter.
    pub fn find_one(&self, filter: impl Document) -> Result<Option<DocBuf>> {
        self.find_with(filter, doc! { "limit": 1, "singleBatch": true })?.next().transpose()
    }

    /// Finds one document and changes or removes it in one step; `fields` are those of `findAndModify` (`update` or
    /// `remove`, `new`, `sort`, `upsert`). Returns the document as it was, or with `new: true` as it is now.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::{Value, doc};
    /// let counters = db.database("app").collection("counters");
    /// let step = doc! { "update": { "$inc": { "n": 1 } }, "upsert": true, "new": true };
    /// let first = counters.find_and_modify(doc! { "_id": "orders" }, &step)?.expect("upserted");
    /// assert_eq!(first.get("n"), Value::Int32(1));
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the filter and the fields.
    pub fn find_and_modify(
        &self,
        filter: impl Document,
        fields: impl Document,
    ) -> Result<Option<DocBuf>> {
        let (filter, fields) = (filter.document()?, fields.document()?);
        let reply = self.scope.write(&self.db, fields.as_doc(), None, |out| {
            out.put("findAndModify", self.name.as_str());
            out.put("query", filter.as_doc());
        })?;
        Ok(reply.get("value").as_doc().map(|found| found.to_buf()))
    }

    /// The results of a pipeline.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::doc;
    /// # let orders = db.database("shop").collection("orders");
    /// # orders.insert_many([doc! { "item": "tea", "n": 2 }, doc! { "item": "tea", "n": 3 }])?;
    /// let totals = orders.aggregate([
    ///     doc! { "$group": { "_id": "$item", "total": { "$sum": "$n" } } },
    ///     doc! { "$sort": { "total": -1 } },
    /// ])?;
    /// for total in totals {
    ///     assert_eq!(total?.get("total"), nagi::Value::Int32(5));
    /// }
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the pipeline.
    pub fn aggregate<D: Document>(&self, pipeline: impl IntoIterator<Item = D>) -> Result<Cursor> {
        self.aggregate_with(pipeline, DocBuf::new())
    }

    /// As [`Collection::aggregate`], with further fields of `aggregate`.
    ///
    /// # Errors
    /// Those of the pipeline and the options.
    pub fn aggregate_with<D: Document>(
        &self,
        pipeline: impl IntoIterator<Item = D>,
        options: impl Document,
    ) -> Result<Cursor> {
        let options = options.document()?;
        let target = Value::String(&self.name);
        aggregate(&self.scope, &self.db, target, pipeline, options.as_doc())
    }

    /// The number of documents that match a filter.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn count(&self, filter: impl Document) -> Result<u64> {
        let filter = filter.document()?;
        let matches = doc! { "$match": (filter.as_doc()) };
        let count = doc! { "$count": "n" };
        let found = self.aggregate([matches, count])?.next().transpose()?;
        Ok(found.map_or(0, |found| unsigned(found.get("n"))))
    }

    /// The number of documents from the collection's statistics, without reading them; not within a transaction.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// assert_eq!(db.database("shop").collection("none").estimated_count()?, 0);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// If it is a view or a transaction runs.
    pub fn estimated_count(&self) -> Result<u64> {
        let reply = self.scope.read(&self.db, |out| out.put("count", self.name.as_str()))?;
        Ok(unsigned(reply.get("n")))
    }

    /// The different values of a field in the documents that match a filter.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::doc;
    /// # let orders = db.database("shop").collection("orders");
    /// # orders.insert_many([doc! { "item": "tea" }, doc! { "item": "tea" }])?;
    /// assert_eq!(orders.distinct("item", doc! {})?.len(), 1);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the filter, and 17217 if the values are larger than 16 MB together.
    pub fn distinct(&self, field: &str, filter: impl Document) -> Result<Vec<ValueBuf>> {
        let filter = filter.document()?;
        let reply = self.scope.read(&self.db, |out| {
            out.put("distinct", self.name.as_str());
            out.put("key", field);
            out.put("query", filter.as_doc());
        })?;
        Ok(match reply.get("values") {
            Value::Array(values) => values.iter().map(ValueBuf::new).collect(),
            _ => Vec::new(),
        })
    }

    /// Updates the first document that matches; `update` has operators (`$set`, `$inc`, ...), or is a whole document
    /// that replaces the found one.
    ///
    /// # Errors
    /// Those of the filter and the update.
    pub fn update_one(&self, filter: impl Document, update: impl Document) -> Result<Updated> {
        self.update(Count::One, &filter, &update, &DocBuf::new())
    }

    /// As [`Collection::update_one`], with further fields of the statement (`upsert`, `arrayFilters`, `hint`, ...).
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::doc;
    /// let stock = db.database("shop").collection("stock");
    /// let added = stock.update_one_with(
    ///     doc! { "_id": "tea" },
    ///     doc! { "$inc": { "n": 5 } },
    ///     doc! { "upsert": true },
    /// )?;
    /// assert_eq!((added.matched, added.upserted.is_some()), (0, true));
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the filter, the update and the options.
    pub fn update_one_with(
        &self,
        filter: impl Document,
        update: impl Document,
        options: impl Document,
    ) -> Result<Updated> {
        self.update(Count::One, &filter, &update, &options)
    }

    /// Updates all documents that match.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::doc;
    /// # let stock = db.database("shop").collection("stock");
    /// # stock.insert_many([doc! { "n": 0 }, doc! { "n": 0 }])?;
    /// assert_eq!(stock.update_many(doc! { "n": 0 }, doc! { "$set": { "out": true } })?.modified, 2);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the filter and the update. Documents before a failed one are updated.
    pub fn update_many(&self, filter: impl Document, update: impl Document) -> Result<Updated> {
        self.update(Count::All, &filter, &update, &DocBuf::new())
    }

    fn update(
        &self,
        count: Count,
        filter: &dyn Document,
        update: &dyn Document,
        options: &dyn Document,
    ) -> Result<Updated> {
        let (filter, update, options) =
            (filter.document()?, update.document()?, options.document()?);
        let reply = self.scope.write(&self.db, Doc::EMPTY, None, |out| {
            out.put("update", self.name.as_str());
            out.array("updates", |out| {
                out.doc(|out| {
                    out.put("q", filter.as_doc());
                    out.put("u", update.as_doc());
                    out.put("multi", matches!(count, Count::All));
                    out.extend(options.as_doc());
                });
            });
        })?;
        let upserted = match reply.get("upserted") {
            Value::Array(all) => all.get(0).as_doc().map(|one| ValueBuf::new(one.get("_id"))),
            _ => None,
        };
        let n = unsigned(reply.get("n"));
        Ok(Updated {
            matched: if upserted.is_some() { 0 } else { n },
            modified: unsigned(reply.get("nModified")),
            upserted,
        })
    }

    /// Deletes the first document that matches; returns how many were deleted.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// assert_eq!(db.database("shop").collection("orders").delete_one(nagi::doc! { "_id": 1 })?, 0);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the filter.
    pub fn delete_one(&self, filter: impl Document) -> Result<u64> {
        self.delete(Count::One, &filter)
    }

    /// Deletes all documents that match; returns how many were deleted.
    ///
    /// # Errors
    /// Those of the filter.
    pub fn delete_many(&self, filter: impl Document) -> Result<u64> {
        self.delete(Count::All, &filter)
    }

    fn delete(&self, count: Count, filter: &dyn Document) -> Result<u64> {
        let filter: Parsed<'_> = filter.document()?;
        let limit = match count {
            Count::One => 1,
            Count::All => 0,
        };
        let reply = self.scope.write(&self.db, Doc::EMPTY, None, |out| {
            out.put("delete", self.name.as_str());
            out.array("deletes", |out| {
                out.doc(|out| {
                    out.put("q", filter.as_doc());
                    out.put("limit", limit);
                });
            });
        })?;
        Ok(unsigned(reply.get("n")))
    }

    /// Creates an index and returns its name, such as `email_1`. Creating the same index again does nothing. Other
    /// operations continue while it is built.
    ///
    /// # Errors
    /// Those of the keys.
    pub fn create_index(&self, keys: impl Document) -> Result<String> {
        self.create_index_with(keys, DocBuf::new())
    }

    /// As [`Collection::create_index`], with further fields of the index (`unique`, `expireAfterSeconds`,
    /// `partialFilterExpression`, `name`, ...).
    ///
    /// # Errors
    /// Those of the keys and the options; 11000 if documents have equal keys of a unique index.
    pub fn create_index_with(&self, keys: impl Document, options: impl Document) -> Result<String> {
        let (keys, options) = (keys.document()?, options.document()?);
        let name = match options.as_doc().get("name").as_str() {
            Some(name) => name.to_owned(),
            None => index_name(keys.as_doc()),
        };
        self.scope.write(&self.db, Doc::EMPTY, None, |out| {
            out.put("createIndexes", self.name.as_str());
            out.array("indexes", |out| {
                out.doc(|out| {
                    out.put("key", keys.as_doc());
                    if options.as_doc().element("name").is_none() {
                        out.put("name", name.as_str());
                    }
                    out.extend(options.as_doc());
                });
            });
        })?;
        Ok(name)
    }

    /// The specifications of its indexes.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::doc;
    /// # let people = db.database("app").collection("people");
    /// let name = people.create_index(doc! { "age": 1 })?;
    /// assert_eq!(people.list_indexes()?.len(), 2);
    /// people.drop_index(&name)?;
    /// assert_eq!(people.list_indexes()?.len(), 1);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// 26 if the collection does not exist.
    pub fn list_indexes(&self) -> Result<Vec<DocBuf>> {
        let reply = self.scope.read(&self.db, |out| out.put("listIndexes", self.name.as_str()))?;
        Cursor::new(self.scope.clone(), &self.db, Doc::EMPTY, reply)?.collect()
    }

    /// Drops an index by its name.
    ///
    /// # Errors
    /// 27 if there is no such index.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.scope.write(&self.db, Doc::EMPTY, None, |out| {
            out.put("dropIndexes", self.name.as_str());
            out.put("index", name);
        })?;
        Ok(())
    }

    /// Drops the collection with its documents and indexes. It is no error if it does not exist.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn drop(&self) -> Result<()> {
        self.scope.write(&self.db, Doc::EMPTY, None, |out| out.put("drop", self.name.as_str()))?;
        Ok(())
    }

    /// The changes of the collection from now on. It needs [`crate::Options::replica_set`].
    ///
    /// ```
    /// # let db = nagi::Database::in_memory_with(nagi::Options::new().replica_set("rs0"))?;
    /// # let orders = db.database("shop").collection("orders");
    /// let mut changes = orders.watch()?;
    /// orders.insert_one(nagi::doc! { "_id": 1 })?;
    /// let event = changes.next_within(std::time::Duration::from_secs(10))?.expect("one change");
    /// assert_eq!(event.get("operationType").as_str(), Some("insert"));
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// 40573 without a replica set.
    pub fn watch(&self) -> Result<ChangeStream> {
        self.watch_with(Vec::<DocBuf>::new(), DocBuf::new())
    }

    /// As [`Collection::watch`], with stages after `$changeStream` and with options of that stage (`fullDocument`,
    /// `resumeAfter`, `startAtOperationTime`, ...).
    ///
    /// # Errors
    /// Those of the stages and the options; 286 if the oplog no longer has the point to resume after.
    pub fn watch_with<D: Document>(
        &self,
        pipeline: impl IntoIterator<Item = D>,
        options: impl Document,
    ) -> Result<ChangeStream> {
        let stages: Result<Vec<DocBuf>> =
            pipeline.into_iter().map(|stage| Ok(stage.document()?.as_doc().to_buf())).collect();
        let options = options.document()?.as_doc().to_buf();
        ChangeStream::open(self.scope.clone(), &self.db, Some(&self.name), stages?, options)
    }
}

/// The default name of an index: `a_1_b_-1`.
fn index_name(keys: Doc<'_>) -> String {
    let part = |element: nagi_bson::Element<'_>| match element.value() {
        Value::String(kind) => format!("{}_{kind}", element.name()),
        value => match number::as_i64_exact(value) {
            Some(direction) => format!("{}_{direction}", element.name()),
            None => element.name().to_owned(),
        },
    };
    keys.iter().map(part).collect::<Vec<_>>().join("_")
}

fn unsigned(value: Value<'_>) -> u64 {
    number::as_i64_exact(value).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}
