//! Reports a finished request to the log of slow operations ("Slow query") and to the profiler.

use std::sync::Arc;

use nagi_bson::{DocBuf, DocWriter};
use nagi_error::{Code, Error};
use nagi_store::Namespace;

use crate::clock;
use crate::core::command::Done;
use crate::core::server::Server;
use crate::logging::Severity;
use crate::metrics::OpKind;
use crate::metrics::slow_shapes::Seen;
use crate::observe::{profile_entries, slow_shapes};
use crate::op::Op;
use crate::request::{Facts, Protocol, Request};
use crate::settings::query_settings::ShapeHash;

/// The `op` field of `currentOp` and of the profile.
pub(crate) fn op_name(command: &Facts) -> &'static str {
    match command.counts_as {
        OpKind::Insert => "insert",
        OpKind::Query => "query",
        OpKind::Update => "update",
        OpKind::Delete => "remove",
        OpKind::GetMore => "getmore",
        OpKind::Command => "command",
    }
}

/// A statement of a command that has an entry of its own.
#[derive(Clone, Copy)]
pub(crate) struct Statement<'a> {
    /// Its fields.
    pub(crate) shown: &'a DocBuf,
    /// The `op` of its entry.
    pub(crate) op: &'static str,
    pub(crate) ns: &'a Namespace,
}

/// A finished request, or one finished statement of it.
pub(crate) struct Finished<'a> {
    pub(crate) op: &'a Op,
    pub(crate) request: &'a Request<'a>,
    /// The statement, if only one statement is described. The command's other fields then do not apply.
    pub(crate) statement: Option<Statement<'a>>,
    pub(crate) error: Option<&'a Error>,
    pub(crate) done: &'a Done,
    pub(crate) micros: u64,
    pub(crate) reply_bytes: usize,
}

/// Where a request is described. Some fields have different names there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Log,
    Profile,
}

impl Finished<'_> {
    /// The database whose profile gets the entry.
    pub(crate) fn db(&self) -> &str {
        self.statement.map_or(self.request.db, |statement| statement.ns.database())
    }

    /// The kind of operation, as entries of the profile name it.
    pub(crate) fn op_name(&self) -> &'static str {
        self.statement.map_or_else(|| op_name(self.request.command), |statement| statement.op)
    }

    /// Code and text of the failure: of the whole request, or of the last failed statement if statements have no
    /// entries of their own.
    fn error(&self) -> Option<(Code, &str)> {
        let statement = self.done.write_error.as_ref().filter(|_| !self.is_frame());
        let statement = statement.map(|(code, text)| (*code, text.as_str()));
        self.error.map(|error| (error.code(), error.message())).or(statement)
    }

    /// The time that it worked: without queueing for a ticket and waiting for locks.
    fn working_micros(&self) -> u64 {
        let queued = if self.statement.is_some() { 0 } else { self.op.queued_micros() };
        self.micros.saturating_sub(queued + self.done.locks.wait_micros)
    }

    /// Returns true if this is a command whose statements have entries of their own.
    fn is_frame(&self) -> bool {
        self.statement.is_none() && self.done.statements
    }
}

/// Decides if a finished request is profiled and logged. Costs a load and a comparison if it is neither.
///
/// Entries in the profile:
///
/// | profiling level | without a filter              | with a filter      |
/// |-----------------|-------------------------------|--------------------|
/// | 0               | -                             | -                  |
/// | 1               | slow requests of the sample   | those that match   |
/// | 2               | all                           | all                |
///
/// The log gets the slow requests of the sample, or with a filter those that match, whatever the level.
///
/// Commands with `encryptionInformation` have no entry, and neither has a getMore of a cursor of theirs.
///
/// `bulkWrite` and commands with updates or deletes have one entry per statement instead of their own, and one log line
/// per statement in addition to their own.
pub(crate) fn observe(server: &Arc<Server>, finished: &Finished<'_>) {
    let profile = &server.settings.profile;
    let db = finished.db();
    let level = profile.level(db);
    let chosen = match profile.filter(db) {
        Some(chosen) => {
            let doc = profile_entries::describe(finished);
            crate::observe::filtering::matches(Some(&chosen.filter), doc.as_doc()).unwrap_or(false)
        }
        None => {
            let is_slow = (finished.micros / 1000) as i64 >= profile.slow_ms()
                && (finished.working_micros() / 1000) as i64 >= profile.slow_ms();
            is_slow && !finished.done.waited && profile.sampled()
        }
    };
    if (level > 0 || chosen) && (finished.done.encrypted || finished.request.is_encrypted()) {
        return;
    }
    if !finished.is_frame() && (level > 1 || (level == 1 && chosen)) {
        profile_entries::write(server, finished.db(), &profile_entries::describe(finished));
    }
    if chosen {
        note_shape(server, finished);
        log_slow(server, finished);
    }
}

