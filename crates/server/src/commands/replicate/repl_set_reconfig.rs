//! `replSetReconfig`: replaces the configuration. The set must still have one member.

use super::{document_argument, member_of};
use crate::core::command::prelude::*;
use crate::replica::Asks;

pub(in crate::commands) static REPL_SET_RECONFIG: Command = Command {
    facts: Facts {
        name: "replSetReconfig",
        help: "Changes the configuration of the replica set.",
        admin_only: true,
        servers: Servers::AllButRouters,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ReplSetConfigure]),
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
    let force = args.force == Some(true);
    let own = (cx.server.config.port, cx.server.identity.topology.process_id);
    set.check_hosts(given, own, Asks::Reconfigure)?;
    let _writing = cx.begin_write("local")?;
    let old = set.initialized().ok();
    set.reconfigure(given, force)?;
    cx.connection.audit("replSetReconfig", Code::OK, |out| {
        if let Some(old) = &old {
            out.put("old", &old.config);
        }
        if let Ok(new) = set.initialized() {
            out.put("new", &new.config);
        }
    });
    cx.server.identity.topology.advance();
    Ok(())
}
