//! `currentOp`: the operations in progress.

use std::sync::Arc;

use nagi_bson::json;
use nagi_lang::expr::ParseCx;
use nagi_lang::filter::Filter;
use nagi_store::{Holder, NODE_ANSWER_BYTES_MAX};

use crate::clock;
use crate::core::command::prelude::*;
use crate::core::cursors::{CursorFacts, OpenCursor};
use crate::core::peers::{self, Own};
use crate::core::server::Server;
use crate::core::txn_number::OpenView;
use crate::metrics::locks::LockUse;
use crate::names::UserName;
use crate::observe::filtering;
use crate::op::{Op, OpView};
use crate::request::is_generic;
use crate::router::SHARD;
use crate::settings::query_settings::ShapeHash;

/// Bytes of an answer to another server beside its operations, and of each operation beside its document.
const OPS_BYTES_LESS: usize = 4096;
const OP_BYTES_MORE: usize = 16;
/// A longer command is truncated to this length, unless the client requests all of it.
const COMMAND_BYTES_SHOWN: usize = 1000;

pub(in crate::commands) static CURRENT_OP: Command = Command {
    facts: Facts {
        name: "currentOp",
        help: "Lists the operations in progress.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::By(access),
    run,
    ..Command::ROW
};

/// Each client may list its own operations.
fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let own = switch(req, "$ownOps")? == Some(Truthy(true));
    Ok(own && asking.user.is_some() || asking.on_cluster(Action::Inprog))
}

/// Reads one of the command's own boolean arguments.
fn switch(req: &Request<'_>, name: &'static str) -> Result<Option<Truthy>> {
    args::read(req.body, "currentOp", name)
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    // All fields except the command's own arguments are a filter on the list.
    let own = ["$all", "$ownOps", "$truncateOps", "$local", "localOps"];
    let filter = DocBuf::build(|w| {
        for element in req.body.iter().skip(1) {
            if !own.contains(&element.name()) && !is_generic(element.name()) {
                w.put(element.name(), element.value());
            }
        }
    });
    let filter = Filter::parse(filter.as_doc(), &mut ParseCx::new())?;
    let local = switch(req, "localOps")? == Some(Truthy(true));
    let shown = Shown {
        idle_connections: switch(req, "$all")? == Some(Truthy(true)),
        own_only: switch(req, "$ownOps")? == Some(Truthy(true)),
        truncated: switch(req, "$truncateOps")? != Some(Truthy(false)),
        ..Shown::DEFAULT
    };
    let ops = match local {
        true => describe_local_ops(cx, shown),
        false => describe_ops(cx, shown)?,
    };
    out.array("inprog", |list| -> Result<()> {
        for op in ops {
            if filtering::matches(Some(&filter), op.as_doc())? {
                list.push_doc(op.as_doc());
            }
        }
        Ok(())
    })?;
    let lock_count = cx.server.upkeep.fsync.count();
    if lock_count > 0 {
        out.put("fsyncLock", true);
        out.put("info", "use db.fsyncUnlock() to terminate the fsync write/snapshot lock");
    }
    Ok(())
}

/// The kinds of operations that are listed, and their form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) idle_connections: bool,
    pub(crate) idle_cursors: bool,
    /// Transactions without a statement in progress.
    pub(crate) idle_sessions: bool,
    /// Only operations of the requesting user.
    pub(crate) own_only: bool,
    /// Long commands are truncated.
    pub(crate) truncated: bool,
    /// Operations have names that all servers know.
    pub(crate) named: bool,
}

impl Shown {
    pub(crate) const DEFAULT: Shown = Shown {
        idle_connections: false,
        idle_cursors: false,
        idle_sessions: true,
        own_only: false,
        truncated: false,
        named: false,
    };

    fn write(self, own: Option<&Own>) -> DocBuf {
        DocBuf::build(|w| {
            w.doc("currentOp", |w| {
                w.put("idleConnections", self.idle_connections);
                w.put("idleCursors", self.idle_cursors);
                w.put("idleSessions", self.idle_sessions);
                w.put("truncateOps", self.truncated);
                Own::write(own, w);
            });
        })
    }

    fn read(question: Doc<'_>) -> Shown {
        let on = |name: &str| question.get(name) == Value::Bool(true);
        Shown {
            idle_connections: on("idleConnections"),
            idle_cursors: on("idleCursors"),
            idle_sessions: on("idleSessions"),
            own_only: false,
            truncated: on("truncateOps"),
            named: true,
        }
    }
}

