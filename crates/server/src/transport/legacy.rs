//! The legacy opcodes, which drivers used from 2010 to 2017: translated into commands.
//!
//! | opcode                             | command                      | reply                     |
//! |------------------------------------|------------------------------|---------------------------|
//! | OP_QUERY on `db.$cmd`              | the command in the query     | OP_REPLY                  |
//! | OP_QUERY                           | `find`                       | OP_REPLY                  |
//! | OP_GET_MORE                        | `getMore`                    | OP_REPLY                  |
//! | OP_INSERT, OP_UPDATE, OP_DELETE    | `insert`, `update`, `delete` | none; for getLastError    |
//! | OP_KILL_CURSORS                    | (kills directly)             | none                      |
//!
//! Every feature is therefore implemented only once; the cost is one more copy of a batch.

use std::sync::Arc;

use nagi_bson::{Array, Doc, DocBuf, DocWriter, Value};
use nagi_error::Code;
use nagi_wire::{Delete, GetMore, Header, Insert, Message, Query, Update};
use nagi_wire::{query_flags, reply_flags, write_flags};

use crate::commands::{self, may_kill};
use crate::core::access::Asking;
use crate::core::connection::Connection;
use crate::core::server::Server;
use crate::number::truncate;
use crate::request::{Protocol, Sequence};
use crate::transport::dispatch::{self, Incoming};
use crate::transport::handle::Outcome;
use crate::transport::legacy_names;

/// Handles a message that is not an OP_MSG.
pub(crate) fn handle(
    server: &Arc<Server>,
    connection: &mut Connection,
    header: &Header,
    message: &Message<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    match message {
        Message::Query(query) if query.is_command() => command(connection, header, query, out),
        Message::Query(query) => {
            server.metrics.legacy_query.increment();
            connection.last_write.clear();
            find(connection, header, query, out)
        }
        Message::GetMore(more) => {
            server.metrics.legacy_get_more.increment();
            get_more(connection, header, more, out)
        }
        Message::Insert(message) => {
            server.metrics.legacy_insert.increment();
            insert(connection, message)
        }
        Message::Update(message) => {
            server.metrics.legacy_update.increment();
            update(connection, message)
        }
        Message::Delete(message) => {
            server.metrics.legacy_delete.increment();
            delete(connection, message)
        }
        Message::KillCursors(message) => {
            server.metrics.legacy_kill_cursors.increment();
            // The privileges of a login that is not up to date are not larger than they were.
            let asking = Asking::new(connection);
            for id in message.ids.clone().filter(|id| may_kill(&asking, *id)) {
                let _ = server.clients.cursors.kill(id, None);
            }
            Outcome::NoReply
        }
        Message::Msg(_) => Outcome::NoReply,
    }
}

/// Splits `db.collection`; a name without a dot is a database without a collection.
fn split(namespace: &str) -> (&str, &str) {
    namespace.split_once('.').unwrap_or((namespace, ""))
}

/// Runs a command and returns its reply document.
fn run(connection: &mut Connection, db: &str, body: Doc<'_>, sequences: &[Sequence<'_>]) -> DocBuf {
    let incoming = Incoming {
        db: Some(db),
        body,
        sequences,
        protocol: Protocol::Query,
        exhaust_allowed: false,
    };
    let mut bytes = Vec::new();
    let mut writer = DocWriter::new(&mut bytes);
    let server = connection.server.clone();
    dispatch::run(&server, connection, &incoming, &mut writer);
    writer.finish();
    DocBuf::from_bytes(bytes).unwrap_or_default()
}

/// Runs a command on `db.$cmd`, which may be wrapped as `{$query: command, $readPreference: ...}`.
fn command(
    connection: &mut Connection,
    header: &Header,
    query: &Query<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let (db, _) = split(query.namespace);
    let wrapped = query.query.first().filter(|e| matches!(e.name(), "$query" | "query"));
    let body = wrapped.and_then(|e| e.value().as_doc()).unwrap_or(query.query);
    let name = body.first().map_or("", |e| e.name());
    if !commands::find(name).is_some_and(|command| command.keeps_last_write) {
        connection.last_write.clear();
    }
    let id = connection.reply_id();
    let flags = reply_flags::AWAIT_CAPABLE;
    let start = nagi_wire::begin_reply(out, id, header.request_id, flags, 0, 0);
    let incoming = Incoming {
        db: Some(db),
        body,
        sequences: &[],
        protocol: Protocol::Query,
        exhaust_allowed: false,
    };
    let mut writer = DocWriter::new(out);
    let server = connection.server.clone();
    let done = dispatch::run(&server, connection, &incoming, &mut writer);
    writer.finish();
    nagi_wire::finish_reply(out, start, 1);
    if done.unanswered {
        out.truncate(start);
    }
    if done.close { Outcome::Close } else { Outcome::Reply }
}

