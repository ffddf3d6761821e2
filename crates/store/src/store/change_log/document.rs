//! Entries for changes of documents: `i`, `u`, `d`.

use nagi_bson::{Doc, DocWriter};

use super::{delta, uuid};
use crate::{Collection, EditKind};

/// Writes the fields of an entry. A replacement is logged whole, any other update as its difference. Returns false if
/// nothing was changed.
pub(super) fn write(
    collection: &Collection,
    (before, after): (Option<Doc<'_>>, Option<Doc<'_>>),
    edit: EditKind,
    out: &mut DocWriter<'_>,
) -> bool {
    let op = match (before, after) {
        (None, Some(_)) => "i",
        (Some(_), Some(_)) => "u",
        (Some(_), None) => "d",
        (None, None) => return false,
    };
    out.put("op", op);
    out.put("ns", collection.namespace.as_str());
    out.put("ui", uuid(&collection.uuid));
    match (before, after) {
        (Some(before), Some(after)) if edit != EditKind::Replacement => {
            delta::write(before, after, edit, out);
        }
        (_, Some(after)) => out.put("o", after),
        (Some(before), None) => out.doc("o", |out| id_of(before, out)),
        (None, None) => {}
    }
    if let Some(after) = after {
        out.doc("o2", |out| id_of(after, out));
    }
    true
}

fn id_of(doc: Doc<'_>, out: &mut DocWriter<'_>) {
    if let Some(id) = doc.element("_id") {
        out.put_element(id);
    }
}
