//! Events: what a stream shows of an operation of the log, without documents that are looked up.

use nagi_bson::{Binary, Doc, DocWriter, Value};
use nagi_store::LogDocument;

use super::{
    operation::{Kind, Operation},
    token::{Place, Token},
    update,
};

/// What all events of a document of the log have in common.
pub(super) struct Origin<'d> {
    document: &'d LogDocument,
}

fn uuid(bytes: &[u8; 16]) -> Value<'_> {
    Value::Binary(Binary { subtype: 4, bytes })
}

/// The token of an operation's event.
pub(super) fn token_of(
    document: &LogDocument,
    at: usize,
    operation: &Operation<'_>,
    from_invalidate: bool,
) -> Token {
    let op = (document.first_op + at) as u64;
    let place = Place::Event { op, from_invalidate, uuid: operation.uuid, fragment: None };
    Token { cluster_time: document.cluster_time, place }
}

impl<'d> Origin<'d> {
    pub(super) fn of(document: &'d LogDocument) -> Origin<'d> {
        Origin { document }
    }

    fn begin(&self, token: &Token, name: &str, out: &mut DocWriter<'_>) {
        out.doc("_id", |out| token.put(out));
        out.put("operationType", name);
        out.put("clusterTime", Value::Timestamp(self.document.cluster_time));
    }

    /// The event of the operation at `at`. `raw`: updates have the difference as the log has it.
    pub(super) fn event(
        &self,
        at: usize,
        operation: &Operation<'_>,
        (expanded, raw): (bool, bool),
    ) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(operation.o.len() + 320);
        let mut out = DocWriter::new(&mut bytes);
        let token = token_of(self.document, at, operation, false);
        self.begin(&token, operation.kind.name(), &mut out);
        if let Some(id) = operation.uuid.as_ref().filter(|_| expanded) {
            out.put("collectionUUID", uuid(id));
        }
        out.put("wallTime", Value::DateTime(self.document.wall_ms(at)));
        if let Some((session, number)) = self.document.transaction(at) {
            out.put("txnNumber", number);
            out.put("lsid", session);
        }
        if matches!(operation.kind, Kind::Insert | Kind::Replace) {
            out.put("fullDocument", operation.o);
        }
        put_names(operation, &mut out);
        put_change(operation, (expanded, raw), &mut out);
        out.finish();
        bytes
    }

    /// The event that ends a stream behind the operation at `at`.
    pub(super) fn invalidate(&self, at: usize, token: &Token) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = DocWriter::new(&mut bytes);
        self.begin(token, "invalidate", &mut out);
        out.put("wallTime", Value::DateTime(self.document.wall_ms(at)));
        out.finish();
        bytes
    }
}

/// Writes the names of a database and, unless that is empty, of a collection.
pub(super) fn put_name(name: &str, at: (&str, &str), out: &mut DocWriter<'_>) {
    out.doc(name, |out| {
        out.put("db", at.0);
        if !at.1.is_empty() {
            out.put("coll", at.1);
        }
    });
}

fn put_names(operation: &Operation<'_>, out: &mut DocWriter<'_>) {
    put_name("ns", (operation.database, operation.collection), out);
    if operation.kind == Kind::Create {
        out.put("nsType", type_of(operation));
    }
    if let Some(to) = operation.to {
        put_name("to", to, out);
    }
}

/// What was created.
fn type_of(operation: &Operation<'_>) -> &'static str {
    let on = operation.o.get("viewOn").as_str().unwrap_or("");
    match operation.of_view {
        false => "collection",
        true if on.starts_with("system.buckets.") => "timeseries",
        true => "view",
    }
}

/// Writes what kinds of events have of their own.
fn put_change(operation: &Operation<'_>, (expanded, raw): (bool, bool), out: &mut DocWriter<'_>) {
    let (o, o2) = (operation.o, operation.o2);
    match operation.kind {
        Kind::Insert | Kind::Replace => {
            let id = o.get("_id");
            out.doc("documentKey", |out| out.put("_id", id));
        }
        Kind::Delete => out.put("documentKey", o),
        Kind::Update => {
            out.put("documentKey", o2);
            match o.get("diff").as_doc() {
                Some(_) if raw => out.put("rawUpdateDescription", o),
                Some(diff) => update::put(diff, expanded, out),
                None => {}
            }
        }
        Kind::Rename if expanded => out.doc("operationDescription", |out| {
            let (database, collection) = operation.to.unwrap_or_default();
            out.doc("to", |out| {
                out.put("db", database);
                out.put("coll", collection);
            });
            if let Some(target) = o.element("dropTarget") {
                out.put_element(target);
            }
        }),
        Kind::Drop | Kind::Rename | Kind::DropDatabase => {}
        Kind::Create | Kind::Modify if operation.of_view => {
            out.doc("operationDescription", |out| put_view(o, out));
        }
        Kind::Create => out.doc("operationDescription", |out| put_rest(o, out)),
        Kind::Modify => {
            out.doc("operationDescription", |out| put_rest(o, out));
            out.doc("stateBeforeChange", |out| {
                for (from, to) in [
                    ("collectionOptions_old", "collectionOptions"),
                    ("indexOptions_old", "indexOptions"),
                ] {
                    out.put(to, o2.get(from));
                }
            });
        }
        Kind::CreateIndexes => out.doc("operationDescription", |out| {
            out.array("indexes", |out| match o.get("indexes").as_array() {
                Some(indexes) => indexes.iter().for_each(|index| out.push(index)),
                None => out.doc(|out| put_rest(o, out)),
            });
        }),
        Kind::DropIndexes => out.doc("operationDescription", |out| {
            out.array("indexes", |out| out.push_doc(o2));
        }),
    }
}

/// Writes a command without its name.
fn put_rest(o: Doc<'_>, out: &mut DocWriter<'_>) {
    o.iter().skip(1).for_each(|element| out.put_element(element));
}

/// Writes the definition of a view.
fn put_view(o: Doc<'_>, out: &mut DocWriter<'_>) {
    o.iter().filter(|element| element.name() != "_id").for_each(|element| out.put_element(element));
}
