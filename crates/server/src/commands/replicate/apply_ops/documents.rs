//! Entries that change a document: `i`, `u`, `d`. They are idempotent: an insert replaces a document with the same
//! `_id`, and a delete of a missing document has no effect.

use nagi_error::Error;
use nagi_store::{Collection, EditKind, Namespace, RecordBuf, WriteOptions, WriteTxn};

use super::entry::{Entry, Kind};
use super::views;
use crate::core::command::prelude::*;
use crate::upkeep::views_collection;

/// The new content of a document.
enum New<'a> {
    Whole(Doc<'a>),
    Diff(Doc<'a>),
}

impl<'a> New<'a> {
    fn parse(object: Doc<'a>) -> Result<New<'a>> {
        if object.element("_id").is_some() {
            return Ok(New::Whole(object));
        }
        let version = object.get("$v");
        if crate::number::truncate(version) != Some(2) {
            bail!(
                Code::Location(4_772_600),
                "Expected _id field or $v:2, but got: {}",
                match version {
                    Value::Missing => "EOO".to_owned(),
                    version => format!("$v: {version}"),
                }
            );
        }
        match object.get("diff") {
            Value::Doc(diff) => Ok(New::Diff(diff)),
            other => bail!(
                Code::Location(4_772_601),
                "Expected 'diff' field to be an object, instead got type: {}",
                other.kind().name()
            ),
        }
    }

    /// The document that `old` becomes.
    fn of(&self, old: Doc<'_>) -> Result<DocBuf> {
        match self {
            New::Whole(doc) => Ok(doc.to_buf()),
            New::Diff(diff) => {
                let mut result = Ok(());
                let new = DocBuf::build(|w| result = nagi_store::patch(old, *diff, w));
                result.map(|()| new)
            }
        }
    }
}

/// Applies an entry. Returns the error of an entry that fails alone: the following ones are applied.
pub(super) fn apply(cx: &Context<'_>, entry: &Entry<'_>, bypass: bool) -> Result<Option<Error>> {
    let ns = Namespace::parse(entry.ns)
        .map_err(|_| err!(Code::INVALID_NAMESPACE, "invalid ns: {}", entry.ns))?;
    if let Some(uuid) = entry.uuid {
        let catalog = cx.store().catalog();
        if catalog.by_uuid(uuid).is_none_or(|found| found.namespace != ns) {
            return Ok(Some(err!(
                Code::Location(3_318_200),
                "Namespace '{ns}' and UUID '{uuid}' point to different collections"
            )));
        }
    }
    if ns.collection() == views_collection::NAME && entry.kind == Kind::Insert {
        // A dump has the views of a database, and not this collection.
        cx.store().collection_or_create(&ns)?;
    }
    let Some(collection) = cx.store().collection(&ns) else {
        match entry.kind {
            Kind::Delete => return Ok(None),
            _ => bail!(
                Code::NAMESPACE_NOT_FOUND,
                "cannot apply insert or update operation on a non-existent namespace {ns}: {}",
                entry.told()
            ),
        }
    };
    if collection.is_view() {
        bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "applyOps not supported on view: {ns}");
    }
    let id = document_id(entry)?;
    let _writing = cx.begin_write(ns.database())?;
    if ns.collection() == views_collection::NAME {
        return views::apply(cx, entry, &collection, id, |old| match entry.kind {
            Kind::Insert => Ok(entry.object.to_buf()),
            _ => New::parse(entry.object)?.of(old),
        });
    }
    let check = || cx.check();
    let options = WriteOptions {
        interrupt: Some(&check),
        bypass_validation: bypass,
        keep_empty_timestamps: true,
        ..WriteOptions::default()
    };
    let write = Write { collection: &collection, entry, id };
    let new = match entry.kind {
        Kind::Update => New::parse(entry.object)?,
        _ => New::Whole(entry.object),
    };
    let done = cx.write(options, &mut |txn| match entry.kind {
        Kind::Delete => write.delete(txn),
        _ => write.put(txn, &new),
    });
    match done {
        // MongoDB reports it for this entry only.
        Err(error) if error.code() == Code::DOCUMENT_VALIDATION_FAILURE => Ok(Some(error)),
        done => done,
    }
}

/// The `_id` of the document that the entry changes (4 if there is none).
fn document_id<'a>(entry: &Entry<'a>) -> Result<Value<'a>> {
    let (holder, what) = match entry.kind {
        Kind::Update => (entry.target, "update"),
        Kind::Delete => (entry.object, "delete"),
        _ => (entry.object, "insert"),
    };
    match holder.get("_id") {
        Value::Missing => {
            bail!(Code::NO_SUCH_KEY, "Failed to apply {what} due to missing _id: {}", entry.told())
        }
        id => Ok(id),
    }
}

/// The change of one document.
struct Write<'w> {
    collection: &'w Collection,
    entry: &'w Entry<'w>,
    id: Value<'w>,
}

impl Write<'_> {
    fn put(&self, txn: &mut WriteTxn<'_>, new: &New<'_>) -> Result<Option<Error>> {
        let found = txn.reader().find_id(self.collection, self.id)?;
        let old = match &found {
            Some(id) => {
                txn.lock(self.collection, id.key())?;
                let mut buf = RecordBuf::default();
                txn.reader().record(self.collection, id.key(), &mut buf)?.map(|doc| doc.to_buf())
            }
            None => None,
        };
        match (found, old, new) {
            (Some(id), Some(old), New::Whole(new)) => {
                txn.update_by(
                    EditKind::Replacement,
                    self.collection,
                    id.key(),
                    old.as_doc(),
                    *new,
                )?;
            }
            (Some(id), Some(old), New::Diff(_)) => {
                let new = new.of(old.as_doc())?;
                txn.update(self.collection, id.key(), old.as_doc(), new.as_doc())?;
            }
            _ if self.entry.kind == Kind::Insert || self.entry.upsert => {
                let empty = DocBuf::build(|w| w.put("_id", self.id));
                txn.insert(self.collection, new.of(empty.as_doc())?.as_doc())?;
            }
            // The document was changed and then deleted while it was copied: the log deletes it as well.
            _ if self.entry.is_logged => {}
            _ => {
                return Ok(Some(err!(
                    Code::UPDATE_OPERATION_FAILED,
                    "Failed to apply update: {}",
                    self.entry.told()
                )));
            }
        }
        Ok(None)
    }

    fn delete(&self, txn: &mut WriteTxn<'_>) -> Result<Option<Error>> {
        let Some(id) = txn.reader().find_id(self.collection, self.id)? else { return Ok(None) };
        txn.lock(self.collection, id.key())?;
        let mut buf = RecordBuf::default();
        let old = txn.reader().record(self.collection, id.key(), &mut buf)?;
        if let Some(old) = old.map(|doc| doc.to_buf()) {
            txn.delete(self.collection, id.key(), old.as_doc())?;
        }
        Ok(None)
    }
}
