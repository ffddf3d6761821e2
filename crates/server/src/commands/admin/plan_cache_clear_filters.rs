//! `planCacheClearFilters`: removes the index filters of a collection, or that of one query shape.

use super::plan_cache_clear::optional_shape;
use crate::commands::common::namespace;
use crate::core::command::prelude::*;

pub(in crate::commands) static PLAN_CACHE_CLEAR_FILTERS: Command = Command {
    facts: Facts {
        name: "planCacheClearFilters",
        help: "Removes index filters of a collection.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::PlanCacheIndexFilter]),
    run,
    ..Command::ROW
};

args! { "planCacheClearFilters" => Args {
    collection: Name<'a>         = "planCacheClearFilters",
    query:      Option<Doc<'a>>  = "query",
    sort:       Option<Doc<'a>>  = "sort",
    projection: Option<Doc<'a>>  = "projection",
    collation:  Option<Doc<'a>>  = "collation",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let shape = optional_shape(args.query, args.sort, args.projection, args.collation)?;
    let watch = cx.watch();
    let env = cx.env(&watch);
    if !cx.server.store.shares_data() {
        return nagi_query::clear_index_filters(cx.store(), &ns, shape.as_ref(), &env);
    }
    let Some(is_one) = nagi_query::index_filter_ids(cx.store(), &ns, shape.as_ref(), &env)? else {
        return Ok(());
    };
    let _writing = cx.begin_write("config")?;
    cx.server.settings.index_filters.remove(&cx.connection.store, &is_one)
}
