//! Collections that were sharded (`shardCollection`), and by which key.
//!
//!   config.system.sharded   {_id: UUID of the collection, key, unique, timestamp, epoch, date}
//!
//! The key is what the client wants to know again; the store splits every collection by its own keys. The UUID says
//! which collection is meant: the record of one that was dropped is skipped, and removed at the next change.

use nagi_bson::{Binary, Doc, DocBuf, Value, doc};
use nagi_error::Result;
use nagi_store::{Collection, Durability, Namespace, Store, Uuid, WriteOptions};

use crate::clock::{wall_ms, wall_stamp};

const NAME: &str = "system.sharded";

/// A sharded collection.
pub(crate) struct Sharded {
    pub(crate) namespace: Namespace,
    pub(crate) uuid: Uuid,
    record: DocBuf,
}

impl Sharded {
    /// The pattern of the shard key.
    pub(crate) fn key(&self) -> Doc<'_> {
        self.record.get("key").as_doc().unwrap_or(Doc::EMPTY)
    }

    pub(crate) fn is_unique(&self) -> bool {
        self.record.get("unique").is_truthy()
    }

    /// When it was sharded, as a cluster time.
    pub(crate) fn since(&self) -> u64 {
        match self.record.get("timestamp") {
            Value::Timestamp(time) => time,
            _ => 0,
        }
    }

    /// The wall clock of the same moment, in milliseconds.
    pub(crate) fn date(&self) -> Value<'_> {
        self.record.get("date")
    }

    /// An ObjectId of that moment.
    pub(crate) fn epoch(&self) -> Value<'_> {
        self.record.get("epoch")
    }
}

/// All sharded collections, by name.
///
/// # Errors
/// Those of the store.
pub(crate) fn all(store: &Store) -> Result<Vec<Sharded>> {
    let mut found = Vec::new();
    if let Some(records) = store.collection(&namespace()) {
        let catalog = store.catalog();
        let snapshot = store.snapshot()?;
        let mut cursor = snapshot.reader().scan(&records, true)?;
        while cursor.advance()? {
            let record = cursor.doc().to_buf();
            let Some(uuid) = uuid_of(record.as_doc()) else { continue };
            if let Some(collection) = catalog.by_uuid(uuid) {
                let namespace = collection.namespace.clone();
                found.push(Sharded { namespace, uuid, record });
            }
        }
    }
    found.sort_by(|a, b| a.namespace.as_str().cmp(b.namespace.as_str()));
    Ok(found)
}

/// The record of a collection, if it is sharded.
///
/// # Errors
/// Those of the store.
pub(crate) fn find(store: &Store, collection: &Collection) -> Result<Option<Sharded>> {
    let Some(records) = store.collection(&namespace()) else { return Ok(None) };
    let mut buffer = Vec::new();
    let found = store.find_by_id(&records, id(&collection.uuid), &mut buffer)?;
    Ok(found.map(|record| Sharded {
        namespace: collection.namespace.clone(),
        uuid: collection.uuid,
        record: record.to_buf(),
    }))
}

/// Stores that a collection is sharded by `key`; of two that do it at once, the first one counts.
///
/// # Errors
/// Those of the store.
pub(crate) fn put(
    store: &Store,
    collection: &Collection,
    key: Doc<'_>,
    unique: bool,
) -> Result<()> {
    let epoch = store.new_object_id();
    let record = doc! {
        "_id": (id(&collection.uuid)),
        "key": (key),
        "unique": unique,
        "timestamp": (Value::Timestamp(wall_stamp() | 1)),
        "epoch": (Value::ObjectId(&epoch)),
        "date": (Value::DateTime(wall_ms()))
    };
    change(store, &mut |uuid| *uuid != collection.uuid, Some(&record))
}

/// Forgets that a collection is sharded.
///
/// # Errors
/// Those of the store.
pub(crate) fn remove(store: &Store, collection: &Collection) -> Result<()> {
    change(store, &mut |uuid| *uuid != collection.uuid, None)
}

/// Removes the records of which `stays` is not true, and those of collections that are gone, and adds one.
fn change(store: &Store, stays: &mut dyn FnMut(&Uuid) -> bool, new: Option<&DocBuf>) -> Result<()> {
    let records = store.collection_or_create(&namespace())?;
    let options = WriteOptions { durability: Durability::Synced, ..WriteOptions::default() };
    store.write(options, &mut |txn| {
        let catalog = store.catalog();
        let mut cursor = txn.reader().scan(&records, true)?;
        while cursor.advance()? {
            let old = cursor.doc().to_buf();
            let uuid = uuid_of(old.as_doc());
            if !uuid.is_some_and(|uuid| catalog.by_uuid(uuid).is_some() && stays(&uuid)) {
                txn.delete(&records, cursor.id(), old.as_doc())?;
            }
        }
        drop(cursor);
        new.map_or(Ok(()), |new| txn.insert(&records, new.as_doc()).map(drop))
    })?;
    Ok(())
}

fn namespace() -> Namespace {
    Namespace::new("config", NAME).expect("a fixed name that is allowed")
}

fn id(uuid: &Uuid) -> Value<'_> {
    Value::Binary(Binary { subtype: 4, bytes: &uuid.0 })
}

fn uuid_of(record: Doc<'_>) -> Option<Uuid> {
    match record.get("_id") {
        Value::Binary(binary) if binary.subtype == 4 => binary.bytes.try_into().ok().map(Uuid),
        _ => None,
    }
}
