//! What every stored document has to satisfy, whatever made it.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

/// Largest document an update may produce, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Deepest nesting a stored document may have.
pub(super) const STORED_DEPTH_MAX: usize = 180;

/// # Errors
/// 17419 when an updated document is too large.
pub(super) fn size(bytes: usize) -> Result<()> {
    if bytes > BYTES_MAX {
        bail!(Code::Location(17419), "Resulting document after update is larger than {BYTES_MAX}");
    }
    Ok(())
}

/// # Errors
/// 17420 when an upserted document is too large.
pub(super) fn size_of_upsert(bytes: usize) -> Result<()> {
    if bytes > BYTES_MAX {
        bail!(Code::Location(17420), "Document to upsert is larger than {BYTES_MAX}");
    }
    Ok(())
}

/// # Errors
/// 15 when a document is nested too deeply.
pub(super) fn depth(doc: Doc<'_>) -> Result<()> {
    if doc.is_deeper_than(STORED_DEPTH_MAX) {
        bail!(Code::OVERFLOW, "Document exceeds maximum nesting depth of {STORED_DEPTH_MAX}");
    }
    Ok(())
}

/// # Errors
/// 53 for types that `_id` may not have, 52 for names with `$` inside it.
pub(super) fn id(value: Value<'_>) -> Result<()> {
    match value {
        Value::Array(_) | Value::Regex(_) | Value::Undefined => bail!(
            Code::INVALID_ID_FIELD,
            "The '_id' value cannot be of type {}",
            value.kind().name()
        ),
        Value::Doc(doc) => check_id_names(doc),
        _ => Ok(()),
    }
}

/// Names inside an `_id` that is a document: none with `$`, except those of references.
///
/// # Errors
/// 52 for a name with `$` at any depth.
pub fn check_id_names(doc: Doc<'_>) -> Result<()> {
    for element in doc {
        if element.name().starts_with('$') && !matches!(element.name(), "$ref" | "$id" | "$db") {
            bail!(
                Code::DOLLAR_PREFIXED_FIELD_NAME,
                "_id fields may not contain '$'-prefixed fields: {} is not valid for storage.",
                element.name()
            );
        }
        if let Value::Doc(inner) = element.value() {
            check_id_names(inner)?;
        }
    }
    Ok(())
}
