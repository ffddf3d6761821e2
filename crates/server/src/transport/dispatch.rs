//! Runs one command: finds its row, checks the request in a fixed order, runs the row's function, accounts for the
//! outcome.
//!
//! [`handle`](super::handle) calls [`run`] for OP_MSG, and [`legacy`](super::legacy) for the commands to which it
//! translates older opcodes.
//!
//! ```text
//!  name -> row -> generic arguments                                       begin
//!    -> database name -> API version -> access -> session
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

use nagi_bson::{Doc, DocBuf, DocWriter, Value};
use nagi_budget::{Metering, meter};
use nagi_error::{Code, Error, Result, bail, err};

use crate::auth::Action;
use crate::clock;
use crate::commands;
use crate::core::access::{self, Asking};
use crate::core::command::{Command, Context, Done, Effects};
use crate::core::connection::Connection;
use crate::core::server::Server;
use crate::core::snapshots;
use crate::core::txn_number;
use crate::fail_points::Fault;
use crate::interruption::interruption;
use crate::message_memory::Before;
use crate::metrics::read_concerns::Asked;
use crate::metrics::{Gauge, LatencyKind, Metrics, OpKind};
use crate::observe::audited::{self, Outcome};
use crate::observe::slow::{self, Finished};
use crate::observe::spans;
use crate::replica::{ReplicaSet, Role};
use crate::request::concern::WriteConcern;
use crate::request::{Facts, Generic, Protocol, Request, Sequence};
use crate::settings::params;
use crate::transport::used_operators;

/// A command as it was read from the wire.
pub(crate) struct Incoming<'a> {
    /// The database; `None` if the body's `$db` names it.
    pub(crate) db: Option<&'a str>,
    pub(crate) body: Doc<'a>,
    pub(crate) sequences: &'a [Sequence<'a>],
    pub(crate) protocol: Protocol,
    pub(crate) exhaust_allowed: bool,
}

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
        bound: None,
        at_cluster_time: None,
        failed: false,
        effects: Effects::default(),
        before: Before::begin(out),
        on_trial: None,
    };
    let result = run_audited(&mut cx, &request, begin_error, out);
    let mut done = std::mem::take(&mut cx.done);
    cx.effects.settle(&mut done);
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
    if let Some(replica) = &server.replica {
        replica.write_times(cx.connection.store.client().committed(), out);
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

type Found<'a> = (Request<'a>, &'static Command);
type Begun<'a> = std::result::Result<Found<'a>, Box<(Option<Found<'a>>, Error)>>;

/// Finds the row and reads the generic arguments.
fn begin<'a>(connection: &mut Connection, server: &Server, incoming: &Incoming<'a>) -> Begun<'a> {
    connection.store.client().begin_request();
    let body = incoming.body;
    let db = match database(incoming) {
        Ok(db) => db,
        Err(error) => return Err(Box::new((None, error))),
    };
    let Some(first) = body.first() else {
        return Err(Box::new((None, err!(Code::COMMAND_NOT_FOUND, "no such command: ''"))));
    };
    let Some(command) = commands::find(first.name()) else {
        let name = first.name();
        return Err(Box::new((None, err!(Code::COMMAND_NOT_FOUND, "no such command: '{name}'"))));
    };
    let mut request = Request {
        command: &command.facts,
        name: first.name(),
        db,
        body,
        sequences: incoming.sequences,
        generic: Generic::default(),
        protocol: incoming.protocol,
        exhaust_allowed: incoming.exhaust_allowed,
    };
    let checked = Generic::parse(command, body).and_then(|generic| {
        request.generic = generic;
        check(connection, server, &mut request, command)
    });
    match checked {
        Ok(()) => Ok((request, command)),
        Err(error) => Err(Box::new((Some((request, command)), error))),
    }
}

fn database<'a>(incoming: &Incoming<'a>) -> Result<&'a str> {
    if let Some(db) = incoming.db {
        return Ok(db);
    }
    match incoming.body.get("$db") {
        Value::String(db) => Ok(db),
        Value::Missing => bail!(Code::Location(40571), "OP_MSG requests require a $db argument"),
        other => bail!(
            Code::TYPE_MISMATCH,
            "BSON field 'OP_MSG.$db' is the wrong type '{}', expected type 'string'",
            other.kind().name()
        ),
    }
}