/// One document per operation, idle connection, transaction and cursor; of all servers that share the data.
///
/// # Errors
/// The end of the client's operation, while other servers answer.
pub(crate) fn describe_ops(cx: &Context<'_>, shown: Shown) -> Result<Vec<DocBuf>> {
    if !cx.server.store.shares_data() {
        return Ok(describe_local_ops(cx, shown));
    }
    let shown = Shown { named: true, ..shown };
    let own = cx.asking().own().filter(|_| shown.own_only);
    let mut docs = describe(cx.server, shown, own.as_ref());
    for told in peers::ask(cx, shown.write(own.as_ref()).as_doc())? {
        match told.answer {
            Some(answer) => docs.extend(peers::listed(&answer, "ops")),
            None => docs.push(describe_silence(&told.host)),
        }
    }
    Ok(docs)
}

/// Those of this server.
pub(crate) fn describe_local_ops(cx: &Context<'_>, shown: Shown) -> Vec<DocBuf> {
    let own = cx.asking().own().filter(|_| shown.own_only);
    describe(cx.server, shown, own.as_ref())
}

/// The answer to another server that asks for the operations of this one.
pub(in crate::commands) fn answer(server: &Server, question: Value<'_>) -> DocBuf {
    let Value::Doc(question) = question else { return DocBuf::new() };
    let docs = describe(server, Shown::read(question), Own::read(question).as_ref());
    DocBuf::build(|w| {
        w.array("ops", |list| {
            let mut left = NODE_ANSWER_BYTES_MAX - OPS_BYTES_LESS;
            for doc in docs {
                let Some(rest) = left.checked_sub(doc.as_bytes().len() + OP_BYTES_MORE) else {
                    list.push_doc(describe_cut(&server.host_and_port()).as_doc());
                    break;
                };
                left = rest;
                list.push_doc(doc.as_doc());
            }
        });
    })
}

/// Stands for the operations of a server that does not answer.
fn describe_silence(host: &str) -> DocBuf {
    describe_gap(host, "the server has not answered in time")
}

/// Stands for those that an answer has no place for.
fn describe_cut(host: &str) -> DocBuf {
    describe_gap(host, "the server has more operations than an answer has place for")
}

fn describe_gap(host: &str, desc: &str) -> DocBuf {
    DocBuf::build(|w| {
        w.put("shard", SHARD);
        w.put("type", "gap");
        w.put("host", host);
        w.put("desc", desc);
        w.put("active", false);
    })
}

/// One document per operation, idle connection, transaction and cursor of this server; of one user, if given.
fn describe(server: &Server, shown: Shown, own: Option<&Own>) -> Vec<DocBuf> {
    let is_own = |user: Option<&UserName>| own.is_none_or(|own| own.is(user));
    let host = server.host_and_port();
    let lifetime = server.settings.params.int("transactionLifetimeLimitSeconds").max(1);
    let lifetime_ms = lifetime.saturating_mul(1000);
    let mut docs = Vec::new();
    let mut open = server.clients.txn_sessions.open_transactions();
    let cursors = server.clients.cursors.busy();
    for op in server.clients.ops.all() {
        if !is_own(op.user().as_ref()) {
            continue;
        }
        match op.view() {
            Some(view) => {
                let same = |txn: &OpenView| Some(txn.session) == view.lsid;
                let at = open.iter().position(same);
                let txn = at.map(|at| open.swap_remove(at));
                let of_op = cursors.iter().find(|(user, ..)| Arc::ptr_eq(user, &op));
                let cursor = of_op.map(|(_, facts, used_ms)| (facts, *used_ms));
                let running =
                    Running { view: &view, shown, txn: txn.as_ref(), cursor, lifetime_ms };
                docs.push(describe_op(&host, &op, Some(running)));
            }
            None if shown.idle_connections => docs.push(describe_op(&host, &op, None)),
            None => {}
        }
    }
    if shown.idle_sessions {
        open.retain(|txn| own.is_none_or(|own| own.digest == txn.session.uid));
        docs.extend(open.iter().map(|txn| describe_idle(&host, txn, lifetime_ms)));
    }
    if shown.idle_cursors {
        server.clients.cursors.visit_idle(&mut |cursor, last_used_ms| {
            if is_own(cursor.owner.as_ref()) {
                docs.push(describe_cursor(&host, cursor, last_used_ms));
            }
        });
    }
    match shown.named {
        true => docs.iter().map(|doc| with_shard(doc.as_doc())).collect(),
        false => docs,
    }
}

fn with_shard(doc: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("shard", SHARD);
        doc.iter().for_each(|element| w.put(element.name(), element.value()));
    })
}