/// Runs a find, or a query of the pseudo-collections that described a database before 2.8.
fn find(
    connection: &mut Connection,
    header: &Header,
    query: &Query<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let (db, collection) = split(query.namespace);
    if let Some((db, body)) = legacy_names::command_for(db, collection, query.query) {
        let reply = run(connection, db, body.as_doc(), &[]);
        return write_docs(connection, header, 0, 0, 0, out, &mut |push| push(reply.as_doc()));
    }
    if let Some(list) = legacy_names::catalog_query(db, collection) {
        let reply = run(connection, db, list.as_doc(), &[]);
        let docs = legacy_names::catalog_docs(connection, db, collection, query.query, &reply);
        let push_all = &mut |push: &mut dyn FnMut(Doc<'_>)| {
            docs.iter().for_each(|doc| push(doc.as_doc()));
        };
        return write_docs(connection, header, 0, 0, 0, out, push_all);
    }
    let (body, explain) = find_command(collection, query);
    if explain {
        let body = DocBuf::build(|w| {
            w.put("explain", &body);
            w.put("verbosity", "allPlansExecution");
        });
        let reply = run(connection, db, body.as_doc(), &[]);
        return write_docs(connection, header, 0, 0, 0, out, &mut |push| push(reply.as_doc()));
    }
    let reply = run(connection, db, body.as_doc(), &[]);
    write_batch(connection, header, reply.as_doc(), "firstBatch", 0, out)
}

/// The `find` command for an OP_QUERY, and true if its plan was requested instead of its documents.
fn find_command(collection: &str, query: &Query<'_>) -> (DocBuf, bool) {
    let wrapper =
        query.query.first().is_some_and(|e| {
            e.value().as_doc().is_some() && matches!(e.name(), "$query" | "query")
        }) || query.query.element("$query").is_some();
    let option = |name: &str| match wrapper {
        true => query.query.get(name),
        false => Value::Missing,
    };
    let either = |first: &str, second: &str| match option(first) {
        Value::Missing => option(second),
        value => value,
    };
    let filter = match either("$query", "query") {
        Value::Doc(filter) => filter,
        _ => query.query,
    };
    let count = i64::from(query.number_to_return);
    let has = |flag: u32| query.flags & flag != 0;
    let body = DocBuf::build(|w| {
        w.put("find", collection);
        w.put("filter", filter);
        w.put("sort", either("$orderby", "orderby"));
        if let Some(fields) = query.fields {
            w.put("projection", fields);
        }
        w.put("hint", option("$hint"));
        w.put("min", option("$min"));
        w.put("max", option("$max"));
        for (name, old) in [("returnKey", "$returnKey"), ("showRecordId", "$showDiskLoc")] {
            if option(old).is_truthy() {
                w.put(name, true);
            }
        }
        w.put("comment", option("$comment"));
        w.put("maxTimeMS", option("$maxTimeMS"));
        if query.skip > 0 {
            w.put("skip", i64::from(query.skip));
        }
        // 1 means "one document, then close", as a negative number does.
        if count < 0 || count == 1 {
            w.put("limit", count.abs());
            w.put("singleBatch", true);
        } else if count > 1 {
            w.put("batchSize", count);
        }
        if has(query_flags::TAILABLE) {
            w.put("tailable", true);
            w.put("awaitData", has(query_flags::AWAIT_DATA));
        }
        if has(query_flags::NO_CURSOR_TIMEOUT) {
            w.put("noCursorTimeout", true);
        }
    });
    (body, option("$explain").is_truthy())
}

fn get_more(
    connection: &mut Connection,
    header: &Header,
    more: &GetMore<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let (db, collection) = split(more.namespace);
    let body = DocBuf::build(|w| {
        w.put("getMore", more.cursor_id);
        w.put("collection", collection);
        if more.number_to_return > 0 {
            w.put("batchSize", more.number_to_return);
        }
    });
    let seen = connection.server.clients.cursors.returned(more.cursor_id);
    let reply = run(connection, db, body.as_doc(), &[]);
    write_batch(connection, header, reply.as_doc(), "nextBatch", seen, out)
}

/// Turns the reply of `find` or `getMore` into an OP_REPLY.
fn write_batch(
    connection: &mut Connection,
    header: &Header,
    reply: Doc<'_>,
    batch: &str,
    starting_from: i32,
    out: &mut Vec<u8>,
) -> Outcome {
    if !reply.get("ok").is_truthy() {
        return write_failure(connection, header, reply, out);
    }
    let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
    let id = truncate(cursor.get("id")).unwrap_or(0);
    let docs = cursor.get(batch).as_array().unwrap_or(Array::EMPTY);
    let push_all = &mut |push: &mut dyn FnMut(Doc<'_>)| {
        docs.iter().filter_map(|value| value.as_doc()).for_each(push);
    };
    write_docs(connection, header, 0, id, starting_from, out, push_all)
}

