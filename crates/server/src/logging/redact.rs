//! Redaction: with the parameter `redactClientLogData`, values of clients become `###` in every line.
//!
//! A line is redacted where it is written, by the names of its attributes, and what is not known to be the server's own
//! is redacted: a new line that logs a command or an error discloses nothing if its author did not think of it. Numbers
//! and booleans of the line itself are counts and durations and stay; within a document every value is replaced, as in
//! MongoDB, and the names of fields stay.

use nagi_bson::{ArrayWriter, DocBuf, DocWriter, Value};

/// What stands in place of a value.
pub(super) const REDACTED: &str = "###";

/// Texts and documents of the server's own: names of collections and indexes, addresses, users, paths. Sorted.
const KEPT: &[&str] = &[
    "address",
    "appName",
    "asked",
    "backupId",
    "client",
    "codeName",
    "db",
    "dbpath",
    "dir",
    "errName",
    "failPointName",
    "file",
    "folder",
    "from",
    "fromName",
    "given",
    "index",
    "journalCompressor",
    "lockFile",
    "locks",
    "mechanism",
    "message",
    "method",
    "namespace",
    "negotiatedCompressors",
    "newValue",
    "ns",
    "options",
    "parameter",
    "peerSubject",
    "planCacheKey",
    "planCacheShapeHash",
    "planSummary",
    "protocol",
    "queryFramework",
    "queryHash",
    "queryShapeHash",
    "remote",
    "remoteHost",
    "replanReason",
    "setName",
    "ssl",
    "storageEngine",
    "thread",
    "tlsVersion",
    "to",
    "toName",
    "type",
    "user",
    "uuid",
];

/// Lines that stay whole, though their attributes have no name of [`KEPT`]: errors of the operating system, of TLS and
/// of its files, and the description that a driver gives of itself.
const KEPT_LINES: &[i64] = &[
    22_948, 23_018, 23_236, 51_773, 51_800, 8_200_047, 8_200_160, 8_200_161, 8_200_320, 8_200_322,
];

/// Returns true if all attributes of a line stay: it is about the process, a file of the engine, or one of
/// [`KEPT_LINES`].
pub(super) fn keeps(component: &str, id: i64) -> bool {
    component == "CONTROL"
        || (7_700_000..7_710_000).contains(&id)
        || KEPT_LINES.binary_search(&id).is_ok()
}

/// The value of an attribute as the only field of a document; `None` if it stays as it is.
pub(super) fn apply(name: &str, value: Value<'_>) -> Option<DocBuf> {
    let stays = match value {
        Value::Bool(_) | Value::Int32(_) | Value::Int64(_) | Value::Double(_) => true,
        // The name of a command of the catalogue; the whole command is a document.
        Value::String(_) if name == "command" => true,
        _ => KEPT.binary_search(&name).is_ok(),
    };
    (!stays).then(|| DocBuf::build(|doc| put(doc, name, value)))
}

fn put(doc: &mut DocWriter<'_>, name: &str, value: Value<'_>) {
    match value {
        Value::Doc(inner) => doc.doc(name, |doc| {
            inner.iter().for_each(|field| put(doc, field.name(), field.value()));
        }),
        Value::Array(values) => doc.array(name, |array| {
            values.iter().for_each(|value| push(array, value));
        }),
        _ => doc.put(name, REDACTED),
    }
}

fn push(array: &mut ArrayWriter<'_>, value: Value<'_>) {
    match value {
        Value::Doc(inner) => array.doc(|doc| {
            inner.iter().for_each(|field| put(doc, field.name(), field.value()));
        }),
        Value::Array(values) => array.array(|array| {
            values.iter().for_each(|value| push(array, value));
        }),
        _ => array.push(REDACTED),
    }
}

#[cfg(test)]
mod tests {
    use nagi_bson::json;

    use super::*;

    #[test]
    fn values_are_replaced_and_names_stay() {
        let command =
            json::parse("{find: 'c', filter: {a: {$in: [1, 'x', [true, {b: null}]]}}, limit: 5}")
                .unwrap();
        let shown = apply("command", Value::Doc(command.as_doc())).unwrap();
        assert_eq!(
            json::to_relaxed(shown.as_doc()),
            r####"{"command":{"find":"###","filter":{"a":{"$in":["###","###",["###",{"b":"###"}]]}},"limit":"###"}}"####
        );
        let error = apply("error", Value::String("dup key: { a: 1 }")).unwrap();
        assert_eq!(json::to_relaxed(error.as_doc()), r####"{"error":"###"}"####);
        assert!(apply("ns", Value::String("d.c")).is_none());
        assert!(apply("command", Value::String("find")).is_none());
        assert!(apply("durationMillis", Value::Int32(5)).is_none());
    }

    #[test]
    fn lists_are_sorted() {
        assert!(KEPT.is_sorted());
        assert!(KEPT_LINES.is_sorted());
        assert!(
            keeps("CONTROL", 20_557) && keeps("STORAGE", 7_702_004) && keeps("NETWORK", 51_800)
        );
        assert!(!keeps("COMMAND", 51_803) && !keeps("ACCESS", 20_436));
    }
}
