//! Entries of `system.profile`: their contents, and how they are stored.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, Value, json};
use nagi_error::Result;
use nagi_store::{DOCUMENT_DEPTH_MAX, Namespace, WriteOptions};

use crate::clock;
use crate::core::server::Server;
use crate::fsync::Writer;
use crate::observe::slow::{self, Finished, Place};

/// A longer entry is stored with its long fields as truncated text. The collection holds 1 MiB.
const ENTRY_BYTES_MAX: usize = 200 << 10;
/// The length of such a truncated field.
const FIELD_BYTES_MAX: usize = 50 << 10;

/// The profile collection of a database.
fn profile_namespace(db: &str) -> Result<Namespace> {
    Namespace::new(db, "system.profile")
}

/// Creates `system.profile`, capped at 1 MiB as in MongoDB.
pub(crate) fn prepare(server: &Arc<Server>, db: &str) -> Result<()> {
    let namespace = profile_namespace(db)?;
    if server.store.collection(&namespace).is_none() {
        let options = nagi_bson::doc! { "capped": true, "size": 1024 * 1024 };
        server.store.create_collection(&namespace, options.as_doc())?;
    }
    Ok(())
}

/// Writes an entry into the `system.profile` of a database. A failure is only logged.
pub(crate) fn write(server: &Arc<Server>, db: &str, entry: &DocBuf) {
    let Ok(namespace) = profile_namespace(db) else { return };
    // A read must not wait for the lock. MongoDB does not profile then, either.
    let Some(_writing) = server.upkeep.fsync.begin_write(Writer::New) else { return };
    // A profile entry must not create a database.
    if server.store.collection(&namespace).is_none() {
        let exists = server.store.catalog().database(db).next().is_some();
        if !exists || prepare(server, db).is_err() {
            return;
        }
    }
    server.metrics.profile_writers.up();
    let written =
        server.store.write(WriteOptions::default(), &mut |txn| match txn.collection(&namespace) {
            Some(collection) => txn.insert(&collection, entry.as_doc()).map(drop),
            None => Ok(()),
        });
    server.metrics.profile_writers.down();
    server.metrics.profile_writes.increment();
    if let Err(error) = written {
        log::warn!(target: "COMMAND", id = 20_703, namespace = namespace.as_str(),
            error = error.message(); "Caught assertion while trying to profile operation");
    }
}

/// Describes the request as an entry of `system.profile`.
pub(crate) fn describe(finished: &Finished<'_>) -> DocBuf {
    let Finished { op, done, .. } = *finished;
    let entry = DocBuf::build(|doc| {
        doc.put("op", finished.op_name());
        slow::describe(finished, Place::Profile, doc);
        if let Some(stages) = &done.stages {
            doc.put("execStats", stages);
        }
        doc.put("ts", Value::DateTime(clock::wall_ms()));
        doc.put("client", op.remote.as_str());
        if let Some(client) = op.client().filter(|c| !c.app_name.is_empty()) {
            doc.put("appName", client.app_name.as_str());
        }
        let user = op.user();
        doc.array("allUsers", |users| {
            if let Some(user) = &user {
                users.doc(|doc| user.write("user", doc));
            }
        });
        doc.put("user", user.map_or_else(String::new, |user| user.to_string()).as_str());
    });
    match entry.as_doc().is_deeper_than(DOCUMENT_DEPTH_MAX)
        || entry.as_doc().len() > ENTRY_BYTES_MAX
    {
        true => truncate(entry.as_doc()),
        false => entry,
    }
}

/// Makes an entry storable: fields that are too deep or too long become truncated text.
fn truncate(entry: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for element in entry {
            match element.value() {
                Value::Doc(inner)
                    if inner.is_deeper_than(DOCUMENT_DEPTH_MAX - 1)
                        || inner.len() > FIELD_BYTES_MAX =>
                {
                    let mut text = json::to_relaxed(inner);
                    text.truncate(text.floor_char_boundary(FIELD_BYTES_MAX));
                    out.doc(element.name(), |doc| doc.put("$truncated", text.as_str()));
                }
                _ => out.put_element(element),
            }
        }
    })
}
