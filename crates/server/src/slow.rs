//! What happens when a request is over: the "Slow query" line.

use std::sync::Arc;

use nagi_bson::{DocBuf, DocWriter, Value};
use nagi_error::Result;
use nagi_store::{Namespace, WriteOptions};

use crate::clock;
use crate::command::{Command, Done};
use crate::logging::Severity;
use crate::metrics::OpKind;
use crate::op::Op;
use crate::query_settings::ShapeHash;
use crate::request::{Protocol, Request};
use crate::server::Server;

/// The `op` of `currentOp` and of the profile.
pub(crate) fn op_name(command: &Command) -> &'static str {
    match command.counts_as {
        OpKind::Insert => "insert",
        OpKind::Query => "query",
        OpKind::Update => "update",
        OpKind::Delete => "remove",
        OpKind::GetMore => "getmore",
        OpKind::Command => "command",
    }
}

/// A request that is over.
pub(crate) struct Finished<'a> {
    pub(crate) op: &'a Op,
    pub(crate) request: &'a Request<'a>,
    pub(crate) result: &'a Result<()>,
    pub(crate) done: &'a Done,
    pub(crate) micros: u64,
    pub(crate) reply_bytes: usize,
}

/// Logs the request if it took longer than the threshold. Costs a load and a compare otherwise.
pub(crate) fn observe(server: &Arc<Server>, finished: &Finished<'_>) {
    let Finished { request, micros, .. } = *finished;
    let millis = (micros / 1000) as i64;
    let level = server.profile.level(request.db);
    if let Some(chosen) = server.profile.filter(request.db) {
        let doc = profile_doc(finished);
        if crate::filtering::matches(Some(&chosen.filter), doc.as_doc()).unwrap_or(false) {
            if level > 0 {
                write_profile(server, finished, &doc);
            }
            log_slow(server, finished);
        }
        return;
    }
    if level > 1 || (level == 1 && millis >= server.profile.slow_ms()) {
        write_profile(server, finished, &profile_doc(finished));
    }
    let waited = finished.done.waited;
    if millis < server.profile.slow_ms() || waited || !server.profile.sampled() {
        return;
    }
    log_slow(server, finished);
}

fn log_slow(server: &Arc<Server>, finished: &Finished<'_>) {
    let attr = DocBuf::build(|doc| describe(finished, doc));
    let component = match finished.request.command.counts_as {
        OpKind::Insert | OpKind::Update | OpKind::Delete => "WRITE",
        _ => "COMMAND",
    };
    server.log.write(Severity::Info, component, 51803, "Slow query", attr.as_doc());
}

fn describe(finished: &Finished<'_>, doc: &mut DocWriter<'_>) {
    let Finished { op, request, result, done, micros, reply_bytes } = *finished;
    doc.put("type", if request.protocol == Protocol::Msg { "command" } else { "op_query" });
    doc.put("ns", op.namespace().as_str());
    if let Some(client) = op.client().filter(|c| !c.app_name.is_empty()) {
        doc.put("appName", client.app_name.as_str());
    }
    doc.put("command", &op.command());
    if let Some(command) = &done.originating {
        doc.put("originatingCommand", command);
    }
    let mut summary = op.plan_summary();
    if summary.is_empty() {
        summary.push_str(done.plan_summary);
    }
    if !summary.is_empty() {
        doc.put("planSummary", summary.as_str());
    }
    if done.cursor_id != 0 {
        doc.put("cursorid", done.cursor_id);
    }
    doc.put("keysExamined", done.keys_examined as i64);
    doc.put("docsExamined", done.docs_examined as i64);
    if done.has_sort_stage {
        doc.put("hasSortStage", true);
    }
    if done.used_disk {
        doc.put("usedDisk", true);
    }
    if done.from_multi_planner {
        doc.put("fromMultiPlanner", true);
    }
    if done.from_plan_cache {
        doc.put("fromPlanCache", true);
    }
    if let Some((expected, spent)) = done.replanned {
        doc.put("replanned", true);
        let reason = format!(
            "cached plan was less efficient than expected: expected trial execution to take \
             {expected} reads but it took at least {spent} reads"
        );
        doc.put("replanReason", reason.as_str());
    }
    if done.cursor_exhausted {
        doc.put("cursorExhausted", true);
    }
    describe_counts(done, doc);
    if done.query_hash != 0 {
        let shape = format!("{:08X}", done.query_hash);
        doc.put("queryHash", shape.as_str());
        doc.put("planCacheShapeHash", shape.as_str());
        doc.put("planCacheKey", format!("{:08X}", done.plan_cache_key).as_str());
    }
    if let Some(hash) = ShapeHash::of(request.db, request.body) {
        doc.put("queryShapeHash", hash.hex().as_str());
    }
    if let Err(error) = result {
        doc.put("ok", 0);
        doc.put("errMsg", error.message());
        doc.put("errName", error.code().name().as_ref());
        doc.put("errCode", error.code().0);
    }
    doc.put("reslen", reply_bytes as i64);
    doc.put("remote", op.remote.as_str());
    doc.put("protocol", if request.protocol == Protocol::Msg { "op_msg" } else { "op_query" });
    doc.put("durationMillis", (micros / 1000) as i64);
}

/// How many documents were matched, written and returned.
fn describe_counts(done: &Done, doc: &mut DocWriter<'_>) {
    let counts = [
        ("nMatched", done.matched),
        ("nModified", done.modified),
        ("nUpserted", done.upserted),
        ("ninserted", done.inserted),
        ("ndeleted", done.deleted),
        ("nreturned", done.returned),
    ];
    for (name, count) in counts {
        if let Some(count) = count {
            doc.put(name, count as i64);
        }
    }
}

/// The collection that profiles of a database go to.
fn profile_namespace(db: &str) -> Result<Namespace> {
    Namespace::new(db, "system.profile")
}

/// Creates `system.profile`, capped at 1 MiB as MongoDB does it.
pub(crate) fn prepare_profile(server: &Arc<Server>, db: &str) -> Result<()> {
    let namespace = profile_namespace(db)?;
    if server.store.collection(&namespace).is_none() {
        let options = nagi_bson::doc! { "capped": true, "size": 1024 * 1024 };
        server.store.create_collection(&namespace, options.as_doc())?;
    }
    Ok(())
}

/// Writes the request into `system.profile`. What cannot be written is lost: nobody waits for it.
fn write_profile(server: &Arc<Server>, finished: &Finished<'_>, doc: &DocBuf) {
    let Ok(namespace) = profile_namespace(finished.request.db) else { return };
    let written =
        server.store.write(WriteOptions::default(), &mut |txn| match txn.collection(&namespace) {
            Some(collection) => txn.insert(&collection, doc.as_doc()).map(drop),
            None => Ok(()),
        });
    if let Err(error) = written {
        log::warn!(target: "COMMAND", id = 20_703, namespace = namespace.as_str(),
            error = error.message(); "Caught assertion while trying to profile operation");
    }
}

/// The request as `system.profile` shows it.
fn profile_doc(finished: &Finished<'_>) -> DocBuf {
    let Finished { op, request, micros, .. } = *finished;
    DocBuf::build(|doc| {
        doc.put("op", op_name(request.command));
        describe(finished, doc);
        doc.put("millis", (micros / 1000) as i64);
        doc.put("ts", Value::DateTime(clock::wall_ms()));
        doc.put("client", op.remote.as_str());
        let user = op.user();
        doc.array("allUsers", |users| {
            if let Some(user) = &user {
                users.doc(|doc| user.write("user", doc));
            }
        });
        doc.put("user", user.map_or_else(String::new, |user| user.to_string()).as_str());
    })
}
