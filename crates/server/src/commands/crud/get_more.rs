//! `getMore`: the next batch of a cursor.

use crate::commands::common::refuse_term;
use crate::core::batch;
use crate::core::command::prelude::*;
use crate::core::cursors::Api;

pub(in crate::commands) static GET_MORE: Command = Command {
    facts: Facts {
        name: "getMore",
        help: "Returns the next batch of a cursor.",
        api_v1: true,
        in_transaction: true,
        counts_as: OpKind::GetMore,
        latency: LatencyKind::Read,
        // Cursors of `aggregate: 1` may be change streams, which read as much as others.
        without_ticket: |body| {
            let name = body.get("collection").as_str().unwrap_or_default();
            name.starts_with("$cmd.") && name != "$cmd.aggregate"
        },
        ..Facts::ROW
    },
    // The cursor knows its owner and the privileges with which it was opened; `run` checks both.
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "getMore" => Args {
    id:         Long                = "getMore",
    collection: &'a str             = "collection",
    batch_size: Option<NonNegative> = "batchSize",
    term:       Option<Long>        = "term",
    committed:  Option<Doc<'a>>     = "lastKnownCommittedOpTime",
    query_stats: Option<StrictBool>       = "includeQueryStatsMetrics",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.collection.is_empty() {
        bail!(Code::INVALID_NAMESPACE, "Collection names cannot be empty");
    }
    if args.id.0 == 0 {
        bail!(Code::BAD_VALUE, "Cursor id for getMore must be non-zero");
    }
    if args.committed.is_some_and(|time| time.element("ts").is_none()) {
        bail!(Code::NO_SUCH_KEY, "Missing expected field \"ts\"");
    }
    refuse_term(args.term.is_some() || args.committed.is_some())?;
    cx.op.set_namespace(req.db, args.collection);
    let namespace = cx.op.namespace();
    let id = args.id.0;
    let owner = (req.generic.lsid, req.generic.transaction());
    let mut cursor = cx.server.clients.cursors.take(id, &namespace, owner, &cx.asking(), cx.op)?;
    if !cursor.needs.are_met(cx.connection) {
        cx.server.clients.cursors.put_back(cursor);
        return Err(crate::core::access::not_for_cursor(id));
    }
    cx.done.encrypted = cursor.encrypted;
    if let Err(error) = check(req, &cursor.api, cursor.tailable && cursor.await_data) {
        cx.server.clients.cursors.put_back(cursor);
        return Err(error);
    }
    // `maxTimeMS` of a getMore is how long the client waits for data of an empty tailable cursor, not a time
    // limit.
    let metrics = args.query_stats == Some(StrictBool(true));
    batch::reply_next(cx, cursor, args.batch_size.map(|n| n.0), metrics, out)?;
    cx.done.stream = req.exhaust_allowed && !cx.done.cursor_exhausted;
    Ok(())
}

fn check(req: &Request<'_>, api: &Api, awaits: bool) -> Result<()> {
    if req.generic.max_time_ms > 0 && !awaits {
        bail!(
            Code::BAD_VALUE,
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor"
        );
    }
    let same = api.version.as_deref() == req.generic.api_version
        && api.strict == req.generic.api_strict
        && api.deprecation_errors == req.generic.api_deprecation_errors;
    if !same {
        bail!(
            Code::API_MISMATCH_ERROR,
            "API parameter mismatch: getMore used different parameters than the command that opened \
             the cursor"
        );
    }
    Ok(())
}
