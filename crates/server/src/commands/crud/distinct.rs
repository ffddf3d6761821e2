//! `distinct`: the distinct values of a field.

use nagi_lang::collation::Asked;
use nagi_query::{DistinctRequest, Explained, Hint, Searched, Verbosity};
use nagi_store::Namespace;

use super::encryption;
use super::representative::{self, refuse_own};
use crate::commands::common::{check_uuid_arg, namespace};
use crate::core::command::prelude::*;

pub(in crate::commands) static DISTINCT: Command = Command {
    facts: Facts {
        name: "distinct",
        help: "Lists the distinct values of a field.",
        read_concern: true,
        reads_config: true,
        snapshot_read: true,
        on_collection: true,
        latency: LatencyKind::Read,
        in_transaction: true,
        query_stats: true,
        operators: &[("query", Holds::Filter)],
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::Find]),
    run,
    explain: Some(explain),
    audited: None,
    check_settings: Some(check_settings),
};

args! { "distinct" => Args {
    collection:      Name<'a>        = "distinct",
    key:             &'a str         = "key",
    query:           Option<Doc<'a>> = "query",
    collation:       Option<Doc<'a>> = "collation",
    hint:            Value<'a>       = "hint",
    collection_uuid: Value<'a>       = "collectionUUID",
    encryption:      Value<'a>       = "encryptionInformation",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    check_uuid_arg(cx, &ns, "distinct", args.collection_uuid)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let mut request = to_request(&args, &ns)?;
    request.options = cx.server.query_options(None);
    let settings = cx.server.settings.query_settings.of_running(req)?;
    let of = (encryption.as_ref(), &ns);
    let searched = Searched::Filter(request.filter);
    let start = out.mark();
    let mut found = 0;
    let stats = encryption::search(cx, of, searched, &|_| true, &mut |cx, searched| {
        out.truncate(start);
        out.array("values", |values| {
            let request = DistinctRequest { filter: encryption::filter_of(searched), ..request };
            let watch = cx.watch();
            let env = cx.env(&watch).with_settings(settings.clone());
            let stats = nagi_query::distinct(cx.store(), &request, &env, values);
            cx.effects.note(&env);
            found = values.count();
            stats
        })
    })?;
    if let Some(time) = cx.at_cluster_time {
        out.put("atClusterTime", Value::Timestamp(time));
    }
    cx.op.set_plan_summary(&stats.plan_summary);
    cx.done.note(&stats.stats);
    cx.done.returned = Some(u64::from(found));
    Ok(())
}

pub(super) fn to_request<'a>(args: &Args<'a>, ns: &'a Namespace) -> Result<DistinctRequest<'a>> {
    Ok(DistinctRequest {
        filter: args.query.unwrap_or(Doc::EMPTY),
        hint: Hint::parse(args.hint)?,
        collation: Asked::parse(args.collation)?,
        ..DistinctRequest::new(ns, args.key)
    })
}

/// Writes the `explain` reply.
fn explain(
    cx: &mut Context<'_>,
    req: &Request<'_>,
    verbosity: Verbosity,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let encryption = encryption::parse(cx, &ns, args.encryption)?;
    let filter =
        encryption::filter(cx, encryption.as_ref(), &ns, args.query.unwrap_or(Doc::EMPTY))?;
    let mut request = to_request(&args, &ns)?;
    request.filter = filter.as_ref().map_or(request.filter, |filter| filter.as_doc());
    super::explain::write(cx, req, &Explained::Distinct(request), verbosity, out)
}

/// Checks a query by which query settings are set: see [`super::representative`].
fn check_settings(cx: &Context<'_>, req: &Request<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    refuse_own(ns.database(), ns.collection())?;
    representative::check(cx, &Explained::Distinct(to_request(&args, &ns)?))
}
