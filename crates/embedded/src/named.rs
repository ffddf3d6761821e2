//! One database by name.

use nagi_bson::{Doc, DocBuf, Value};

use crate::cursor::Cursor;
use crate::scope::Scope;
use crate::stream::ChangeStream;
use crate::{Collection, Database, Document, Result};

/// A database by name, within a [`crate::Database`]: a group of collections.
///
/// ```
/// # let db = nagi::Database::in_memory()?;
/// let shop = db.database("shop");
/// shop.collection("orders").insert_one(nagi::doc! { "item": "tea" })?;
/// assert_eq!(shop.collection_names()?, ["orders"]);
/// shop.drop()?;
/// assert!(shop.collection_names()?.is_empty());
/// # Ok::<(), nagi::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NamedDatabase {
    scope: Scope,
    name: String,
}

impl Database {
    /// The database of a name within this one. Nothing is created until the first write.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// assert_eq!(db.database("shop").name(), "shop");
    /// # Ok::<(), nagi::Error>(())
    /// ```
    pub fn database(&self, name: &str) -> NamedDatabase {
        NamedDatabase::new(Scope::plain(self), name)
    }

    /// The changes of all collections from now on: see [`crate::Collection::watch`].
    ///
    /// # Errors
    /// 40573 without [`Options::replica_set`].
    pub fn watch(&self) -> Result<ChangeStream> {
        let options = nagi_bson::doc! { "allChangesForCluster": true };
        ChangeStream::open(Scope::plain(self), "admin", None, Vec::new(), options)
    }
}

impl NamedDatabase {
    pub(crate) fn new(scope: Scope, name: &str) -> NamedDatabase {
        NamedDatabase { scope, name: name.to_owned() }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A collection, which the first write creates.
    pub fn collection(&self, name: &str) -> Collection {
        Collection::new(self.scope.clone(), &self.name, name)
    }

    /// Runs a command, within the session or the transaction that the handle belongs to.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// let reply = db.database("admin").run_command(nagi::doc! { "buildInfo": 1 })?;
    /// assert!(reply.get("version").as_str().is_some());
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`crate::Database::run_command`].
    pub fn run_command(&self, command: impl Document) -> Result<DocBuf> {
        let command = command.document()?;
        self.scope.read(&self.name, |out| out.extend(command.as_doc()))
    }

    /// Runs a command whose reply is a cursor, and returns it.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// # db.database("shop").collection("orders").insert_one(nagi::doc! {})?;
    /// let cursor = db.database("shop").run_cursor_command(nagi::doc! { "listCollections": 1 })?;
    /// assert_eq!(cursor.count(), 1);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the command, or if its reply has no cursor.
    pub fn run_cursor_command(&self, command: impl Document) -> Result<Cursor> {
        let parsed = command.document()?;
        let reply = self.scope.read(&self.name, |out| out.extend(parsed.as_doc()))?;
        Cursor::new(self.scope.clone(), &self.name, parsed.as_doc(), reply)
    }

    /// Creates a collection or a view with options, the further fields of the command `create`.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// let logs = nagi::doc! { "capped": true, "size": 1_000_000 };
    /// db.database("shop").create_collection("logs", logs)?;
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// 48 if it exists with other options, and those of the options.
    pub fn create_collection(&self, name: &str, options: impl Document) -> Result<()> {
        let options = options.document()?;
        self.scope.write(&self.name, options.as_doc(), None, |out| out.put("create", name))?;
        Ok(())
    }

    /// The names of the collections and views.
    ///
    /// # Errors
    /// If the name of the database is not valid.
    pub fn collection_names(&self) -> Result<Vec<String>> {
        let command = nagi_bson::doc! { "listCollections": 1, "nameOnly": true };
        let mut names = Vec::new();
        for entry in self.run_cursor_command(command)? {
            names.extend(entry?.get("name").as_str().map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// Drops the database with its collections.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn drop(&self) -> Result<()> {
        self.scope.write(&self.name, Doc::EMPTY, None, |out| out.put("dropDatabase", 1))?;
        Ok(())
    }

    /// Runs a pipeline that begins without a collection, as `$documents` does.
    ///
    /// ```
    /// # let db = nagi::Database::in_memory()?;
    /// use nagi::doc;
    /// let rows = db.database("shop").aggregate([doc! { "$documents": [{ "a": 1 }, { "a": 2 }] }])?;
    /// assert_eq!(rows.count(), 2);
    /// # Ok::<(), nagi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the pipeline.
    pub fn aggregate<D: Document>(&self, pipeline: impl IntoIterator<Item = D>) -> Result<Cursor> {
        let target = Value::Int32(1);
        crate::pipeline::aggregate(&self.scope, &self.name, target, pipeline, Doc::EMPTY)
    }

    /// The changes of all its collections from now on: see [`Collection::watch`].
    ///
    /// # Errors
    /// 40573 without [`crate::Options::replica_set`].
    pub fn watch(&self) -> Result<ChangeStream> {
        ChangeStream::open(self.scope.clone(), &self.name, None, Vec::new(), DocBuf::new())
    }
}
