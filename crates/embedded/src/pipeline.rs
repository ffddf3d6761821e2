//! Aggregation, on collections and databases.

use nagi_bson::{Doc, DocBuf, Value};

use crate::cursor::Cursor;
use crate::scope::Scope;
use crate::{Document, Result};

/// Runs a pipeline on a collection, or on 1 for a database.
pub(crate) fn aggregate<D: Document>(
    scope: &Scope,
    db: &str,
    target: Value<'_>,
    pipeline: impl IntoIterator<Item = D>,
    options: Doc<'_>,
) -> Result<Cursor> {
    let mut failed = None;
    let body = DocBuf::build(|out| {
        out.put("aggregate", target);
        out.array("pipeline", |out| {
            for stage in pipeline {
                match stage.document() {
                    Ok(stage) => out.push(stage.as_doc()),
                    Err(error) => failed = Some(error),
                }
            }
        });
        if options.element("cursor").is_none() {
            out.doc("cursor", |_| ());
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    // Its last stage may write.
    let reply = scope.write(db, options, None, |out| out.extend(body.as_doc()))?;
    Cursor::new(scope.clone(), db, options, reply)
}
