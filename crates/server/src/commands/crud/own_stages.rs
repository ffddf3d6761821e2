//! First stages that only the server can answer: `$currentOp`, `$listLocalCursors`, `$listLocalSessions`,
//! `$querySettings`, `$collStats`.
//!
//! Their documents are put into the pipeline as `$documents`, so the stages behind them work as always.

use nagi_bson::ArrayBuf;
use nagi_query::CollStatsSpec;

use super::aggregate::Args;
use crate::commands::diagnose::{Shown, describe_ops, list_cursors};
use crate::core::command::prelude::*;
use crate::names::UserName;

/// The pipeline with such a first stage replaced; `None` if it has none.
pub(super) fn replace(
    cx: &Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
) -> Result<Option<ArrayBuf>> {
    let first = args.pipeline.iter().next().and_then(|v| v.as_doc()).and_then(|d| d.first());
    let Some(stage) = first else { return Ok(None) };
    let docs = match stage.name() {
        "$currentOp" => current_op(cx, req, args, stage.value())?,
        // Elsewhere it is a stage of no name, as for MongoDB without test commands.
        LIST_LOCAL_CURSORS if cx.server.settings.params.bool("enableTestCommands") => {
            local_cursors(cx, args, stage.value())?
        }
        "$listLocalSessions" => local_sessions(cx, args, stage.value())?,
        "$querySettings" => query_settings(cx, args, stage.value())?,
        "$collStats" if matches!(args.collection, Value::String(_)) => {
            vec![coll_stats(cx, req, args, stage.value())?]
        }
        _ => return Ok(None),
    };
    Ok(Some(ArrayBuf::build(|pipeline| {
        pipeline.doc(|stage| {
            stage.doc("$documents", |expr| {
                expr.array("$literal", |list| {
                    docs.iter().for_each(|doc| list.push_doc(doc.as_doc()));
                });
            });
        });
        args.pipeline.iter().skip(1).for_each(|stage| pipeline.push(stage));
    })))
}

fn current_op(
    cx: &Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<Vec<DocBuf>> {
    let Value::Doc(spec) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "$currentOp options must be specified in an object, but found: {}",
            spec.kind().name()
        );
    };
    if req.db != "admin" || matches!(args.collection, Value::String(_)) {
        bail!(
            Code::INVALID_NAMESPACE,
            "$currentOp must be run against the 'admin' database with {{aggregate: 1}}"
        );
    }
    let mut shown = Shown { own_only: true, ..Shown::DEFAULT };
    let mut local_ops = false;
    let mut all_nodes = false;
    for element in spec {
        let Value::Bool(on) = element.value() else {
            bail!(
                Code::FAILED_TO_PARSE,
                "The '{}' parameter of the $currentOp stage must be a boolean value, but found: {}",
                element.name(),
                element.kind().name()
            );
        };
        match element.name() {
            "idleConnections" => shown.idle_connections = on,
            "idleCursors" => shown.idle_cursors = on,
            "idleSessions" => shown.idle_sessions = on,
            "allUsers" => shown.own_only = !on,
            "truncateOps" => shown.truncated = on,
            "targetAllNodes" => all_nodes = on,
            // The only operations there are, outside a router.
            "localOps" => local_ops = on,
            // The call stack is a part of the field waitingForLatch, which no operation has.
            "backtrace" => {}
            other => {
                bail!(Code::FAILED_TO_PARSE, "Unrecognized option '{other}' in $currentOp stage.")
            }
        }
    }
    match (all_nodes, local_ops) {
        (false, _) => Ok(describe_ops(&cx.asking(), shown)),
        (true, true) => bail!(
            Code::FAILED_TO_PARSE,
            "The 'localOps' parameter of the $currentOp stage cannot be true when 'targetAllNodes' is \
             also true"
        ),
        (true, false) => bail!(
            Code::FAILED_TO_PARSE,
            "$currentOp supports targetAllNodes parameter only for sharded clusters"
        ),
    }
}

