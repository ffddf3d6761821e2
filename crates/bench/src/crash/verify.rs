//! Verifies the data of a reopened server.
use super::model::Model;
use super::schema::Schema;
use super::worker::put_fields;
use super::{COLLECTION, DATABASE};
use crate::args::{Outcome, Problem};
use crate::client::{Connection, integer};
use nagi_bson::{Doc, DocBuf, Value, doc};
use std::collections::HashMap;
use std::time::Instant;

const PROBLEMS_SHOWN: usize = 5;

/// Checks everything and returns the number of documents.
pub(super) fn verify(
    address: &str,
    (models, schema): (&mut [Model], &mut Schema),
    killed_at: Instant,
) -> Outcome<usize> {
    let mut connection = Connection::open(address)?;
    let (found, mut problems) = scan(&mut connection)?;
    for id in found.keys().filter(|id| !models.iter().any(|m| m.owns(**id))) {
        problems.push(format!("document {id} belongs to no model"));
    }
    for model in models.iter_mut() {
        problems.extend(model.settle(&found, killed_at));
    }
    counts(&mut connection, &found, &mut problems)?;
    indexes(&mut connection, &found, &mut problems)?;
    schema.settle(&mut connection, &mut problems)?;
    if problems.is_empty() {
        return Ok(found.len());
    }
    problems.truncate(PROBLEMS_SHOWN);
    Err(Problem::Failed(problems.join("; ")))
}

/// Reads the id and version of every document, and reports documents whose content does not match their
/// version.
fn scan(connection: &mut Connection) -> Outcome<(HashMap<i64, i64>, Vec<String>)> {
    let (mut found, mut problems) = (HashMap::new(), Vec::new());
    let mut reply = connection
        .expect(doc! { "find": COLLECTION, "batchSize": 1000, "$db": DATABASE }.as_doc())?;
    let mut batch = "firstBatch";
    while let Value::Doc(cursor) = reply.get("cursor") {
        if let Value::Array(documents) = cursor.get(batch) {
            for document in documents.iter() {
                if let Value::Doc(document) = document {
                    note(document, &mut found, &mut problems);
                }
            }
        }
        let id = integer(cursor.get("id")).unwrap_or(0);
        if id == 0 {
            break;
        }
        batch = "nextBatch";
        reply = connection.expect(
            doc! { "getMore": id, "collection": COLLECTION, "batchSize": 1000, "$db": DATABASE }
                .as_doc(),
        )?;
    }
    Ok((found, problems))
}

fn note(document: Doc<'_>, found: &mut HashMap<i64, i64>, problems: &mut Vec<String>) {
    let field = |name: &str| integer(document.get(name));
    let (Some(id), Some(writer), Some(version)) = (field("_id"), field("w"), field("v")) else {
        problems.push(format!("strange document {document:?}"));
        return;
    };
    let expected = DocBuf::build(|w| put_fields(w, writer, version));
    // `$set` appends and `$unset` removes, so the fields are compared without regard to order.
    let same = expected.as_doc().iter().all(|e| document.get(e.name()).same_bytes(&e.value()));
    if !same || document.count() != expected.as_doc().count() + 1 {
        problems.push(format!("document {id} mixes versions: {document:?}"));
    }
    if found.insert(id, version).is_some() {
        problems.push(format!("document {id} is there twice"));
    }
}

fn counts(
    connection: &mut Connection,
    found: &HashMap<i64, i64>,
    problems: &mut Vec<String>,
) -> Outcome {
    let expected = Some(found.len() as i64);
    for command in ["count", "collStats"] {
        let body = DocBuf::build(|w| {
            w.put(command, COLLECTION);
            w.put("$db", DATABASE);
        });
        let reply = connection.expect(body.as_doc())?;
        let seen = integer(reply.get(if command == "count" { "n" } else { "count" }));
        if seen != expected {
            problems.push(format!("{command} says {seen:?}, a scan finds {expected:?}"));
        }
    }
    Ok(())
}

fn indexes(
    connection: &mut Connection,
    found: &HashMap<i64, i64>,
    problems: &mut Vec<String>,
) -> Outcome {
    let body = doc! { "validate": COLLECTION, "full": true, "$db": DATABASE };
    let reply = connection.expect(body.as_doc())?;
    if reply.get("valid") != Value::Bool(true) {
        problems.push(format!("validate: {reply:?}"));
    }
    let mut by_index = |query: DocBuf, hint: &str, expected: usize| -> Outcome {
        let body = doc! { "count": COLLECTION, "query": (&query), "hint": hint, "$db": DATABASE };
        let seen = integer(connection.expect(body.as_doc())?.get("n"));
        if seen != Some(expected as i64) {
            problems.push(format!("index {hint} counts {seen:?} of {query:?}, a scan {expected}"));
        }
        Ok(())
    };
    let versions = || found.values().copied();
    for a in [0, 13, 96] {
        let expected = versions().filter(|v| v % 97 == a).count();
        by_index(doc! { "a": a }, "a_1", expected)?;
        by_index(doc! { "a": a, "v": { "$gt": 0 } }, "a_1_v_-1", expected)?;
    }
    for t in [0, 7, 12] {
        by_index(
            doc! { "t": t },
            "t_1",
            versions().filter(|v| v % 11 == t || v % 13 == t).count(),
        )?;
    }
    by_index(doc! { "odd": { "$gt": 0 } }, "odd_1", versions().filter(|v| v % 2 == 1).count())?;
    by_index(doc! { "w": { "$gte": 0 } }, "w_1_v_1", found.len())
}
