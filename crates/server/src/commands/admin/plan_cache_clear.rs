//! `planCacheClear`: plans are chosen anew for each query, so there is nothing to forget.

use nagi_lang::collation::Asked;

use crate::command::prelude::*;
use crate::commands::common::namespace;

pub(in crate::commands) static PLAN_CACHE_CLEAR: Command = Command {
    name: "planCacheClear",
    help: "Forgets cached plans of a collection.",
    access: Access::Collection(&[Action::PlanCacheWrite]),
    on_collection: true,
    run,
    ..Command::ROW
};

args! { "planCacheClear" => Args {
    collection: Name<'a>         = "planCacheClear",
    query:      Option<Doc<'a>>  = "query",
    sort:       Option<Doc<'a>>  = "sort",
    projection: Option<Doc<'a>>  = "projection",
    collation:  Option<Doc<'a>>  = "collation",
}}

fn run(_: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    namespace(req.db, args.collection.0)?;
    if args.query.is_none() && (args.sort.is_some() || args.projection.is_some()) {
        bail!(Code::BAD_VALUE, "sort or projection provided without query");
    }
    Asked::parse(args.collation).map(drop)
}
