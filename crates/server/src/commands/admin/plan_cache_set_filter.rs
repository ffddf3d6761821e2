//! `planCacheSetFilter`: restricts the indexes that the plans of a query shape may use.

use nagi_query::ShapeRequest;

use crate::commands::common::namespace;
use crate::core::command::prelude::*;

pub(in crate::commands) static PLAN_CACHE_SET_FILTER: Command = Command {
    facts: Facts {
        name: "planCacheSetFilter",
        help: "Sets which indexes a query shape may use.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::PlanCacheIndexFilter]),
    run,
    ..Command::ROW
};

args! { "planCacheSetFilter" => Args {
    collection: Name<'a>         = "planCacheSetFilter",
    query:      Value<'a>        = "query",
    sort:       Option<Doc<'a>>  = "sort",
    projection: Option<Doc<'a>>  = "projection",
    collation:  Option<Doc<'a>>  = "collation",
    indexes:    Value<'a>        = "indexes",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let indexes = match args.indexes {
        Value::Missing => bail!(Code::BAD_VALUE, "required field indexes missing"),
        Value::Array(indexes) => indexes,
        _ => bail!(Code::BAD_VALUE, "required field indexes must be an array"),
    };
    let query = match args.query {
        Value::Missing => bail!(Code::BAD_VALUE, "required field query missing"),
        Value::Doc(query) => query,
        _ => bail!(Code::BAD_VALUE, "required field query must be an object"),
    };
    let shape = ShapeRequest {
        query,
        sort: args.sort.unwrap_or(Doc::EMPTY),
        projection: args.projection.unwrap_or(Doc::EMPTY),
        collation: args.collation,
    };
    let watch = cx.watch();
    let env = cx.env(&watch);
    if !cx.server.store.shares_data() {
        return nagi_query::set_index_filter(cx.store(), &ns, &shape, indexes, &env);
    }
    let filter = nagi_query::index_filter_document(cx.store(), &ns, &shape, indexes, &env)?;
    let _writing = cx.begin_write("config")?;
    cx.server.settings.index_filters.set(&cx.connection.store, &filter)
}
