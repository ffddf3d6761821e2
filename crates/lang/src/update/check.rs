//! Checks that every document must pass before it is stored.

use nagi_bson::{Doc, Value};
use nagi_error::{Code, Result, bail};

/// The size in bytes of the largest document that an update may produce.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The maximal nesting of a stored document.
pub(super) const STORED_DEPTH_MAX: usize = 180;

/// Checks the size of an updated document.
///
/// # Errors
/// 17419 if it is too large.
pub(super) fn size(bytes: usize) -> Result<()> {
    if bytes > BYTES_MAX {
        bail!(Code::Location(17419), "Resulting document after update is larger than {BYTES_MAX}");
    }
    Ok(())
}

/// Checks the size of an upserted document.
///
/// # Errors
/// 17420 if it is too large.
pub(super) fn size_of_upsert(bytes: usize) -> Result<()> {
    if bytes > BYTES_MAX {
        bail!(Code::Location(17420), "Document to upsert is larger than {BYTES_MAX}");
    }
    Ok(())
}

/// Checks the nesting of a document.
///
/// # Errors
/// 15 if it is too deep.
pub(super) fn depth(doc: Doc<'_>) -> Result<()> {
    if doc.is_deeper_than(STORED_DEPTH_MAX) {
        bail!(Code::OVERFLOW, "Document exceeds maximum nesting depth of {STORED_DEPTH_MAX}");
    }
    Ok(())
}

/// Checks the value of an `_id`.
///
/// # Errors
/// 53 for a type that `_id` may not have, 52 for a name with `$` inside of it.
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

/// Checks the names inside of an `_id` that is a document. Names with `$` are rejected, except those of references.
///
/// # Errors
/// 52 for a name with `$`, at any depth of documents.
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