/// Counts an operation under its shape, for the advisor and the web console.
fn note_shape(server: &Server, finished: &Finished<'_>) {
    let Finished { op, done, micros, .. } = *finished;
    if finished.is_frame() {
        return note_frame(server, finished);
    }
    let own;
    let (ns, command) = match (finished.statement, &done.originating) {
        (Some(statement), _) => (statement.ns.as_str().to_owned(), statement.shown),
        (None, Some(command)) => (op.namespace(), &**command),
        (None, None) => {
            own = op.command();
            (op.namespace(), &own)
        }
    };
    let values = (done.returned.is_none() && done.found_values > 0).then_some(done.found_values);
    let counts = [done.returned, done.matched, done.deleted, values];
    let plan = plan_of(finished);
    let client = op.client();
    // The operation's own copy of a large command is cut.
    let is_whole = finished.statement.is_none() && done.originating.is_none();
    let body = if is_whole { finished.request.body } else { command.as_doc() };
    let name = match finished.statement {
        Some(statement) => statement.op,
        // What a getMore knows of a large command begins with a note that it was cut.
        None => body.iter().map(|e| e.name()).find(|name| *name != "$truncated").unwrap_or(""),
    };
    server.metrics.slow_shapes.note(&Seen {
        ns: ns.as_str(),
        name,
        shape: done.query_hash,
        stages: slow_shapes::stages_hash(body),
        text: &|| slow_shapes::text(name, body),
        app: client.as_ref().map_or("", |client| client.app_name.as_str()),
        command: command.as_doc(),
        micros,
        keys_examined: done.keys_examined,
        docs_examined: done.docs_examined,
        returned: counts.iter().flatten().sum(),
        sorts: done.has_sort_stage,
        plan: &plan,
        at_ms: clock::wall_ms(),
    });
}

/// Counts a command whose statements have rows of their own, under the namespace that its line of the log has: many
/// fast statements make a slow command. What they examined is in no figure of it, as in the log.
fn note_frame(server: &Server, finished: &Finished<'_>) {
    let client = finished.op.client();
    server.metrics.slow_shapes.note(&Seen {
        ns: &format!("{}.$cmd", finished.request.db),
        name: finished.request.body.first().map_or("", |first| first.name()),
        shape: 0,
        stages: 0,
        text: &String::new,
        app: client.as_ref().map_or("", |client| client.app_name.as_str()),
        command: finished.op.command().as_doc(),
        micros: finished.micros,
        keys_examined: 0,
        docs_examined: 0,
        returned: 0,
        sorts: false,
        plan: "",
        at_ms: clock::wall_ms(),
    });
}

/// The summary of the plan, if there was one.
fn plan_of(finished: &Finished<'_>) -> String {
    let summary = finished.op.plan_summary();
    if summary.is_empty() { finished.done.plan_summary.to_owned() } else { summary }
}

/// Returns true if a statement of this duration may have to be logged or profiled; usually it need not be.
pub(crate) fn may_tell(server: &Server, db: &str, micros: u64) -> bool {
    let profile = &server.settings.profile;
    (micros / 1000) as i64 >= profile.slow_ms()
        || profile.level(db) > 0
        || profile.filter(db).is_some()
}

fn log_slow(server: &Arc<Server>, finished: &Finished<'_>) {
    let attr = DocBuf::build(|doc| describe(finished, Place::Log, doc));
    let component = match finished.request.command.counts_as {
        _ if finished.is_frame() => "COMMAND",
        _ if finished.statement.is_some() => "WRITE",
        OpKind::Insert | OpKind::Update | OpKind::Delete => "WRITE",
        _ => "COMMAND",
    };
    server.log.write(Severity::Info, component, 51803, "Slow query", attr.as_doc());
}

