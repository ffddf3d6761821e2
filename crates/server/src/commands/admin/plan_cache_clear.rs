//! `planCacheClear`: drops the cached plans of a collection, or those of one query shape.

use nagi_query::ShapeRequest;

use crate::commands::common::namespace;
use crate::core::command::prelude::*;

pub(in crate::commands) static PLAN_CACHE_CLEAR: Command = Command {
    facts: Facts {
        name: "planCacheClear",
        help: "Removes cached plans of a collection.",
        on_collection: true,
        ..Facts::ROW
    },
    access: Access::Collection(&[Action::PlanCacheWrite]),
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

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let ns = namespace(req.db, args.collection.0)?;
    let shape = optional_shape(args.query, args.sort, args.projection, args.collation)?;
    let watch = cx.watch();
    nagi_query::clear_plans(cx.store(), &ns, shape.as_ref(), &cx.env(&watch))
}

/// The query shape in the arguments of a command, if there is one.
pub(super) fn optional_shape<'a>(
    query: Option<Doc<'a>>,
    sort: Option<Doc<'a>>,
    projection: Option<Doc<'a>>,
    collation: Option<Doc<'a>>,
) -> Result<Option<ShapeRequest<'a>>> {
    let Some(query) = query else {
        if sort.is_some() || projection.is_some() {
            bail!(Code::BAD_VALUE, "sort or projection provided without query");
        }
        if collation.is_some() {
            bail!(Code::BAD_VALUE, "collation provided without query");
        }
        return Ok(None);
    };
    let sort = sort.unwrap_or(Doc::EMPTY);
    let projection = projection.unwrap_or(Doc::EMPTY);
    Ok(Some(ShapeRequest { query, sort, projection, collation }))
}