fn coll_stats(
    cx: &Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<DocBuf> {
    let ns = args.namespace(req.db)?;
    let asked = CollStatsSpec::parse(spec)?;
    let mut bytes = Vec::new();
    let mut out = DocWriter::new(&mut bytes);
    out.put("ns", ns.as_str());
    out.put("host", &cx.server.host_and_port());
    out.put("localTime", Value::DateTime(crate::clock::wall_ms()));
    if let Some(histograms) = asked.latency_histograms {
        let (db, collection) = (ns.database(), ns.collection());
        out.doc("latencyStats", |doc| cx.server.top.write_latency(db, collection, histograms, doc));
    }
    nagi_query::write_coll_stats(cx.store(), &ns, asked, &mut out)?;
    if asked.exec {
        let scans = cx.server.top.collection_scans(ns.database(), ns.collection());
        out.doc("queryExecStats", |doc| {
            doc.doc("collectionScans", |doc| {
                doc.put("total", scans.0 as i64);
                doc.put("nonTailable", scans.1 as i64);
            });
        });
    }
    drop(out);
    Ok(Doc::trusted(&bytes).to_buf())
}

args! { "$querySettings" => QuerySettingsSpec {
    show_debug_query_shape: Option<bool> = "showDebugQueryShape",
}}

fn query_settings(cx: &Context<'_>, args: &Args<'_>, spec: Value<'_>) -> Result<Vec<DocBuf>> {
    if matches!(args.collection, Value::String(_)) {
        bail!(Code::INVALID_NAMESPACE, "'$querySettings' can only be run with {{aggregate: 1}}");
    }
    let Value::Doc(spec) = spec else {
        bail!(Code::Location(7_746_801), "$querySettings stage expects a document as argument");
    };
    let spec = QuerySettingsSpec::parse_doc(spec)?;
    Ok(cx.server.settings.query_settings.list(spec.show_debug_query_shape == Some(true)))
}

/// The stage that lists the cursors that wait for their next request.
pub(super) const LIST_LOCAL_CURSORS: &str = "$listLocalCursors";

fn local_cursors(cx: &Context<'_>, args: &Args<'_>, spec: Value<'_>) -> Result<Vec<DocBuf>> {
    if matches!(args.collection, Value::String(_)) {
        bail!(
            Code::INVALID_NAMESPACE,
            "$listLocalCursors must be run against the database with {{aggregate: 1}}, not a \
             collection"
        );
    }
    if !spec.as_doc().is_some_and(|spec| spec.is_empty()) {
        bail!(Code::BAD_VALUE, "$listLocalCursors must be run as {{ $listLocalCursors: {{}}}}");
    }
    Ok(list_cursors(cx.server))
}

args! { "$listLocalSessions" => SessionsSpec {
    all_users: Option<StrictBool> = "allUsers",
    users:     Option<Array<'a>>  = "users",
}}

args! { "$listLocalSessions.users" => ListedUser {
    user: &'a str = "user",
    db:   &'a str = "db",
}}

fn listed_user(value: Value<'_>) -> Result<UserName> {
    let Value::Doc(doc) = value else {
        bail!(
            Code::TYPE_MISMATCH,
            "BSON field '$listLocalSessions.users' is the wrong type '{}', expected type 'object'",
            value.kind().name()
        );
    };
    let listed = ListedUser::parse_doc(doc)?;
    Ok(UserName::new(listed.user, listed.db))
}

fn local_sessions(cx: &Context<'_>, args: &Args<'_>, spec: Value<'_>) -> Result<Vec<DocBuf>> {
    if matches!(args.collection, Value::String(_)) {
        bail!(
            Code::INVALID_NAMESPACE,
            "$listLocalSessions must be run against the database with {{aggregate: 1}}, not a \
             collection"
        );
    }
    let Value::Doc(spec) = spec else {
        bail!(
            Code::TYPE_MISMATCH,
            "$listLocalSessions options must be specified in an object, but found: {}",
            spec.kind().name()
        );
    };
    let spec = SessionsSpec::parse_doc(spec)?;
    let all = spec.all_users == Some(StrictBool(true));
    if all && spec.users.is_some() {
        bail!(
            Code::UNSUPPORTED_FORMAT,
            "$listLocalSessions may not specify {{allUsers:true}} and {{users:[...]}} at the same time"
        );
    }
    let users = spec.users.map(|users| users.iter().map(listed_user).collect::<Result<Vec<_>>>());
    let users = users.transpose()?;
    let asking = cx.asking();
    let mut sessions = cx.server.clients.sessions.all();
    sessions.retain(|(id, _)| {
        let owner = cx.server.clients.sessions.owner(id);
        match &users {
            Some(users) => owner.is_some_and(|owner| users.contains(&owner)),
            None => all || asking.owns(owner.as_ref()),
        }
    });
    let describe = |(id, last_ms): &([u8; 16], i64)| {
        DocBuf::build(|w| {
            w.doc("_id", |doc| {
                doc.put("id", Value::Binary(nagi_bson::Binary { subtype: 4, bytes: id }));
            });
            w.put("lastUse", Value::DateTime(*last_ms));
        })
    };
    Ok(sessions.iter().map(describe).collect())
}
