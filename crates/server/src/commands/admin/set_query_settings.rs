//! `setQuerySettings`: restricts the indexes that queries of a shape may use, or rejects these queries.

use crate::commands::crud;
use crate::core::command::prelude::*;
use crate::settings::query_settings::Target;

pub(in crate::commands) static SET_QUERY_SETTINGS: Command = Command {
    facts: Facts {
        name: "setQuerySettings",
        help: "Sets the query settings for the query shape of a given query.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::QuerySettings]),
    run,
    ..Command::ROW
};

args! { "setQuerySettings" => Args {
    target:   Value<'a> = "setQuerySettings",
    settings: Doc<'a>   = "settings",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let target = Target::parse("setQuerySettings", args.target)?;
    if let Target::Query(query, _) = &target {
        crud::check_representative(cx, req, *query)?;
    }
    let _writing = cx.begin_write("admin")?;
    cx.server.settings.query_settings.set(&cx.server.store, &target, args.settings, out)
}
