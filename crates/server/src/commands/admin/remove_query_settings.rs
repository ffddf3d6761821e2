//! `removeQuerySettings`: removes the settings of a query shape.

use crate::command::prelude::*;
use crate::query_settings::Target;

pub(in crate::commands) static REMOVE_QUERY_SETTINGS: Command = Command {
    name: "removeQuerySettings",
    help: "Removes the query settings for the query shape of a given query.",
    access: Access::Cluster(&[Action::QuerySettings]),
    admin_only: true,
    write: true,
    run,
    ..Command::ROW
};

args! { "removeQuerySettings" => Args {
    target: Value<'a> = "removeQuerySettings",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let target = Target::parse("removeQuerySettings", args.target)?;
    let _writing = cx.begin_write("admin")?;
    cx.server.query_settings.remove(cx, target.hash())
}
