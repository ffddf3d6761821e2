//! `removeQuerySettings`: removes the settings of a query shape.

use crate::core::command::prelude::*;
use crate::settings::query_settings::Target;

pub(in crate::commands) static REMOVE_QUERY_SETTINGS: Command = Command {
    facts: Facts {
        name: "removeQuerySettings",
        help: "Removes the query settings for the query shape of a given query.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::QuerySettings]),
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
    cx.server.settings.query_settings.remove(&cx.server.store, target.hash())
}
