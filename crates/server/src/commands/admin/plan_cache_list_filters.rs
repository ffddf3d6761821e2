//! `planCacheListFilters`: the index filters of a collection.

use crate::commands::common::namespace;
use crate::core::command::prelude::*;

pub(in crate::commands) static PLAN_CACHE_LIST_FILTERS: Command = Command {
    facts: Facts {
        name: "planCacheListFilters",
        help: "Lists the index filters of a collection.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::PlanCacheIndexFilter]),
    run,
    ..Command::ROW
};

args! { "planCacheListFilters" => Args {
    collection: Name<'a> = "planCacheListFilters",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    out.array("filters", |out| nagi_query::list_index_filters(cx.store(), &ns, out));
    Ok(())
}
