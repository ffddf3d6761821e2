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

/// Inserts `doc`, whose `_id` is a string, or replaces the existing document. It is durable on return, and all nodes
/// that share the data have read it.
pub(crate) fn replace(store: &Store, namespace: &Namespace, doc: Doc<'_>) -> Result<()> {
    change_in(store, namespace, doc.get("_id"), &mut |_| Ok(doc.to_buf()))
}

/// Replaces the document `id` of `config.<collection>` by what `change` makes of it, or inserts that, as [`replace`]
/// does. Another node may change the document at the same time, so `change` must not rely on what is in memory; it may
/// be called again.
pub(crate) fn change(
    store: &Store,
    collection: &str,
    id: &str,
    change: &mut dyn FnMut(Option<Doc<'_>>) -> Result<DocBuf>,
) -> Result<()> {
    change_in(store, &namespace(collection), Value::String(id), change)
}

fn change_in(
    store: &Store,
    namespace: &Namespace,
    id: Value<'_>,
    change: &mut dyn FnMut(Option<Doc<'_>>) -> Result<DocBuf>,
) -> Result<()> {
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
            let Some(record) = txn.reader().find_id(&collection, id)? else {
                txn.insert(&collection, change(None)?.as_doc())?;
                return Ok(true);
            };
            txn.lock(&collection, record.key())?;
            let mut buffer = RecordBuf::default();
            let old = txn.reader().record(&collection, record.key(), &mut buffer)?;
            let Some(old) = old.map(|old| old.to_buf()) else { return Ok(false) };
            let new = change(Some(old.as_doc()))?;
            txn.update(&collection, record.key(), old.as_doc(), new.as_doc())?;
            Ok(true)
        });
        // The collection or the document was dropped concurrently: try again.
        if written?.value {
            return Ok(());
        }
    }
}