fn describe_cursor(host: &str, cursor: &OpenCursor, last_used_ms: i64) -> DocBuf {
    DocBuf::build(|w| {
        w.put("type", "idleCursor");
        w.put("host", host);
        w.put("ns", cursor.namespace.as_str());
        if let Some(session) = &cursor.session {
            session.write("lsid", w);
        }
        w.doc("cursor", |c| {
            c.put("cursorId", cursor.id);
            write_cursor(&cursor.facts(), last_used_ms, c);
        });
    })
}

fn write_cursor(cursor: &CursorFacts, last_used_ms: i64, out: &mut DocWriter<'_>) {
    out.put("createdDate", Value::DateTime(cursor.created_ms));
    out.put("lastAccessDate", Value::DateTime(last_used_ms));
    out.put("nDocsReturned", cursor.returned_count as i64);
    out.put("nBatchesReturned", cursor.batch_count as i64);
    out.put("noCursorTimeout", cursor.no_timeout);
    out.put("tailable", cursor.tailable);
    out.put("awaitData", cursor.await_data);
    out.put("originatingCommand", &*cursor.originating);
    out.put("planSummary", &*cursor.plan_summary);
}

/// One document per idle cursor, of all users.
pub(crate) fn list_cursors(server: &Server) -> Vec<DocBuf> {
    let mut docs = Vec::new();
    server.clients.cursors.visit_idle(&mut |cursor, last_used_ms| {
        docs.push(DocBuf::build(|w| {
            w.put("cursorId", cursor.id);
            w.put("ns", cursor.namespace.as_str());
            if let Some(session) = &cursor.session {
                session.write("lsid", w);
            }
            write_cursor(&cursor.facts(), last_used_ms, w);
        }));
    });
    docs
}

/// A transaction without a statement in progress.
fn describe_idle(host: &str, txn: &OpenView, lifetime_ms: i64) -> DocBuf {
    DocBuf::build(|w| {
        w.put("type", "idleSession");
        w.put("host", host);
        w.put("desc", "inactive transaction");
        w.put("client", &*txn.client.remote);
        w.put("connectionId", txn.client.connection_id);
        if let Some(client) = &txn.client.metadata {
            if !client.app_name.is_empty() {
                w.put("appName", client.app_name.as_str());
            }
            w.put("clientMetadata", &client.doc);
        }
        txn.session.write("lsid", w);
        write_transaction(txn, lifetime_ms, w);
        w.put("waitingForLock", false);
        w.put("active", false);
        w.doc("locks", |_| ());
    })
}

/// `lifetime_ms`: the time after which a transaction is aborted.
fn write_transaction(txn: &OpenView, lifetime_ms: i64, w: &mut DocWriter<'_>) {
    w.doc("transaction", |w| {
        w.doc("parameters", |w| {
            w.put("txnNumber", txn.number);
            w.put("autocommit", false);
            if let Some(level) = &txn.level {
                w.doc("readConcern", |w| w.put("level", &**level));
            }
        });
        let started_ms = clock::wall_ms() - (txn.open_micros / 1000) as i64;
        let iso = |ms: i64| {
            let mut text = String::new();
            clock::write_iso(&mut text, ms);
            text
        };
        w.put("startWallClockTime", iso(started_ms).as_str());
        w.put("timeOpenMicros", txn.open_micros as i64);
        w.put("timeActiveMicros", txn.active_micros as i64);
        w.put("timeInactiveMicros", txn.open_micros.saturating_sub(txn.active_micros) as i64);
        w.put("expiryTime", iso(started_ms.saturating_add(lifetime_ms)).as_str());
    });
}

/// What an operation in progress has.
struct Running<'a> {
    view: &'a OpView,
    shown: Shown,
    /// The transaction that it belongs to.
    txn: Option<&'a OpenView>,
    /// The cursor whose next batch it fills, and when it began.
    cursor: Option<(&'a CursorFacts, i64)>,
    /// The time after which a transaction is aborted.
    lifetime_ms: i64,
}

fn describe_op(host: &str, op: &Arc<Op>, running: Option<Running<'_>>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("type", "op");
        w.put("host", host);
        w.put("desc", op.description.as_str());
        w.put("connectionId", op.connection_id);
        w.put("client", op.remote.as_str());
        if let Some(client) = op.client() {
            if !client.app_name.is_empty() {
                w.put("appName", client.app_name.as_str());
            }
            w.put("clientMetadata", &client.doc);
        }
        w.put("active", running.is_some());
        if let Some(running) = running {
            write_running(host, op, &running, w);
        }
    })
}

