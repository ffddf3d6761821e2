//! Documents that store server-wide settings; they are found by `_id` and replaced as a whole. Those of the database
//! `config` belong to the replica set, those of `local` to this server.

use nagi_bson::{Doc, DocBuf, Value};
use nagi_error::{Code, Result, bail};
use nagi_store::{Durability, Namespace, RecordBuf, Store, WriteOptions};

fn namespace(collection: &str) -> Namespace {
    Namespace::new("config", collection).expect("a fixed name that is allowed")
}

/// Reads the document `id` of `config.<collection>`, if it exists.
pub(crate) fn read(store: &Store, collection: &str, id: &str) -> Result<Option<DocBuf>> {
    find(store, &namespace(collection), id)
}

/// Reads the document `id` of a collection, if it exists.
pub(crate) fn find(store: &Store, namespace: &Namespace, id: &str) -> Result<Option<DocBuf>> {
    let named = store.collection(namespace).filter(|named| !named.is_view());
    let Some(collection) = named else { return Ok(None) };
    let mut buffer = Vec::new();
    let found = store.find_by_id(&collection, Value::String(id), &mut buffer)?;
    Ok(found.map(|doc| doc.to_buf()))
}

/// Inserts `doc` into `config.<collection>` as [`replace`] does.
pub(crate) fn write(store: &Store, collection: &str, doc: Doc<'_>) -> Result<()> {
    replace(store, &namespace(collection), doc)
}

/// Inserts `doc`, whose `_id` is a string, or replaces the existing document. It is durable on return.
pub(crate) fn replace(store: &Store, namespace: &Namespace, doc: Doc<'_>) -> Result<()> {
    const OPTIONS: WriteOptions<'static> = WriteOptions {
        durability: Durability::Synced,
        interrupt: None,
        bypass_validation: true,
        keep_empty_timestamps: true,
    };
    loop {
        if store.collection_or_create(namespace)?.is_view() {
            bail!(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {namespace} is a view, not a collection"
            );
        }
        let written = store.write(OPTIONS, &mut |txn| {
            let Some(collection) = txn.collection(namespace) else { return Ok(false) };
            let Some(record) = txn.reader().find_id(&collection, doc.get("_id"))? else {
                txn.insert(&collection, doc)?;
                return Ok(true);
            };
            txn.lock(&collection, record.key())?;
            let mut buffer = RecordBuf::default();
            let old = txn.reader().record(&collection, record.key(), &mut buffer)?;
            let Some(old) = old.map(|old| old.to_buf()) else { return Ok(false) };
            txn.update(&collection, record.key(), old.as_doc(), doc)?;
            Ok(true)
        });
        // The collection or the document was dropped concurrently: try again.
        if written?.value {
            return Ok(());
        }
    }
}
