//! Runs one command: finds its row, checks the request in a fixed order, runs the row's function, accounts for the
//! outcome.
//!
//! [`handle`](super::handle) calls [`run`] for OP_MSG, and [`legacy`](super::legacy) for the commands to which it
//! translates older opcodes.
//!
//! ```text
//!  name -> row -> generic arguments                                       begin
//!    -> database name -> API version                                      check
//!    -> help text, and nothing else                                       write_help
//!    -> access -> session
//!    -> transaction number -> write concern, read concern -> member role  check
//!    -> operation shown in currentOp, deadline                            begin_op
//!    -> fail point                                                        run_with_faults
//!    -> transaction or snapshot bound                                     concerned_run
//!    -> ticket -> the row's function                                      guarded_run
//!    -> ok or error, cluster times                                        end_reply
//!    -> counters, log of slow operations, profile                         account
//! ```
//!
//! Invariants
//! - On an error everything written so far is discarded, and the reply is only the error: code, name, message, further
//!   fields.
//! - A panic in a command is an InternalError of that request only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::{DocWriter, Value};
use nagi_budget::{Metering, meter};
use nagi_error::{Code, Error, Result, bail};

use crate::clock;
use crate::commands;
use crate::core::access;
use crate::core::command::{Context, Done, Effects};
use crate::core::config_views;
use crate::core::connection::Connection;
use crate::core::server::Server;
use crate::core::snapshots;
use crate::core::txn_number;
use crate::fail_points::Fault;
use crate::fsync::Writer;
use crate::message_memory::Before;
use crate::metrics::{Gauge, LatencyKind, OpKind};
use crate::observe::audited::{self, Outcome};
use crate::observe::slow::{self, Finished};
use crate::replica::ReplicaSet;
use crate::request::{Facts, Request};
use crate::transport::accounting::account;
use crate::transport::begin::begin;
use crate::transport::errors::write_error;
use crate::transport::write_concern::{unsatisfied, with_concern, write_concern_error};

pub(crate) use crate::transport::begin::Incoming;

/// Runs one command and writes its whole reply document into `out`.
pub(crate) fn run(
    server: &Arc<Server>,
    connection: &mut Connection,
    incoming: &Incoming<'_>,
    out: &mut DocWriter<'_>,
) -> Done {
    let op = connection.op.clone();
    let started = clock::now();
    // Dropped after everything that the command allocated, except its reply.
    let _metering = Metering::begin(server.store.budget());
    server.metrics.request_count.increment();
    let begun = begin(connection, server, incoming);
    let ((request, row), begin_error) = match begun {
        Ok((request, _)) if request.generic.help => return write_help(request.command, out),
        Ok(begun) => (begun, None),
        Err(refused) => match *refused {
            (Some(begun), error) => (begun, Some(error)),
            (None, error) => {
                server.metrics.unknown_commands.increment();
                write_error(server, &error, None, out);
                return Done::default();
            }
        },
    };
    let command = request.command;
    // Counted before it is shown: a shutdown waits for every read and write that `$currentOp` shows.
    server.metrics.active_requests.up();
    let active = server.metrics.active_clients(command.latency);
    active.map(Gauge::up);
    begin_op(server, &op, &request, started);
    let limit = time_limit(server, connection, started, &request);
    // Other cursors refuse a limit.
    let awaits = command.counts_as == OpKind::GetMore;
    let deadline = prepare_waits(&op, command, limit.filter(|_| !awaits));
    let mut cx = Context {
        server,
        command: row,
        connection,
        op: &op,
        started,
        deadline,
        await_until: limit.filter(|_| awaits),
        pool: server.clients.tickets.pool(&request),
        ticket: None,
        done: Done::default(),
        scope: None,
        writer: Writer::New,
        bound: None,
        at_cluster_time: None,
        failed: false,
        effects: Effects::default(),
        before: Before::begin(out),
        on_trial: None,
    };
    let result = run_audited(&mut cx, &request, begin_error, out);
    let mut done = settle(&mut cx, &result);
    // An error is the last reply of an exhaust stream.
    done.stream &= result.is_ok();
    server.metrics.active_requests.down();
    active.map(Gauge::down);
    end_reply(&cx, &request, &result, out);
    let paused_micros = std::mem::take(&mut cx.connection.paused_micros);
    let finished = Finished {
        op: &op,
        request: &request,
        statement: None,
        error: result.as_ref().err(),
        done: &done,
        micros: clock::micros_since(started).saturating_sub(paused_micros),
        reply_bytes: out.len(),
    };
    account(server, &finished);
    if server.engines.is_some() {
        nagi_js::release();
    }
    op.end();
    done
}

