//! What a finished request leaves in the audit log: whether it was allowed, the collections and indexes that it
//! created, renamed or dropped, and the changes of users and roles.

use std::sync::Arc;

use nagi_error::{Code, Error};
use nagi_store::{CatalogChange, Collection, Index, Namespace};

use crate::core::access;
use crate::core::command::Command;
use crate::core::connection::Connection;
use crate::limits::AUDIT_PARAM_BYTES_MAX;
use crate::printable::{Secret, printable, put_hidden, write_hidden};
use crate::request::{Request, is_generic};

/// A request that has finished.
pub(crate) struct Outcome<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) row: &'static Command,
    pub(crate) error: Option<&'a Error>,
    /// It passed the checks before its run.
    pub(crate) ran: bool,
    /// The collections of users and roles that it has changed.
    pub(crate) changed_users: &'a [&'static str],
}

/// Records a request. The caller has checked that there is an audit log.
pub(crate) fn observe(connection: &Connection, outcome: &Outcome<'_>) {
    let server = &connection.server;
    let Some(audit) = &server.audit else { return };
    let code = outcome.error.map_or(Code::OK, Error::code);
    let row = outcome.row;
    let refused = code == Code::UNAUTHORIZED;
    if server.auth.is_enabled() && !row.before_login {
        if refused {
            if !row.refusal_unaudited {
                authorization(connection, outcome, Code::UNAUTHORIZED);
            }
        } else if outcome.ran && server.audits_successes(audit) {
            authorization(connection, outcome, Code::OK);
        }
    }
    for change in connection.store.client().take_catalog_changes() {
        catalog(connection, &change);
    }
    // Commits tell what they changed, so that no command that can reach these collections is forgotten.
    if row.audited.is_none() {
        outcome.changed_users.iter().for_each(|ns| direct_mutation(connection, outcome, ns));
    }
    if !outcome.ran || refused {
        return;
    }
    if let Some(param) = row.audited {
        connection.audit(row.name, code, |out| param(outcome.request, out));
    }
}

fn authorization(connection: &Connection, outcome: &Outcome<'_>, result: Code) {
    let request = outcome.request;
    connection.audit("authCheck", result, |out| {
        out.put("command", outcome.row.name);
        out.put("ns", namespace(request).as_str());
        let shown = printable(request.shown().as_doc(), Secret::No);
        out.put("args", &shown);
    });
}

/// The collection that a command is on, or its database.
fn namespace(request: &Request<'_>) -> String {
    match access::collection(request).filter(|_| request.command.on_collection) {
        Some(collection) => format!("{}.{collection}", request.db),
        None => request.db.to_owned(),
    }
}

/// A change of the collections of users and roles by other commands than those that manage users.
fn direct_mutation(connection: &Connection, outcome: &Outcome<'_>, changed: &str) {
    let request = outcome.request;
    connection.audit("directAuthMutation", Code::OK, |out| {
        out.doc("document", |out| {
            for element in request.body.iter().filter(|element| !is_generic(element.name())) {
                put_hidden(element.name(), element.value(), out);
            }
            for sequence in request.sequences {
                let mut bytes = 0;
                out.array(sequence.name, |out| {
                    for doc in sequence.iter() {
                        bytes += doc.len();
                        if bytes > AUDIT_PARAM_BYTES_MAX / 2 {
                            out.push("...");
                            break;
                        }
                        out.doc(|out| write_hidden(doc, out));
                    }
                });
            }
        });
        out.put("ns", changed);
        out.put("operation", outcome.row.name);
    });
}

fn catalog(connection: &Connection, change: &CatalogChange) {
    match change {
        CatalogChange::DatabaseDropped(name) => {
            connection.audit("dropDatabase", Code::OK, |out| out.put("ns", name.as_str()));
        }
        CatalogChange::Collection { before: None, after: Some(after), is_first } => {
            if *is_first {
                let database = after.namespace.database();
                connection.audit("createDatabase", Code::OK, |out| out.put("ns", database));
            }
            collection(connection, "createCollection", after);
            let namespace = &after.namespace;
            after.indexes.iter().for_each(|index| index_begun(connection, namespace, index));
        }
        CatalogChange::Collection { before: Some(before), after: None, .. } => {
            collection(connection, "dropCollection", before);
        }
        CatalogChange::Collection { before: Some(before), after: Some(after), .. } => {
            modified(connection, before, after);
        }
        CatalogChange::Collection { before: None, after: None, .. } => {}
    }
}

fn collection(connection: &Connection, atype: &str, of: &Collection) {
    connection.audit(atype, Code::OK, |out| {
        out.put("ns", of.namespace.as_str());
        if of.is_view() {
            let options = of.options.doc.as_doc();
            let source = options.get("viewOn").as_str().unwrap_or("");
            out.put("viewOn", format!("{}.{source}", of.namespace.database()).as_str());
            out.put("pipeline", options.get("pipeline"));
        }
    });
}

/// A collection that was renamed, or whose indexes were begun, completed, given up or dropped.
fn modified(connection: &Connection, before: &Collection, after: &Collection) {
    if before.namespace != after.namespace {
        connection.audit("renameCollection", Code::OK, |out| {
            out.put("old", before.namespace.as_str());
            out.put("new", after.namespace.as_str());
        });
        return;
    }
    let namespace = &after.namespace;
    let of = |list: &[Arc<Index>], name: &str| list.iter().find(|i| i.name() == name).cloned();
    for index in &before.indexes {
        match (of(&after.indexes, index.name()), index.ready) {
            (None, true) => connection.audit("dropIndex", Code::OK, |out| {
                out.put("ns", namespace.as_str());
                out.put("indexName", index.name());
            }),
            (None, false) => {
                let aborted = ("IndexBuildAborted", Code::INDEX_BUILD_ABORTED);
                index_state(connection, namespace, index, aborted);
            }
            (Some(now), false) if now.ready => {
                index_state(connection, namespace, &now, ("IndexBuildSucceeded", Code::OK));
            }
            _ => {}
        }
    }
    let new = after.indexes.iter().filter(|index| of(&before.indexes, index.name()).is_none());
    new.for_each(|index| index_begun(connection, namespace, index));
}

/// A new index. That of an empty collection is complete at once.
fn index_begun(connection: &Connection, namespace: &Namespace, index: &Index) {
    index_state(connection, namespace, index, ("IndexBuildStarted", Code::OK));
    if index.ready {
        index_state(connection, namespace, index, ("IndexBuildSucceeded", Code::OK));
    }
}

fn index_state(
    connection: &Connection,
    namespace: &Namespace,
    index: &Index,
    (state, result): (&str, Code),
) {
    connection.audit("createIndex", result, |out| {
        out.put("ns", namespace.as_str());
        out.put("indexName", index.name());
        out.put("indexSpec", &index.spec.doc);
        out.put("indexBuildState", state);
    });
}
