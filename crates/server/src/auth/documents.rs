//! Reads and writes the documents of users and roles in `admin.system.users` and `admin.system.roles`.
//!
//! They are ordinary documents of ordinary collections, in MongoDB's format, so tools can copy them. Each
//! change is durable before its command replies.

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Error, Result};
use nagi_store::{Durability, Namespace, Store, WriteOptions, WriteTxn};

/// The two collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Users,
    Roles,
}

/// The version of the documents' format, stored in `admin.system.version` and shown by a parameter.
pub(crate) const SCHEMA_VERSION: i32 = 5;

impl Kind {
    pub(crate) fn namespace(self) -> Namespace {
        admin(match self {
            Kind::Users => "system.users",
            Kind::Roles => "system.roles",
        })
    }
}

fn admin(collection: &str) -> Namespace {
    Namespace::new("admin", collection).expect("a fixed name that is allowed")
}

/// The document with that `_id`. Costs two lookups: the index and the record.
pub(crate) fn read(store: &Store, kind: Kind, id: &str) -> Result<Option<DocBuf>> {
    let Some(collection) = store.collection(&kind.namespace()) else { return Ok(None) };
    let mut buffer = Vec::new();
    let found = store.find_by_id(&collection, Value::String(id), &mut buffer)?;
    Ok(found.map(|doc| doc.to_buf()))
}

/// Calls `visit` with each document until it returns false.
pub(crate) fn each(
    store: &Store,
    kind: Kind,
    visit: &mut dyn FnMut(Doc<'_>) -> Result<bool>,
) -> Result<()> {
    let Some(collection) = store.collection(&kind.namespace()) else { return Ok(()) };
    let snapshot = store.snapshot()?;
    let mut cursor = snapshot.reader().scan(&collection, true)?;
    while cursor.advance()? && visit(cursor.doc())? {}
    Ok(())
}

const OPTIONS: WriteOptions<'static> = WriteOptions {
    durability: Durability::Synced,
    interrupt: None,
    bypass_validation: true,
    keep_empty_timestamps: true,
};

/// Adds a document. `exists` makes the error for a document whose `_id` exists already, `not_first` the one for a
/// document that has to be the first user or role.
pub(crate) fn insert(
    store: &Store,
    kind: Kind,
    doc: Doc<'_>,
    exists: &dyn Fn() -> Error,
    not_first: Option<&dyn Fn() -> Error>,
) -> Result<()> {
    let (users, version) = (kind.namespace(), admin("system.version"));
    loop {
        store.collection_or_create(&users)?;
        store.collection_or_create(&version)?;
        let written = store.write(OPTIONS, &mut |txn| {
            let (Some(users), Some(version)) = (txn.collection(&users), txn.collection(&version))
            else {
                return Ok(false);
            };
            // Another node may have added the first one since that was looked at. If it does so at this moment, it is a
            // conflict: both write the version of the settings (`nagi_store`, `members/settings.rs`).
            if let Some(refuse) = not_first
                && has_any(txn)?
            {
                return Err(refuse());
            }
            if txn.reader().find_id(&users, doc.get("_id"))?.is_some() {
                return Err(exists());
            }
            if txn.reader().find_id(&version, Value::String("authSchema"))?.is_none() {
                let schema =
                    nagi_bson::doc! { "_id": "authSchema", "currentVersion": SCHEMA_VERSION };
                txn.insert(&version, schema.as_doc())?;
            }
            txn.insert(&users, doc)?;
            Ok(true)
        });
        match written {
            // Another client created it at the same moment.
            Err(error) if error.code() == nagi_error::Code::DUPLICATE_KEY => return Err(exists()),
            Err(error) => return Err(error),
            Ok(written) if written.value => return Ok(()),
            // A collection was dropped in the meantime, so it is created again.
            Ok(_) => {}
        }
    }
}

/// Returns true if there is any user or role.
fn has_any(txn: &WriteTxn<'_>) -> Result<bool> {
    for kind in [Kind::Users, Kind::Roles] {
        if let Some(collection) = txn.collection(&kind.namespace())
            && txn.reader().scan(&collection, true)?.advance()?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Replaces the document with that `_id` by the result of `change`. Returns false if there is none.
pub(crate) fn replace(
    store: &Store,
    kind: Kind,
    id: &str,
    change: &mut dyn FnMut(Doc<'_>) -> Result<DocBuf>,
) -> Result<bool> {
    let written = store.write(OPTIONS, &mut |txn| {
        let Some((record, old)) = locked(txn, kind, id)? else { return Ok(false) };
        let new = change(old.as_doc())?;
        let Some(collection) = txn.collection(&kind.namespace()) else { return Ok(false) };
        txn.update(&collection, record.key(), old.as_doc(), new.as_doc())?;
        Ok(true)
    })?;
    Ok(written.value)
}

/// Adds a document, or replaces the one with its `_id`.
pub(crate) fn put(store: &Store, kind: Kind, id: &str, doc: Doc<'_>) -> Result<()> {
    let taken = || Error::new(nagi_error::Code::DUPLICATE_KEY, "somebody else adds it");
    loop {
        if replace(store, kind, id, &mut |_| Ok(doc.to_buf()))? {
            return Ok(());
        }
        match insert(store, kind, doc, &taken, None) {
            Err(error) if error.code() == nagi_error::Code::DUPLICATE_KEY => {}
            done => return done,
        }
    }
}

/// Removes the document with that `_id`. Returns false if there is none.
pub(crate) fn remove(store: &Store, kind: Kind, id: &str) -> Result<bool> {
    let written = store.write(OPTIONS, &mut |txn| {
        let Some((record, old)) = locked(txn, kind, id)? else { return Ok(false) };
        let Some(collection) = txn.collection(&kind.namespace()) else { return Ok(false) };
        txn.delete(&collection, record.key(), old.as_doc())?;
        Ok(true)
    })?;
    Ok(written.value)
}

type Found = (nagi_store::RecordId, DocBuf);

/// Locks and reads a document: no other transaction can change it until this one ends.
fn locked(txn: &mut WriteTxn<'_>, kind: Kind, id: &str) -> Result<Option<Found>> {
    let Some(collection) = txn.collection(&kind.namespace()) else { return Ok(None) };
    let Some(record) = txn.reader().find_id(&collection, Value::String(id))? else {
        return Ok(None);
    };
    txn.lock(&collection, record.key())?;
    let mut buffer = nagi_store::RecordBuf::default();
    let doc = txn.reader().record(&collection, record.key(), &mut buffer)?.map(|doc| doc.to_buf());
    Ok(doc.map(|doc| (record, doc)))
}

/// The `_id`s of the documents whose field `db` is this database.
pub(crate) fn ids_in_database(store: &Store, kind: Kind, db: &str) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    each(store, kind, &mut |doc| {
        if let (Some(owner), Some(id)) = (doc.get("db").as_str(), doc.get("_id").as_str())
            && owner == db
        {
            ids.push(id.to_owned());
        }
        Ok(true)
    })?;
    Ok(ids)
}
