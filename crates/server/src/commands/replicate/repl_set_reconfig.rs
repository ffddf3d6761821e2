//! `replSetReconfig`: another configuration, of one member still.

use super::{document_argument, member_of};
use crate::command::prelude::*;

pub(in crate::commands) static REPL_SET_RECONFIG: Command = Command {
    name: "replSetReconfig",
    help: "Changes the configuration of the replica set.",
    access: Access::Cluster(&[Action::ReplSetConfigure]),
    admin_only: true,
    run,
    ..Command::ROW
};

args! { "replSetReconfig" => Args {
    config: Value<'a>    = "replSetReconfig",
    force:  Option<bool> = "force",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let set = member_of(cx)?;
    let given = document_argument("replSetReconfig", args.config)?;
    set.reconfigure(given, args.force == Some(true))?;
    cx.server.topology.advance();
    Ok(())
}
