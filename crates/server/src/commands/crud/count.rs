//! `count`: how many documents match; without a filter the collection's own count.

use nagi_lang::collation::Asked;
use nagi_query::{CountRequest, Hint};
use nagi_store::Namespace;

use crate::command::prelude::*;
use crate::commands::common::{check_uuid_arg, namespace};

pub(in crate::commands) static COUNT: Command = Command {
    name: "count",
    help: "Counts the documents of a collection that match a filter.",
    access: Access::Collection(&[Action::Find]),
    read_concern: true,
    api_v1: true,
    on_collection: true,
    latency: LatencyKind::Read,
    run,
    ..Command::ROW
};

args! { "count" => Args {
    collection:      Name<'a>            = "count",
    query:           Option<Doc<'a>>     = "query",
    limit:           Option<i64>         = "limit",
    skip:            Option<NonNegative> = "skip",
    hint:            Value<'a>           = "hint",
    collation:       Option<Doc<'a>>     = "collation",
    fields:          Value<'a>           = "fields",
    collection_uuid: Value<'a>           = "collectionUUID",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    check_uuid_arg(cx, &ns, "count", args.collection_uuid)?;
    let counted = {
        let watch = cx.watch();
        let mut request = to_request(&args, &ns)?;
        request.allow_disk_use = cx.server.allows_disk();
        request.memory_bytes_max = cx.server.stage_memory();
        request.densify_docs_max = cx.server.densify_docs_max();
        let env = cx.env(&watch);
        let counted = nagi_query::count(cx.store(), &request, &env);
        cx.effects.note(&env);
        counted?
    };
    cx.op.set_plan_summary(&counted.plan_summary);
    cx.done.note(&counted.stats);
    match i32::try_from(counted.count) {
        Ok(count) => out.put("n", count),
        Err(_) => out.put("n", counted.count),
    }
    Ok(())
}

pub(super) fn to_request<'a>(args: &Args<'a>, ns: &'a Namespace) -> Result<CountRequest<'a>> {
    let hint = if args.hint.is_nullish() { Value::Missing } else { args.hint };
    let limit = args.limit.unwrap_or(0);
    if limit == i64::MIN {
        bail!(Code::BAD_VALUE, "Limit value for count cannot be min long");
    }
    Ok(CountRequest {
        filter: args.query.unwrap_or(Doc::EMPTY),
        skip: args.skip.map_or(0, |n| n.0 as u64),
        limit: Some(limit.unsigned_abs()).filter(|n| *n > 0),
        hint: Hint::parse(hint)?,
        collation: Asked::parse(args.collation)?,
        ..CountRequest::new(ns)
    })
}
