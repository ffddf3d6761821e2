//! The key of a kind of query: its shape, and what else distinguishes it.
//!
//! ```text
//!   {queryShape: {cmdNs, command, filter, ...}, client: {driver, os, ...}, collectionType: "collection",
//!    readConcern: {level: "local", provenance: "implicitDefault"}, batchSize: "?number", ...}
//! ```

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value};
use nagi_store::Namespace;

use super::Query;
use crate::request::Request;

/// The key; `None` for a command that has no shape.
pub(super) fn of(query: &Query<'_>) -> Option<DocBuf> {
    let request = query.request;
    let body = request.body;
    let shape = nagi_query::statistics_shape(request.db, body)?;
    Some(DocBuf::build(|out| {
        out.put("queryShape", &shape);
        if let Some(client) = query.client {
            out.put("client", &client.doc);
        }
        out.put("collectionType", collection_type(query));
        write_hint(body.get("hint"), out);
        write_read_concern(query, out);
        if let Value::Doc(preference) = body.get("$readPreference") {
            out.put("$readPreference", preference);
        }
        write_placeholder(body, "batchSize", out);
        if let Value::Doc(cursor) = body.get("cursor") {
            out.doc("cursor", |out| write_placeholder(cursor, "batchSize", out));
        }
        for name in ["comment", "maxTimeMS"] {
            write_placeholder(body, name, out);
        }
        for name in
            ["noCursorTimeout", "allowPartialResults", "bypassDocumentValidation", "explain"]
        {
            if let Value::Bool(on) = body.get(name) {
                out.put(name, on);
            }
        }
        let generic = &request.generic;
        if let Some(version) = generic.api_version {
            out.put("apiVersion", version);
            out.put("apiStrict", generic.api_strict);
            out.put("apiDeprecationErrors", generic.api_deprecation_errors);
        }
    }))
}

/// Writes the type of an argument instead of its value.
fn write_placeholder(doc: Doc<'_>, name: &str, out: &mut DocWriter<'_>) {
    match doc.get(name) {
        Value::Missing => {}
        value if value.is_number() => out.put(name, "?number"),
        value => out.put(name, format!("?{}", value.kind().name()).as_str()),
    }
}

/// An index is named by its fields, or by its name, which may contain anything.
fn write_hint(hint: Value<'_>, out: &mut DocWriter<'_>) {
    match hint {
        Value::Doc(fields) if !fields.is_empty() => out.put("hint", fields),
        Value::String(_) => out.doc("hint", |out| out.put("$hint", "?string")),
        _ => {}
    }
}

fn write_read_concern(query: &Query<'_>, out: &mut DocWriter<'_>) {
    out.doc("readConcern", |out| match query.request.body.get("readConcern") {
        Value::Doc(given) if !given.is_empty() => {
            for element in given {
                match element.value() {
                    Value::Timestamp(_) => out.put(element.name(), "?timestamp"),
                    Value::String(_) => out.put_element(element),
                    _ => {}
                }
            }
            if given.element("provenance").is_none() {
                out.put("provenance", "clientSupplied");
            }
        }
        _ => {
            let provenance = match query.default_level {
                Some(_) => "customDefault",
                None => "implicitDefault",
            };
            out.put("level", query.default_level.unwrap_or("local"));
            out.put("provenance", provenance);
        }
    });
}

fn pipeline<'a>(request: &Request<'a>) -> Array<'a> {
    request.body.get("pipeline").as_array().unwrap_or(Array::EMPTY)
}

/// Returns true if the request opens a change stream.
pub(super) fn is_change_stream(request: &Request<'_>) -> bool {
    nagi_query::opens_change_stream(pipeline(request))
}

fn collection_type(query: &Query<'_>) -> &'static str {
    let request = query.request;
    let name = request.body.first().and_then(|first| first.value().as_str());
    if is_change_stream(request) {
        return "changeStream";
    }
    let Some(name) = name else { return "virtual" };
    let Ok(ns) = Namespace::new(request.db, name) else { return "nonExistent" };
    match query.store.collection(&ns) {
        None => "nonExistent",
        Some(_) if query.store.buckets_of(&ns).is_some() => "timeseries",
        Some(collection) if collection.is_view() => "view",
        Some(_) => "collection",
    }
}
