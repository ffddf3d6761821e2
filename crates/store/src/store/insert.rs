//! Checks and normalizes a document before it is stored.

use nagi_bson::{Doc, DocWriter, Type, Value};
use nagi_error::{Code, Result, bail};

use crate::{IndexSpec, clock, record::DOCUMENT_DEPTH_MAX, store::Shared};

/// Largest document, in bytes.
const DOC_BYTES_MAX: usize = nagi_bson::DOC_BYTES_MAX;

/// Checks a document that is to be inserted. Returns it unchanged if `_id` comes first and no timestamp is empty;
/// otherwise it is rewritten into `rewritten`.
pub(crate) fn prepare<'d>(
    doc: Doc<'d>,
    store: &Shared,
    keep_empty_timestamps: bool,
    rewritten: &'d mut Vec<u8>,
) -> Result<Doc<'d>> {
    let mut first = true;
    let mut as_it_is = true;
    let mut id = Value::Missing;
    for element in doc {
        if element.name() == "_id" {
            if !id.is_missing() {
                bail!(Code::BAD_VALUE, "can't have multiple _id fields in one document");
            }
            id = element.value();
            check_id(id)?;
            as_it_is &= first;
        } else if !keep_empty_timestamps
            && element.kind() == Type::Timestamp
            && matches!(element.value(), Value::Timestamp(0))
        {
            as_it_is = false;
        }
        first = false;
    }
    as_it_is &= !id.is_missing();
    let doc =
        if as_it_is { doc } else { rewrite(doc, id, store, keep_empty_timestamps, rewritten) };
    if doc.len() > DOC_BYTES_MAX {
        bail!(
            Code::BAD_VALUE,
            "object to insert too large. size in bytes: {}, max size: {DOC_BYTES_MAX}",
            doc.len()
        );
    }
    check_depth(doc)?;
    Ok(doc)
}

/// Checks a document built by an upsert.
pub(crate) fn check_made(doc: Doc<'_>) -> Result<()> {
    check_id(doc.get("_id"))?;
    check_update(doc)
}

/// Checks the result of an update: the update itself has checked the size, this checks the depth.
pub(crate) fn check_update(doc: Doc<'_>) -> Result<()> {
    if doc.len() > DOC_BYTES_MAX {
        bail!(
            Code::Location(17419),
            "Resulting document after update is larger than {DOC_BYTES_MAX}"
        );
    }
    check_depth(doc)
}

fn rewrite<'d>(
    doc: Doc<'_>,
    id: Value<'_>,
    store: &Shared,
    keep_empty_timestamps: bool,
    rewritten: &'d mut Vec<u8>,
) -> Doc<'d> {
    let now_ms = clock::now_ms();
    let seconds = (now_ms / 1000) as u32;
    let mut writer = DocWriter::new(rewritten);
    match id {
        Value::Missing => writer.put("_id", &store.ids.next(seconds)),
        id => writer.put("_id", id),
    }
    for element in doc.iter().filter(|element| element.name() != "_id") {
        match element.value() {
            Value::Timestamp(0) if !keep_empty_timestamps => {
                writer.put(element.name(), Value::Timestamp(store.engine.clock().next()));
            }
            value => writer.put(element.name(), value),
        }
    }
    writer.finish();
    Doc::trusted(rewritten)
}

fn check_id(id: Value<'_>) -> Result<()> {
    match id {
        Value::Array(_) => bail!(Code::BAD_VALUE, "can't use an array for _id"),
        Value::Regex(_) => bail!(Code::BAD_VALUE, "can't use a regex for _id"),
        Value::Undefined => bail!(Code::BAD_VALUE, "can't use a undefined for _id"),
        Value::Doc(doc) => nagi_lang::update::check_id_names(doc),
        _ => Ok(()),
    }
}

fn check_depth(doc: Doc<'_>) -> Result<()> {
    if doc.is_deeper_than(DOCUMENT_DEPTH_MAX) {
        bail!(
            Code::OVERFLOW,
            "cannot insert document because it exceeds {DOCUMENT_DEPTH_MAX} levels of nesting"
        );
    }
    Ok(())
}

/// Returns true if the index keys of two versions of a document may differ; false only if every top-level field
/// that the index uses has the same bytes in both.
pub(crate) fn keys_may_differ(spec: &IndexSpec, old: Doc<'_>, new: Doc<'_>) -> bool {
    let differs = |path: &str| {
        let top = path.split('.').next().unwrap_or("");
        match (old.element(top), new.element(top)) {
            (Some(a), Some(b)) => {
                a.kind_byte() != b.kind_byte() || a.value_bytes() != b.value_bytes()
            }
            (None, None) => false,
            _ => true,
        }
    };
    spec.partial.is_some() || spec.depends_on(&differs)
}