/// Writes `{$err, code}` with the flag QUERY_FAILURE, or only the flag of an unknown cursor.
fn write_failure(
    connection: &mut Connection,
    header: &Header,
    reply: Doc<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let code = truncate(reply.get("code")).unwrap_or(0);
    if code == i64::from(Code::CURSOR_NOT_FOUND.0) {
        let flags = reply_flags::CURSOR_NOT_FOUND;
        return write_docs(connection, header, flags, 0, 0, out, &mut |_| ());
    }
    let doc = DocBuf::build(|w| {
        w.put("$err", reply.get("errmsg"));
        w.put("code", code as i32);
        w.put("ok", 0.0);
    });
    let flags = reply_flags::QUERY_FAILURE;
    write_docs(connection, header, flags, 0, 0, out, &mut |push| push(doc.as_doc()))
}

/// A function that passes each document of a reply to its argument.
type PushAll<'a> = dyn FnMut(&mut dyn FnMut(Doc<'_>)) + 'a;

/// Writes an OP_REPLY with the documents that `push_all` passes.
fn write_docs(
    connection: &mut Connection,
    header: &Header,
    flags: i32,
    cursor_id: i64,
    starting_from: i32,
    out: &mut Vec<u8>,
    push_all: &mut PushAll<'_>,
) -> Outcome {
    let id = connection.reply_id();
    let flags = flags | reply_flags::AWAIT_CAPABLE;
    let to = header.request_id;
    let start = nagi_wire::begin_reply(out, id, to, flags, cursor_id, starting_from);
    let mut count = 0;
    push_all(&mut |doc| {
        out.extend_from_slice(doc.as_bytes());
        count += 1;
    });
    nagi_wire::finish_reply(out, start, count);
    Outcome::Reply
}

fn insert(connection: &mut Connection, message: &Insert<'_>) -> Outcome {
    let (db, collection) = split(message.namespace);
    if collection == "system.indexes" {
        return insert_indexes(connection, db, message);
    }
    let body = DocBuf::build(|w| {
        w.put("insert", collection);
        w.put("ordered", message.flags & write_flags::INSERT_CONTINUE_ON_ERROR == 0);
    });
    let sequence = Sequence { name: "documents", bytes: message.docs.bytes() };
    let reply = run(connection, db, body.as_doc(), &[sequence]);
    keep_outcome(connection, reply.as_doc(), false);
    // getLastError always reports 0 after an insert.
    connection.last_write.count = 0;
    Outcome::NoReply
}

/// Before 2.6 an index was created by inserting its description.
fn insert_indexes(connection: &mut Connection, db: &str, message: &Insert<'_>) -> Outcome {
    for spec in message.docs.clone() {
        let body = legacy_names::create_indexes(db, spec);
        let reply = run(connection, db, body.as_doc(), &[]);
        keep_outcome(connection, reply.as_doc(), false);
        connection.last_write.count = 0;
        if connection.last_write.error.is_some() {
            break;
        }
    }
    Outcome::NoReply
}

fn update(connection: &mut Connection, message: &Update<'_>) -> Outcome {
    let (db, collection) = split(message.namespace);
    let body = DocBuf::build(|w| {
        w.put("update", collection);
        w.array("updates", |updates| {
            updates.doc(|one| {
                one.put("q", message.selector);
                one.put("u", message.update);
                one.put("multi", message.flags & write_flags::UPDATE_MULTI != 0);
                one.put("upsert", message.flags & write_flags::UPDATE_UPSERT != 0);
            });
        });
    });
    let reply = run(connection, db, body.as_doc(), &[]);
    keep_outcome(connection, reply.as_doc(), true);
    Outcome::NoReply
}

fn delete(connection: &mut Connection, message: &Delete<'_>) -> Outcome {
    let (db, collection) = split(message.namespace);
    let limit = i32::from(message.flags & write_flags::DELETE_SINGLE != 0);
    let body = DocBuf::build(|w| {
        w.put("delete", collection);
        w.array("deletes", |deletes| {
            deletes.doc(|one| {
                one.put("q", message.selector);
                one.put("limit", limit);
            });
        });
    });
    let reply = run(connection, db, body.as_doc(), &[]);
    keep_outcome(connection, reply.as_doc(), false);
    Outcome::NoReply
}

/// Keeps the outcome of a write for getLastError.
fn keep_outcome(connection: &mut Connection, reply: Doc<'_>, is_update: bool) {
    let last = &mut connection.last_write;
    *last = Default::default();
    let failed = match reply.get("ok").is_truthy() {
        false => Some(reply),
        true => reply
            .get("writeErrors")
            .as_array()
            .and_then(|errors| errors.iter().last())
            .and_then(|error| error.as_doc()),
    };
    if let Some(error) = failed {
        let code = truncate(error.get("code")).unwrap_or(8) as i32;
        let text = error.get("errmsg").as_str().unwrap_or("unknown error");
        last.error = Some((code, text.to_owned()));
    }
    last.count = truncate(reply.get("n")).unwrap_or(0);
    if is_update {
        let upserted = reply.get("upserted").as_array().and_then(|a| a.iter().next());
        last.upserted = upserted
            .and_then(|v| v.as_doc())
            .map(|d| DocBuf::build(|w| w.put("_id", d.get("_id"))));
        last.updated_existing = Some(last.count > 0 && last.upserted.is_none());
    }
}
