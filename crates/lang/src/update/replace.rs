//! Replacements: the new document replaces the old one, except for the `_id`.

use nagi_bson::{Doc, DocBuf, DocWriter, Value, compare, text};
use nagi_error::{Code, Result, bail};

use super::{UpdateCx, apply::check_name, check};

/// A new document.
#[derive(Debug)]
pub(super) struct Replacement(DocBuf);

impl Replacement {
    pub(super) fn new(doc: Doc<'_>) -> Replacement {
        Replacement(doc.to_buf())
    }

    pub(super) fn apply(&self, old: Doc<'_>, cx: &UpdateCx<'_>, out: &mut Vec<u8>) -> Result<()> {
        let id = self.0.get("_id");
        let old_id = old.get("_id");
        if !id.is_missing() && !old_id.is_missing() && !compare::equal(id, old_id) {
            return Err(altered(id));
        }
        self.write(if id.is_missing() { old_id } else { id }, cx, out)
    }

    /// Writes the document with `id` first. Each empty timestamp at the top level is replaced by a new timestamp.
    pub(super) fn write(&self, id: Value<'_>, cx: &UpdateCx<'_>, out: &mut Vec<u8>) -> Result<()> {
        check::id(id)?;
        check::depth(self.0.as_doc())?;
        let mut writer = DocWriter::new(out);
        writer.put("_id", id);
        for element in self.0.as_doc() {
            check_name(element.name(), element.name())?;
            match (element.name(), element.value()) {
                ("_id", _) => {}
                (name, Value::Timestamp(0)) if !cx.keep_empty_timestamps => {
                    writer.put(name, Value::Timestamp((cx.next_timestamp)()))
                }
                (name, value) => writer.put(name, value),
            }
        }
        writer.finish();
        Ok(())
    }

    /// The `_id` of the new document.
    pub(super) fn id(&self) -> Value<'_> {
        self.0.get("_id")
    }
}

/// The error for an update that would change the `_id`.
pub(super) fn altered(id: Value<'_>) -> nagi_error::Error {
    nagi_error::err!(
        Code::IMMUTABLE_FIELD,
        "After applying the update, the (immutable) field '_id' was found to have been altered to \
         _id: {}",
        text::value_text(id)
    )
}

/// Rejects an `_id` that is an array, with the error of replacements and upsert seeds.
///
/// # Errors
/// 54 for an array.
pub(super) fn no_array(id: Value<'_>) -> Result<()> {
    if matches!(id, Value::Array(_)) {
        bail!(
            Code::NOT_SINGLE_VALUE_FIELD,
            "After applying the update to the document, the (immutable) field '_id' was found to \
             be an array or array descendant."
        );
    }
    Ok(())
}
