//! `setQuerySettings`: which indexes queries of a shape may use, or that they are rejected.

use crate::command::prelude::*;
use crate::commands::crud;
use crate::query_settings::Target;

pub(in crate::commands) static SET_QUERY_SETTINGS: Command = Command {
    name: "setQuerySettings",
    help: "Sets the query settings for the query shape of a given query.",
    access: Access::Cluster(&[Action::QuerySettings]),
    admin_only: true,
    write: true,
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
    cx.server.query_settings.set(cx, &target, args.settings, out)
}