/// The statistics of a request that has ended.
fn settle(cx: &mut Context<'_>, result: &Result<()>) -> Done {
    let mut done = std::mem::take(&mut cx.done);
    cx.effects.settle(&mut done);
    if result.is_err() {
        // Commands report their work when they succeed.
        done.examined_at_least(cx.op.examined());
    }
    done
}

/// The reply to `help: true`, whatever else the request has. As in MongoDB such a request is no operation: it is
/// neither counted nor logged.
fn write_help(command: &Facts, out: &mut DocWriter<'_>) -> Done {
    out.put("help", format!("help for: {} {}", command.name, command.help).as_str());
    out.put("ok", 1.0);
    Done::default()
}

/// Waits for memory, also those of the engine, end with the operation at its deadline, which is returned. Writes wait
/// once for all copies of a document.
fn prepare_waits(
    op: &Arc<crate::op::Op>,
    command: &Facts,
    deadline: Option<Instant>,
) -> Option<Instant> {
    op.watch_waits(deadline);
    if command.latency == LatencyKind::Write {
        meter::expect_copies(nagi_query::CHANGE_COPIES + 1);
    }
    deadline
}

/// Runs the command, unless a check has failed, and records the request if there is an audit log.
fn run_audited(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    refused: Option<Error>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let ran = refused.is_none();
    let result = match refused {
        Some(error) => Err(txn_number::add_labels_unstarted(request, error)),
        None => run_with_faults(cx, request, out),
    };
    // Restore tools write the documents of users directly into the collection.
    let changed: Vec<&str> = cx.connection.store.client().take_changed_users().collect();
    if !changed.is_empty() {
        cx.server.auth.changed();
    }
    if cx.server.audit.is_some() {
        let error = result.as_ref().err();
        let outcome = Outcome { request, row: cx.command, error, ran, changed_users: &changed };
        audited::observe(cx.connection, &outcome);
    }
    result
}

/// Writes the end of every reply: `ok` or the error, and the cluster times.
fn end_reply(
    cx: &Context<'_>,
    request: &Request<'_>,
    result: &Result<()>,
    out: &mut DocWriter<'_>,
) {
    let server = cx.server;
    match result {
        Ok(()) => out.put("ok", 1.0),
        Err(error) => write_error(server, error, Some(request), out),
    }
    let tells = server.replica.as_ref().is_none_or(ReplicaSet::is_member);
    if let Some(clock) = server.cluster_clock().filter(|_| tells) {
        clock.write_times(cx.connection.store.client().committed(), out);
    }
}

/// Registers the request for currentOp, the log of slow operations and the profile.
fn begin_op(server: &Server, op: &crate::op::Op, request: &Request<'_>, started: Instant) {
    let command = request.command;
    let shown = request.shown();
    op.begin(server.clients.ops.next_id(), started, slow::op_name(command), shown.as_doc());
    note_request(op, request);
    op.set_profiled(server.settings.profile.level(request.db) > 0);
    // The result of a read is useless once its client has disconnected; a write takes effect regardless.
    op.watch_peer(command.latency == LatencyKind::Read, started);
}

fn note_request(op: &crate::op::Op, request: &Request<'_>) {
    let collection = match request.body.first().map(|e| e.value()) {
        Some(Value::String(name)) if request.command.on_collection => name,
        _ => "$cmd",
    };
    op.set_namespace(request.db, collection);
    if let Some(lsid) = request.generic.lsid {
        op.set_lsid(lsid);
    }
}

