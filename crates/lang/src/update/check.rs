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
    if exceeds(doc, STORED_DEPTH_MAX) {
        bail!(Code::OVERFLOW, "Document exceeds maximum nesting depth of {STORED_DEPTH_MAX}");
    }
    Ok(())
}

/// Whether a document has more levels than `most`. A level takes seven bytes at least, so that most
/// documents, and most of what is in the others, need not be looked at.
fn exceeds(doc: Doc<'_>, most: usize) -> bool {
    if doc.len() < 5 + 7 * most {
        return false;
    }
    let Some(below) = most.checked_sub(1) else { return true };
    doc.iter().any(|element| match element.kind_byte() {
        0x03 | 0x04 => exceeds(Doc::trusted(element.value_bytes()), below),
        _ => false,
    })
}

/// Levels of documents and arrays; 0 for a scalar. Recursion is bounded by what BSON lets in.
pub(super) fn depth_of(value: Value<'_>) -> usize {
    match value {
        Value::Doc(doc) => 1 + doc.iter().map(|e| depth_of(e.value())).max().unwrap_or(0),
        Value::Array(array) => 1 + array.iter().map(depth_of).max().unwrap_or(0),
        _ => 0,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_bson::DocBuf;

    /// Documents and arrays with names as short as can be, beside a long string.
    fn nested(levels: usize) -> DocBuf {
        (1..levels).fold(DocBuf::new(), |inner, level| {
            DocBuf::build(|out| match level % 2 {
                0 => out.put("", &inner),
                _ => out.array("", |out| out.push(&inner)),
            })
        })
    }

    #[test]
    fn depth_is_what_counting_says() {
        for levels in 1..140 {
            let doc = nested(levels);
            let deep = depth_of(Value::Doc(doc.as_doc()));
            for padding in [0, 5_000] {
                let doc = DocBuf::build(|out| {
                    out.put("pad", "x".repeat(padding).as_str());
                    out.put("a", &doc);
                });
                assert_eq!(depth(doc.as_doc()).is_err(), deep + 1 > STORED_DEPTH_MAX, "{deep}");
            }
            assert_eq!(depth(doc.as_doc()).is_err(), deep > STORED_DEPTH_MAX, "{deep}");
        }
    }
}
