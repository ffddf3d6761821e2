//! `setDefaultRWConcern`: sets the read and write concern of requests that specify none. Replica sets only.

use super::get_default_rw_concern::write;
use crate::core::command::prelude::*;

pub(in crate::commands) static SET_DEFAULT_RW_CONCERN: Command = Command {
    facts: Facts {
        name: "setDefaultRWConcern",
        help: "Sets the default read and write concern of a replica set.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::SetDefaultRWConcern]),
    run,
    ..Command::ROW
};

args! { "setDefaultRWConcern" => Args {
    one:   Value<'a>       = "setDefaultRWConcern",
    read:  Option<Doc<'a>> = "defaultReadConcern",
    write: Option<Doc<'a>> = "defaultWriteConcern",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    refuse_standalone(cx, req)?;
    let _writing = cx.begin_write("config")?;
    let now = cx.server.cluster_clock().map_or(0, |clock| clock.cluster());
    cx.server.settings.rw_defaults.set(&cx.connection.store, args.read, args.write, now)?;
    write(cx, out);
    Ok(())
}

/// Refuses the command on a standalone, which has no settable defaults (51300).
pub(super) fn refuse_standalone(cx: &Context<'_>, req: &Request<'_>) -> Result<()> {
    if !cx.server.is_replicated() {
        let name = req.command.name;
        bail!(Code::Location(51300), "'{name}' is not supported on standalone nodes.");
    }
    Ok(())
}
