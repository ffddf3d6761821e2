//! Entries of `system.views`: a log describes views by the documents of this collection. The catalog has the views, and
//! the documents follow them, so a changed document is applied as a change of its view.

use nagi_error::Error;
use nagi_store::{Collection, Namespace, RecordBuf};

use super::entry::{Entry, Kind};
use crate::core::command::prelude::*;

/// Applies an entry. `new` makes the document from the old one, or from an empty one.
pub(super) fn apply(
    cx: &Context<'_>,
    entry: &Entry<'_>,
    mirror: &Collection,
    id: Value<'_>,
    new: impl Fn(Doc<'_>) -> Result<DocBuf>,
) -> Result<Option<Error>> {
    let name = id.as_str().unwrap_or("");
    let ns = Namespace::parse(name)?;
    if ns.database() != mirror.namespace.database() {
        bail!(Code::INVALID_VIEW_DEFINITION, "View namespace '{ns}' is in another database");
    }
    let old = document(cx, mirror, id)?;
    if entry.kind == Kind::Delete {
        drop_view(cx, &ns)?;
    } else if entry.kind == Kind::Insert || old.is_some() || !entry.is_logged {
        let old = old.unwrap_or_else(|| DocBuf::build(|w| w.put("_id", name)));
        define(cx, &ns, new(old.as_doc())?.as_doc())?;
    }
    cx.server.mirror_view(&ns);
    Ok(None)
}

fn document(cx: &Context<'_>, mirror: &Collection, id: Value<'_>) -> Result<Option<DocBuf>> {
    let snapshot = cx.store().snapshot()?;
    let Some(record) = snapshot.reader().find_id(mirror, id)? else { return Ok(None) };
    let mut buf = RecordBuf::default();
    Ok(snapshot.reader().record(mirror, record.key(), &mut buf)?.map(|doc| doc.to_buf()))
}

fn drop_view(cx: &Context<'_>, ns: &Namespace) -> Result<()> {
    match cx.store().collection(ns) {
        Some(view) if view.is_view() => {
            cx.store().drop_collection_of(ns, Some(view.uuid)).map(drop)
        }
        _ => Ok(()),
    }
}

/// Creates the view, or replaces one with another definition.
fn define(cx: &Context<'_>, ns: &Namespace, description: Doc<'_>) -> Result<()> {
    if let Value::Array(pipeline) = description.get("pipeline") {
        nagi_query::check_view(ns, pipeline)?;
    }
    let options = DocBuf::build(|w| {
        let named = |name: &str| matches!(name, "viewOn" | "pipeline" | "collation");
        description.iter().filter(|e| named(e.name())).for_each(|e| w.put_element(e));
    });
    if let Some(existing) = cx.store().collection(ns) {
        if !existing.is_view() {
            bail!(Code::NAMESPACE_EXISTS, "Collection {ns} already exists.");
        }
        if cx.store().create_collection(ns, options.as_doc()).is_ok() {
            return Ok(()); // with the same definition
        }
        drop_view(cx, ns)?;
    }
    cx.store().create_collection(ns, options.as_doc()).map(drop)
}