pub(crate) fn describe(finished: &Finished<'_>, place: Place, doc: &mut DocWriter<'_>) {
    let Finished { op, request, done, .. } = *finished;
    let frame = finished.is_frame();
    describe_request(finished, place, doc);
    let summary = plan_of(finished);
    let planned = !summary.is_empty() && !frame;
    if planned && place == Place::Log {
        doc.put("planSummary", summary.as_str());
    }
    if done.cursor_id != 0 {
        doc.put("cursorid", done.cursor_id);
    }
    if planned {
        put_count("keysExamined", done.keys_examined, doc);
        put_count("docsExamined", done.docs_examined, doc);
    }
    if !frame {
        describe_plan(done, doc);
        describe_counts(done, doc);
    }
    let (yields, reply_bytes) = match place {
        Place::Log => ("numYields", "reslen"),
        Place::Profile => ("numYield", "responseLength"),
    };
    put_count(yields, done.yields, doc);
    describe_shape(finished, doc);
    if planned {
        doc.put("queryFramework", "classic");
    }
    doc.doc("locks", |locks| done.locks.write(locks));
    if let Some((code, text)) = finished.error() {
        doc.put("ok", 0);
        doc.put("errMsg", text);
        doc.put("errName", code.name().as_ref());
        doc.put("errCode", code.0);
    }
    if finished.statement.is_none() {
        put_count(reply_bytes, finished.reply_bytes as u64, doc);
        doc.put("protocol", if request.protocol == Protocol::Msg { "op_msg" } else { "op_query" });
    }
    match place {
        Place::Log => {
            doc.put("remote", op.remote.as_str());
            put_count("workingMillis", finished.working_micros() / 1000, doc);
            put_count("durationMillis", finished.micros / 1000, doc);
        }
        Place::Profile => {
            put_count("millis", finished.micros / 1000, doc);
            put_count("workingMillis", finished.working_micros() / 1000, doc);
            if planned {
                doc.put("planSummary", summary.as_str());
            }
        }
    }
}

/// Writes a count as int32, or as int64 if it exceeds 32 bits: MongoDB's shell shows int32 without a type.
fn put_count(name: &str, count: u64, doc: &mut DocWriter<'_>) {
    match i32::try_from(count) {
        Ok(count) => doc.put(name, count),
        Err(_) => doc.put(name, count as i64),
    }
}

/// Writes the command, its namespace and its client.
fn describe_request(finished: &Finished<'_>, place: Place, doc: &mut DocWriter<'_>) {
    let Finished { op, request, done, .. } = *finished;
    let kind = match request.protocol {
        _ if finished.statement.is_some() => finished.op_name(),
        Protocol::Msg => "command",
        _ => "op_query",
    };
    if place == Place::Log {
        doc.put("type", kind);
    }
    match finished.statement {
        Some(statement) => doc.put("ns", statement.ns.as_str()),
        None if finished.is_frame() => doc.put("ns", format!("{}.$cmd", request.db).as_str()),
        None => doc.put("ns", op.namespace().as_str()),
    }
    if place == Place::Log
        && let Some(client) = op.client().filter(|c| !c.app_name.is_empty())
    {
        doc.put("appName", client.app_name.as_str());
    }
    match finished.statement {
        Some(statement) => doc.put("command", statement.shown),
        None => doc.put("command", &op.command()),
    }
    if let Some(command) = &done.originating {
        doc.put("originatingCommand", &**command);
    }
}

/// Writes the hashes of the query's shape and plan.
fn describe_shape(finished: &Finished<'_>, doc: &mut DocWriter<'_>) {
    let (request, done) = (finished.request, finished.done);
    if done.query_hash != 0 && !finished.is_frame() {
        let shape = format!("{:08X}", done.query_hash);
        doc.put("queryHash", shape.as_str());
        doc.put("planCacheShapeHash", shape.as_str());
        doc.put("planCacheKey", format!("{:08X}", done.plan_cache_key).as_str());
    }
    if finished.statement.is_none()
        && let Some(hash) = ShapeHash::of(request.db, request.body)
    {
        doc.put("queryShapeHash", hash.hex().as_str());
    }
}

/// Writes how the plan was chosen and which resources it used.
fn describe_plan(done: &Done, doc: &mut DocWriter<'_>) {
    let flags = [
        ("hasSortStage", done.has_sort_stage),
        ("usedDisk", done.used_disk),
        ("fromMultiPlanner", done.from_multi_planner),
        ("fromPlanCache", done.from_plan_cache),
        ("cursorExhausted", done.cursor_exhausted),
    ];
    flags.iter().filter(|(_, set)| *set).for_each(|(name, _)| doc.put(name, true));
    if let Some((expected, spent)) = done.replanned {
        doc.put("replanned", true);
        let reason = format!(
            "cached plan was less efficient than expected: expected trial execution to take \
             {expected} reads but it took at least {spent} reads"
        );
        doc.put("replanReason", reason.as_str());
    }
}

/// Writes the numbers of documents and index keys that were matched, written and returned.
fn describe_counts(done: &Done, doc: &mut DocWriter<'_>) {
    let some = |count: u64| (count > 0).then_some(count);
    let counts = [
        ("nMatched", done.matched),
        ("nModified", done.modified),
        ("nUpserted", done.upserted),
        ("ninserted", done.inserted),
        ("ndeleted", done.deleted),
        ("keysInserted", some(done.keys_inserted)),
        ("keysDeleted", some(done.keys_deleted)),
        ("writeConflicts", some(done.write_conflicts)),
        ("nreturned", done.returned),
    ];
    for (name, count) in counts {
        if let Some(count) = count {
            put_count(name, count, doc);
        }
    }
}