/// The checks before a run, in MongoDB's order.
fn check(
    connection: &mut Connection,
    server: &Server,
    request: &mut Request<'_>,
    row: &Command,
) -> Result<()> {
    check_access(connection, server, request, row)?;
    txn_number::check_before_login(request)?;
    find_session(connection, server, &mut request.generic)?;
    let (command, generic) = (request.command, &request.generic);
    txn_number::check(request, server.replica.is_some())?;
    if let Some(concern) = &generic.write_concern {
        if !command.write {
            bail!(Code::INVALID_OPTIONS, "Command {} does not support writeConcern", command.name);
        }
        match server.replica {
            Some(_) => concern.check_member()?,
            None => concern.check_standalone()?,
        }
    }
    if generic.autocommit.is_none() {
        let replicated = server.replica.is_some();
        generic.read_concern.check(command, replicated)?;
    }
    if server.is_stopping() && !command.before_login {
        return Err(interruption(Code::INTERRUPTED_AT_SHUTDOWN));
    }
    match &server.replica {
        Some(replica) => {
            gossip(connection, replica, request)?;
            check_member(replica, request)
        }
        None => Ok(()),
    }
}

/// The database's name, the API version, and the access rule of the row.
fn check_access(
    connection: &mut Connection,
    server: &Server,
    request: &Request<'_>,
    row: &Command,
) -> Result<()> {
    let command = request.command;
    check_db_name(request.db)?;
    if command.test_only && !server.settings.params.bool("enableTestCommands") {
        bail!(Code::COMMAND_NOT_FOUND, "no such command: '{}'", request.name);
    }
    check_api(server, request)?;
    if command.admin_only && request.db != "admin" {
        bail!(Code::UNAUTHORIZED, "{} may only be run against the admin database.", command.name);
    }
    access::check(connection, server, request, &row.access)
}

/// Finds the session that the request names, and records its use. A client that has to log in and has not (its command
/// needs no login, or it makes the first user) has no user whose session it could be: its `lsid` and the fields that
/// need one are ignored, as in MongoDB.
fn find_session(
    connection: &mut Connection,
    server: &Server,
    generic: &mut Generic<'_>,
) -> Result<()> {
    if server.auth.is_enabled() && connection.login.is_none() {
        generic.ignore_session();
        return Ok(());
    }
    let Some(given) = &generic.given_session else { return Ok(()) };
    let session = Asking::new(connection).session(given, None)?;
    connection.touch_session(&session, clock::wall_ms())?;
    generic.lsid = Some(session);
    Ok(())
}

/// Adopts the cluster time that a client has seen. With authorization only privileged clients may move the time
/// forward: it never goes back, so one of them could make the times of all later changes meaningless. What the server
/// itself has told its clients is never ahead.
fn gossip(connection: &Connection, replica: &ReplicaSet, request: &Request<'_>) -> Result<()> {
    match request.generic.cluster_time {
        Some(time) if Asking::new(connection).on_cluster(Action::AdvanceClusterTime) => {
            replica.clock.observe(time)
        }
        _ => Ok(()),
    }
}

/// Checks that apply only to members of a replica set: their role, and times that clients wait for.
fn check_member(replica: &ReplicaSet, request: &Request<'_>) -> Result<()> {
    let (command, generic) = (request.command, &request.generic);
    if let Some(time) = generic.read_concern.after_cluster_time {
        replica.read_after(time)?;
    }
    if command.before_login || request.db == "local" {
        return Ok(());
    }
    // aggregate may write, but it usually only reads.
    let writes = command.write && !command.read_concern;
    match replica.role() {
        Role::Primary => Ok(()),
        _ if writes => bail!(Code::NOT_WRITABLE_PRIMARY, "not primary"),
        Role::Startup if command.on_collection => {
            bail!(Code::NOT_PRIMARY_OR_SECONDARY, "node is not in primary or recovering state")
        }
        Role::Secondary if command.on_collection && !generic.secondary_ok => {
            bail!(Code::NOT_PRIMARY_NO_SECONDARY_OK, "not primary and secondaryOk=false")
        }
        _ => Ok(()),
    }
}