/// When the `maxTimeMS` of a request has passed. The default for reads is not for users who may bypass it.
fn time_limit(
    server: &Server,
    connection: &Connection,
    started: Instant,
    request: &Request<'_>,
) -> Option<Instant> {
    let reads = request.command.latency == LatencyKind::Read
        && request.command.counts_as != OpKind::GetMore;
    let default = || match server.settings.cluster_params.read_time_ms() {
        0 => 0,
        _ if access::bypasses_default_time(connection, server) => 0,
        ms => ms,
    };
    let ms = match request.generic.max_time_ms {
        0 if reads => default(),
        ms => ms,
    };
    let ms = match connection.read_time_max.map(|time| time.as_millis() as i64) {
        Some(most) if request.command.latency == LatencyKind::Read => match ms {
            0 if reads => most,
            ms => ms.min(most),
        },
        _ => ms,
    };
    match ms {
        0 => None,
        _ if server.settings.fail_points.never_times_out() => None,
        ms => started.checked_add(Duration::from_millis(ms as u64)),
    }
}

/// Runs the command, unless a fail point injects a fault.
fn run_with_faults(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let app_name = cx.connection.client.as_ref().map_or("", |client| client.app_name.as_str());
    match cx.server.settings.fail_points.fault(request, app_name) {
        None => {
            let run = concerned_run(cx, request, out);
            run.map_err(|error| {
                let error = txn_number::add_labels(request, error);
                txn_number::add_stream_labels(cx.done.change_stream, error)
            })
        }
        Some(Fault::Error { error, labels_given: true }) => Err(error),
        Some(Fault::Error { error, .. }) => {
            let streams = commands::opens_change_stream(request);
            let error = txn_number::add_labels(request, error);
            Err(txn_number::add_stream_labels(streams, error))
        }
        Some(Fault::CloseConnection) => {
            cx.done.close = true;
            cx.done.unanswered = true;
            Ok(())
        }
        Some(Fault::WriteConcern(error)) => {
            concerned_run(cx, request, out)?;
            write_concern_error(cx, request, &error, out);
            Ok(())
        }
    }
}

/// Runs the command, bound to its transaction or snapshot, and adds the `writeConcernError` if its write concern cannot
/// be satisfied.
fn concerned_run(
    cx: &mut Context<'_>,
    request: &Request<'_>,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let server = cx.server;
    let snapshot =
        request.command.snapshot_read && request.generic.read_concern.level == Some("snapshot");
    match (request.generic.txn_number, server.cluster_clock()) {
        (Some(_), _) => txn_number::run(cx, request, out, guarded_run)?,
        (None, Some(_)) if config_views::are_read(server, request) => {
            config_views::run(cx, request, out, guarded_run)?;
        }
        (None, Some(clock)) if snapshot => {
            snapshots::run(cx, request, clock, out, guarded_run)?;
        }
        (None, _) => {
            guarded_run(cx, request, out).map_err(|error| with_concern(cx, request, error))?;
        }
    }
    if !cx.server.is_replicated() || !request.command.write {
        return Ok(());
    }
    if let Some(error) = unsatisfied(cx.server, request) {
        write_concern_error(cx, request, &error, out);
    }
    Ok(())
}

/// Runs the command's function with a ticket; a panic becomes an error of this request.
fn guarded_run(cx: &mut Context<'_>, request: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let name = request.command.name;
    let run = cx.command.run;
    cx.take_ticket()?;
    let result = catch_unwind(AssertUnwindSafe(|| run(cx, request, out)));
    cx.ticket = None;
    match result {
        Ok(Err(error))
            if matches!(error.code(), Code::EXCEEDED_MEMORY_LIMIT | Code::INTERRUPTED) =>
        {
            // A wait for memory or for another machine may have been interrupted where only the engine could report it.
            cx.check()?;
            Err(error)
        }
        Ok(result) => result.and_then(|()| not_refused()),
        // A comparison of texts was refused memory and returned an arbitrary order; contradictory orders may cause a
        // panic.
        Err(_) if meter::is_refusal_pending() => not_refused(),
        Err(panic) => {
            let text = panic_text(&*panic);
            log::error!(target: "COMMAND", id = 9_000_001, command = name, reason = text;
                "A command panicked");
            Err(Error::bug(format!("{name} failed: {text}")))
        }
    }
}

/// # Errors
/// 146 if the request was refused memory at a point where it could not fail: its result is invalid.
fn not_refused() -> Result<()> {
    if meter::is_refusal_pending() {
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "Exceeded memory limit: comparing long texts needs more memory than the server has left"
        );
    }
    Ok(())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "unknown panic",
    }
}
