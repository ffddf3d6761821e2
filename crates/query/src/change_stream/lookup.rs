//! Documents that events get in addition: the document after an update, and the one before a change.

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_store::{LogDocument, Namespace, RecordBuf, patch};

use super::{
    operation::Operation,
    options::{BeforeChange, FullDocument, StreamOptions},
};
use crate::source::Cx;

/// Writes the event with the documents that the stream wants. Returns false and writes nothing if it wants none.
///
/// # Errors
/// 47 if a document is required and there is none.
pub(super) fn extend(
    event: Doc<'_>,
    (document, at): (&Arc<LogDocument>, usize),
    operation: &Operation<'_>,
    options: &StreamOptions,
    cx: &Cx<'_>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let (after, before) =
        (options.wants_after(operation.kind), options.wants_before(operation.kind));
    if !after && !before {
        return Ok(false);
    }
    let image = cx.store.kept_pre_image(document, at);
    if before && image.is_none() && options.before_change == BeforeChange::Required {
        return missing("pre-image", "update, delete and replace", event);
    }
    let newer = match options.full_document {
        _ if !after => None,
        FullDocument::UpdateLookup => newest(operation, options, cx)?,
        _ => post_image(image, operation)?,
    };
    if after && newer.is_none() && options.full_document == FullDocument::Required {
        return missing("post-image", "update", event);
    }
    let mut out = DocWriter::new(out);
    for element in event {
        if after && element.name() == "ns" {
            put_or_null("fullDocument", newer.as_ref().map(DocBuf::as_doc), &mut out);
        }
        out.put_element(element);
    }
    if before {
        put_or_null("fullDocumentBeforeChange", image, &mut out);
    }
    out.finish();
    Ok(true)
}

fn put_or_null(name: &str, doc: Option<Doc<'_>>, out: &mut DocWriter<'_>) {
    out.put(name, doc.map_or(Value::Null, Value::Doc));
}

fn missing(what: &str, events: &str, event: Doc<'_>) -> Result<bool> {
    // Without the documents, which may be large.
    let named = DocBuf::build(|out| {
        for name in ["_id", "operationType", "ns", "documentKey"] {
            out.put(name, event.get(name));
        }
    });
    bail!(
        Code::NO_MATCHING_DOCUMENT,
        "Change stream was configured to require a {what} for all {events} events, but the {what} was \
         not found for event: {}",
        named.as_doc()
    )
}

/// The document as it is now; none if it was deleted.
fn newest(
    operation: &Operation<'_>,
    options: &StreamOptions,
    cx: &Cx<'_>,
) -> Result<Option<DocBuf>> {
    let namespace = Namespace::new(operation.database, operation.collection)?;
    let Some(collection) = cx.store.collection(&namespace).filter(|one| !one.is_view()) else {
        return Ok(None);
    };
    if options.match_uuid && operation.uuid != Some(collection.uuid.0) {
        return Ok(None);
    }
    let mut buf = RecordBuf::default();
    let found = cx.reader.record_by_id(&collection, operation.o2.get("_id"), &mut buf)?;
    Ok(found.map(|(_, doc)| doc.to_buf()))
}

/// The document as the update left it.
fn post_image(before: Option<Doc<'_>>, operation: &Operation<'_>) -> Result<Option<DocBuf>> {
    let (Some(before), Some(diff)) = (before, operation.o.get("diff").as_doc()) else {
        return Ok(None);
    };
    let mut patched = Ok(());
    let after = DocBuf::build(|out| patched = patch(before, diff, out));
    patched.map(|()| Some(after))
}