fn check_db_name(db: &str) -> Result<()> {
    // A `$` is refused where a namespace is built from the name: commands without a namespace accept it.
    let bad = |c: char| matches!(c, '/' | '\\' | '.' | ' ' | '"' | '\0');
    if db.is_empty() || db.len() > 63 || db.contains(bad) {
        bail!(Code::INVALID_NAMESPACE, "Invalid database name: '{db}'");
    }
    Ok(())
}

fn check_api(server: &Server, request: &Request<'_>) -> Result<()> {
    const REQUIRED: usize = params::position("requireApiVersion");
    let generic = &request.generic;
    match generic.api_version {
        None if generic.api_strict || generic.api_deprecation_errors => bail!(
            Code::API_VERSION_ERROR,
            "Provided {} without passing apiVersion",
            if generic.api_strict { "apiStrict" } else { "apiDeprecationErrors" }
        ),
        None if server.settings.params.number(REQUIRED) != 0 && !request.command.before_login => {
            bail!(
                Code::Location(498_870),
                "The apiVersion parameter is required, please configure your MongoClient's API version"
            )
        }
        None | Some("1") => {}
        Some(_) => bail!(Code::API_VERSION_ERROR, "API version must be \"1\""),
    }
    if generic.api_strict && !request.command.api_v1 {
        bail!(
            Code::API_STRICT_ERROR,
            "Provided apiStrict:true, but the command {} is not in API Version 1. Information on \
             supported commands and migrations in API Version 1 can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api",
            request.command.name
        );
    }
    Ok(())
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

fn write_concern_error(
    cx: &Context<'_>,
    request: &Request<'_>,
    error: &DocBuf,
    out: &mut DocWriter<'_>,
) {
    out.put("writeConcernError", error);
    let code = crate::number::truncate(error.get("code")).and_then(|code| i32::try_from(code).ok());
    let code = Code(code.unwrap_or(0));
    if let Some(label) = txn_number::write_concern_label(request, code) {
        out.array("errorLabels", |labels| labels.push(label));
    }
    if tells_topology(cx.server, code) {
        cx.server.identity.topology.write(out);
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
    match (request.generic.txn_number, &server.replica) {
        (Some(_), _) => txn_number::run(cx, request, out, guarded_run)?,
        (None, Some(replica)) if snapshot => {
            snapshots::run(cx, request, replica, out, guarded_run)?;
        }
        (None, _) => {
            guarded_run(cx, request, out).map_err(|error| with_concern(cx, request, error))?;
        }
    }
    if cx.server.replica.is_none() || !request.command.write {
        return Ok(());
    }
    if let Some(error) = unsatisfied(cx.server, request) {
        write_concern_error(cx, request, &error, out);
    }
    Ok(())
}

/// The `writeConcernError` of a request whose write concern (its own or the default) this member cannot satisfy.
fn unsatisfied(server: &Server, request: &Request<'_>) -> Option<DocBuf> {
    let default = server.settings.rw_defaults.write_concern();
    let (concern, provenance) = match (&request.generic.write_concern, &default) {
        (Some(concern), _) => (concern, "clientSupplied"),
        // The default does not apply to commands that only may write (aggregate).
        (None, Some(default)) if !request.command.read_concern => (default, "customDefault"),
        (None, _) => return None,
    };
    let (code, text) = concern.unsatisfiable()?;
    Some(DocBuf::build(|w| {
        w.put("code", code.0);
        w.put("codeName", code.name().as_ref());
        w.put("errmsg", text.as_str());
        w.doc("errInfo", |w| {
            w.doc("writeConcern", |w| {
                concern.write(w);
                w.put("provenance", provenance);
            });
        });
    }))
}

/// Adds the `writeConcernError` to the error of a command that ran and failed on a member, because it may have written
/// before it failed. A command that could not be parsed has not run.
fn with_concern(cx: &Context<'_>, request: &Request<'_>, error: Error) -> Error {
    const UNPARSED: &[Code] = &[
        Code::IDL_UNKNOWN_FIELD,
        Code::IDL_FAILED_TO_PARSE,
        Code::IDL_DUPLICATE_FIELD,
        Code::TYPE_MISMATCH,
        Code::INVALID_NAMESPACE,
    ];
    let ran = request.command.write && !UNPARSED.contains(&error.code());
    let concern = unsatisfied(cx.server, request);
    let Some(concern) = concern.filter(|_| ran && cx.server.replica.is_some()) else {
        return error;
    };
    let info = DocBuf::build(|w| {
        if let Some(info) = error.info() {
            w.extend(info.as_doc());
        }
        w.put("writeConcernError", &concern);
    });
    error.with_info(info)
}

/// Runs the command's function with a ticket; a panic becomes an error of this request.
fn guarded_run(cx: &mut Context<'_>, request: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let name = request.command.name;
    let run = cx.command.run;
    cx.take_ticket()?;
    let result = catch_unwind(AssertUnwindSafe(|| run(cx, request, out)));
    cx.ticket = None;
    match result {
        Ok(Err(error)) if error.code() == Code::EXCEEDED_MEMORY_LIMIT => {
            // A wait for memory may have been interrupted where only the engine could report it.
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

/// Replaces everything written so far by the error document.
pub(crate) fn write_error(
    server: &Arc<Server>,
    error: &Error,
    request: Option<&Request<'_>>,
    out: &mut DocWriter<'_>,
) {
    out.clear();
    out.put("ok", 0.0);
    out.put("errmsg", error.message());
    out.put("code", error.code().0);
    out.put("codeName", error.code().name().as_ref());
    if let Some(info) = error.info() {
        out.extend(info.as_doc());
    }
    if !error.labels().is_empty() {
        out.array("errorLabels", |labels| {
            error.labels().iter().for_each(|label| labels.push(*label));
        });
    }
    if tells_topology(server, error.code()) {
        server.identity.topology.write(out);
    }
    if error.code() == Code::INTERNAL_ERROR {
        server.metrics.asserts.regular.increment();
        let name = request.map_or("", |r| r.command.name);
        log::error!(target: "COMMAND", id = 9_000_002, command = name, error = error.message();
            "Internal error");
    } else {
        server.metrics.asserts.user.increment();
    }
}

/// Returns true for errors of a member after which a driver refreshes its view of the server, unless it already knows
/// the `topologyVersion` in the reply. The shutdown codes count only while the server stops; otherwise a fail point
/// injected them.
fn tells_topology(server: &Server, code: Code) -> bool {
    server.replica.is_some()
        && match code {
            Code::NOT_WRITABLE_PRIMARY
            | Code::NOT_PRIMARY_NO_SECONDARY_OK
            | Code::NOT_PRIMARY_OR_SECONDARY
            | Code::PRIMARY_STEPPED_DOWN
            | Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE => true,
            Code::INTERRUPTED_AT_SHUTDOWN | Code::SHUTDOWN_IN_PROGRESS => {
                server.is_stopping() || server.quiesce_remaining().is_some()
            }
            _ => false,
        }
}

/// Adds a request's document counts to the metrics. No other code does this: a command only fills its [`Done`].
fn count_documents(metrics: &Metrics, done: &Done) {
    let counts = [
        (&metrics.documents_inserted, done.inserted.unwrap_or(0) + done.upserted.unwrap_or(0)),
        (&metrics.documents_updated, done.matched.unwrap_or(0)),
        (&metrics.documents_deleted, done.deleted.unwrap_or(0)),
        (&metrics.documents_returned, done.returned.unwrap_or(0)),
        (&metrics.docs_examined, done.docs_examined),
        (&metrics.keys_examined, done.keys_examined),
        (&metrics.sorted_requests, u64::from(done.has_sort_stage)),
        (&metrics.write_conflicts, done.write_conflicts),
    ];
    for (counter, count) in counts {
        if count > 0 {
            counter.add(count);
        }
    }
    metrics.locks.add(&done.locks);
}

/// Counts the read concern of a query.
fn count_read_concern(server: &Server, request: &Request<'_>) {
    let (command, generic) = (request.command, &request.generic);
    if command.read_concern && command.latency == LatencyKind::Read {
        let asked = Asked {
            level: generic.read_concern.level,
            has_time: generic.read_concern.at_cluster_time.is_some(),
            in_transaction: generic.transaction().is_some(),
        };
        let default = || server.settings.rw_defaults.read_level();
        server.metrics.read_concerns.count(asked, default);
    }
}

/// Counts the operators of a request that ran, and records it in the query statistics. The record of a query whose
/// cursor is open was begun with the cursor.
fn note_query(server: &Server, finished: &Finished<'_>) {
    let Finished { op, request, done, micros, .. } = *finished;
    used_operators::count(server, request, done);
    if done.cursor_id != 0 || done.encrypted {
        return;
    }
    if let Some(limit) = server.query_stats_limit(request) {
        let client = op.client();
        let query = server.stats_query(request, client.as_deref());
        let observed = done.observed(micros, op.queued_micros());
        server.query_stats.record(limit, &query, &observed);
    }
}

/// Counts statements of writes by their write concern, if the server was started for that.
///
/// The sums are those of `opcounters`, as MongoDB's ticket SERVER-38998 says. So the statements of `bulkWrite` count by
/// their kinds, and a `findAndModify` does not count here, because there it is a command.
fn count_write_concern(server: &Server, finished: &Finished<'_>) {
    const ROW: usize = params::position("reportOpWriteConcernCountersInServerStatus");
    if server.settings.params.number(ROW) != 0 {
        let default = server.settings.rw_defaults.write_concern();
        let given = finished.request.generic.write_concern;
        let own =
            if server.replica.is_some() { WriteConcern::MAJORITY } else { WriteConcern::DEFAULT };
        server.metrics.write_concerns.count(
            finished.done.tried,
            given.map(|concern| concern.counted()),
            default.map(|concern| concern.counted()),
            own.counted(),
        );
    }
}

/// Counts the request for the collection that it names, and the scans of collections. The statements of `bulkWrite`
/// have counted themselves for theirs.
fn count_on_collection(server: &Server, finished: &Finished<'_>) {
    let Finished { request, done, micros, .. } = *finished;
    let command = request.command;
    let mut scans = done.collection_scans;
    if command.on_collection || command.counts_as == OpKind::GetMore {
        let reads = command.latency == LatencyKind::Read
            && command.counts_as != OpKind::GetMore
            && finished.op.plan_summary().starts_with("COLLSCAN");
        scans += u64::from(reads);
        server.top.record(request, micros, scans);
    }
    if scans > 0 {
        server.metrics.collection_scans.add(scans);
        if request.body.get("tailable").is_truthy() {
            server.metrics.collection_scans_tailable.add(scans);
        }
    }
}

/// Updates counters, the log of slow operations and the profile.
fn account(server: &Arc<Server>, finished: &Finished<'_>) {
    let Finished { request, error, done, micros, .. } = *finished;
    let command = request.command;
    let counter = commands::index_of(command).and_then(|i| server.metrics.by_command.get(i));
    if let Some(counter) = counter {
        counter.total.increment();
        if error.is_some() {
            counter.failed.increment();
        }
    }
    server.metrics.ops.count(command.counts_as);
    match error.map(Error::code) {
        Some(Code::MAX_TIME_MS_EXPIRED) => server.metrics.timed_out.increment(),
        Some(Code::CLIENT_DISCONNECT) => server.metrics.lost_clients.increment(),
        _ => {}
    }
    count_read_concern(server, request);
    if !done.waited {
        server.metrics.latency(command.latency).record(micros);
    }
    count_on_collection(server, finished);
    count_documents(&server.metrics, done);
    if error.is_none() {
        note_query(server, finished);
    }
    count_write_concern(server, finished);
    spans::observe(server, finished);
    slow::observe(server, finished);
}
