//! The texts of the statements of an `update`, `delete` or `bulkWrite`, as `currentOp`, profiles and the log show them.

use nagi_bson::{Doc, DocBuf, Value};

use crate::beginning::TRUNCATED;

/// A field of a statement, and the value that is shown if the client left it out.
pub(crate) type Shown = (&'static str, Option<Value<'static>>);

/// What is shown of a kind of statements.
pub(crate) struct Kind {
    /// The `op` of its entries in `currentOp` and the profile.
    pub(crate) op: &'static str,
    pub(crate) fields: &'static [Shown],
}

/// The fields of the statement in MongoDB's order, and the comment of the command.
pub(crate) fn describe(fields: &[Shown], source: Doc<'_>, comment: Value<'_>) -> DocBuf {
    DocBuf::build(|out| {
        if let mark @ Value::Bool(_) = source.get(TRUNCATED) {
            out.put(TRUNCATED, mark);
        }
        for (name, usual) in fields {
            match (source.get(name), usual) {
                (Value::Missing, Some(usual)) => out.put(name, *usual),
                (Value::Missing, None) => {}
                (given, _) => out.put(name, given),
            }
        }
        if !comment.is_missing() {
            out.put("comment", comment);
        }
    })
}