/// Writes the fields that an operation has and an idle connection does not have.
fn write_running(host: &str, op: &Op, running: &Running<'_>, w: &mut DocWriter<'_>) {
    let Running { view, shown, txn, .. } = *running;
    let mut started = String::new();
    clock::write_iso(&mut started, view.started_ms);
    w.put("currentOpTime", started.as_str());
    w.array("effectiveUsers", |users| {
        if let Some(user) = op.user() {
            users.doc(|doc| user.write("user", doc));
        }
    });
    w.put("isFromUserConnection", true);
    w.put("threaded", true);
    // Tools expect int32; the ids are below 2^31.
    match shown.named {
        true => w.put("opid", peers::operation_name(host, view.id).as_str()),
        false => w.put("opid", view.id as i32),
    }
    if let Some(lsid) = &view.lsid {
        lsid.write("lsid", w);
    }
    if let Some(txn) = txn {
        write_transaction(txn, running.lifetime_ms, w);
    }
    w.put("secs_running", (view.running_micros / 1_000_000) as i64);
    w.put("microsecs_running", view.running_micros as i64);
    w.put("op", view.op);
    w.put("ns", view.namespace.as_str());
    w.put("redacted", false);
    match &view.command {
        Some(command) if shown.truncated && command.as_doc().len() > COMMAND_BYTES_SHOWN => {
            w.put("command", &cut(command.as_doc()));
        }
        Some(command) => w.put("command", command),
        None => {}
    }
    let whole =
        view.command.as_ref().filter(|command| command.as_doc().get("$truncated").is_missing());
    if let (Some(command), Some((db, _))) = (whole, view.namespace.split_once('.'))
        && let Some(hash) = ShapeHash::of(db, command.as_doc())
    {
        w.put("queryShapeHash", hash.hex().as_str());
    }
    if let Some((cursor, used_ms)) = running.cursor {
        write_used_cursor(cursor, used_ms, view.id, w);
    }
    if !view.plan_summary.is_empty() {
        w.put("planSummary", view.plan_summary.as_str());
    }
    if !view.message.is_empty() {
        w.put("msg", view.message.as_str());
    }
    if let Some((done, total)) = view.progress {
        w.doc("progress", |doc| {
            doc.put("done", done);
            doc.put("total", total);
        });
    }
    if view.keys_examined + view.docs_examined > 0 {
        w.put("keysExamined", view.keys_examined as i64);
        w.put("docsExamined", view.docs_examined as i64);
    }
    if view.write_conflicts > 0 {
        w.put("writeConflicts", view.write_conflicts as i64);
    }
    write_waits(view, w);
}

/// Writes what an operation holds and waits for.
fn write_waits(view: &OpView, w: &mut DocWriter<'_>) {
    w.put("numYields", i32::try_from(view.yields).unwrap_or(i32::MAX));
    w.put("killPending", view.kill_pending);
    w.doc("locks", |w| match view.awaited_lock {
        Some((mode, _)) => LockUse::write_awaited(mode, w),
        None => view.locks.write_held(w),
    });
    w.put("waitingForLock", view.awaited_lock.is_some());
    match view.waiting_for {
        Some(Holder::Transaction) => w.put("waitingForTransaction", true),
        Some(Holder::Write) => w.put("waitingForWrite", true),
        None => {}
    }
    if view.waiting_for_disk {
        w.put("waitingForDisk", true);
    }
    w.doc("lockStats", |w| match view.awaited_lock {
        Some((mode, micros)) => view.locks.write_awaiting(mode, micros, w),
        None => view.locks.write(w),
    });
    w.put("waitingForFlowControl", false);
    w.doc("flowControlStats", |_| ());
    match view.queued_micros {
        Some(micros) => w.doc("currentQueue", |w| {
            w.put("name", "execution");
            w.put("timeQueuedMicros", micros as i64);
        }),
        None => w.put("currentQueue", Value::Null),
    }
}

/// Writes the cursor whose next batch the operation `id` fills.
fn write_used_cursor(cursor: &CursorFacts, used_ms: i64, id: u64, w: &mut DocWriter<'_>) {
    w.doc("cursor", |w| {
        w.put("cursorId", cursor.id);
        write_cursor(cursor, used_ms, w);
        w.put("operationUsingCursorId", id as i64);
    });
}

/// A long command as truncated text. Its comment stays complete.
fn cut(command: Doc<'_>) -> DocBuf {
    let mut text = json::to_relaxed(command);
    text.truncate(text.floor_char_boundary(COMMAND_BYTES_SHOWN));
    DocBuf::build(|w| {
        w.put("$truncated", text.as_str());
        let comment = command.get("comment");
        if !comment.is_missing() {
            w.put("comment", comment);
        }
    })
}
