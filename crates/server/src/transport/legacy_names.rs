//! Pseudo-collections that old drivers and tools query where commands exist today: `$cmd.sys.inprog`,
//! `$cmd.sys.killop`, `$cmd.sys.unlock`, `system.namespaces`, `system.indexes`.

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value, compare};

use crate::core::connection::Connection;
use crate::request::Protocol;
use crate::transport::dispatch::{self, Incoming};

/// The command that replaced a query of a pseudo-collection, and its database.
pub(crate) fn command_for<'d>(
    _db: &str,
    collection: &str,
    query: Doc<'_>,
) -> Option<(&'d str, DocBuf)> {
    let body = match collection {
        "$cmd.sys.inprog" => DocBuf::build(|w| {
            w.put("currentOp", 1);
            w.extend(query);
        }),
        "$cmd.sys.killop" => DocBuf::build(|w| {
            w.put("killOp", 1);
            w.put("op", query.get("op"));
        }),
        "$cmd.sys.unlock" => DocBuf::build(|w| w.put("fsyncUnlock", 1)),
        _ => return None,
    };
    Some(("admin", body))
}

/// The command whose reply contains the answer to a query of `system.namespaces` or `system.indexes`.
pub(crate) fn catalog_query(_db: &str, collection: &str) -> Option<DocBuf> {
    match collection {
        "system.namespaces" | "system.indexes" => Some(DocBuf::build(|w| {
            w.put("listCollections", 1);
            w.doc("cursor", |c| c.put("batchSize", i32::MAX));
        })),
        _ => None,
    }
}

/// The documents of such a query: namespaces or indexes, with the full name of the collection. The query may compare
/// fields for equality, as old clients do with `ns` and `name`.
pub(crate) fn catalog_docs(
    connection: &mut Connection,
    db: &str,
    collection: &str,
    query: Doc<'_>,
    reply: &DocBuf,
) -> Vec<DocBuf> {
    let filter = match query.get("$query") {
        Value::Doc(filter) => filter,
        _ => match query.get("query") {
            Value::Doc(filter) => filter,
            _ => query,
        },
    };
    let mut docs = Vec::new();
    for entry in batch(reply.as_doc()).iter().filter_map(|v| v.as_doc()) {
        let Value::String(name) = entry.get("name") else { continue };
        let namespace = format!("{db}.{name}");
        let indexes = index_docs(connection, db, name, &namespace);
        if collection == "system.namespaces" {
            docs.push(DocBuf::build(|w| {
                w.put("name", &namespace);
                w.put("options", entry.get("options"));
            }));
            // As in the `.ns` files of MMAPv1, an index is a namespace as well.
            for index in indexes {
                let name = index.as_doc().get("name").as_str().unwrap_or("").to_owned();
                let name = format!("{namespace}.${name}");
                docs.push(DocBuf::build(|w| w.put("name", &name)));
            }
        } else {
            docs.extend(indexes);
        }
    }
    docs.retain(|doc| agrees(doc.as_doc(), filter));
    docs
}

fn batch(reply: Doc<'_>) -> Array<'_> {
    let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
    cursor.get("firstBatch").as_array().unwrap_or(Array::EMPTY)
}

fn index_docs(connection: &mut Connection, db: &str, name: &str, namespace: &str) -> Vec<DocBuf> {
    let body = DocBuf::build(|w| {
        w.put("listIndexes", name);
        w.doc("cursor", |c| c.put("batchSize", i32::MAX));
    });
    let incoming = Incoming {
        db: Some(db),
        body: body.as_doc(),
        sequences: &[],
        protocol: Protocol::Query,
        exhaust_allowed: false,
    };
    let mut bytes = Vec::new();
    let mut writer = DocWriter::new(&mut bytes);
    let server = connection.server.clone();
    dispatch::run(&server, connection, &incoming, &mut writer);
    writer.finish();
    let reply = DocBuf::from_bytes(bytes).unwrap_or_default();
    let with_namespace = |spec: Doc<'_>| {
        DocBuf::build(|w| {
            w.extend(spec);
            w.put("ns", namespace);
        })
    };
    batch(reply.as_doc()).iter().filter_map(|v| v.as_doc()).map(with_namespace).collect()
}

/// Returns true if every field of `filter` equals the document's field.
fn agrees(doc: Doc<'_>, filter: Doc<'_>) -> bool {
    filter.iter().all(|e| compare::equal(doc.get(e.name()), e.value()))
}

/// The `createIndexes` command for a description inserted into `system.indexes`.
pub(crate) fn create_indexes(db: &str, spec: Doc<'_>) -> DocBuf {
    let namespace = spec.get("ns").as_str().unwrap_or("");
    let collection = namespace.strip_prefix(db).and_then(|rest| rest.strip_prefix('.'));
    DocBuf::build(|w| {
        w.put("createIndexes", collection.unwrap_or(""));
        w.array("indexes", |indexes| {
            indexes.doc(|index| {
                for element in spec {
                    // The index versions and namespaces of that time have no meaning today.
                    if !matches!(element.name(), "ns" | "v" | "_id" | "dropDups") {
                        index.put(element.name(), element.value());
                    }
                }
            });
        });
    })
}
