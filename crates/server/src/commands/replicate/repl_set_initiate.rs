//! `replSetInitiate`: creates a replica set with this server as its only member.

use super::{document_argument, member_of};
use crate::core::command::prelude::*;
use crate::replica::Asks;

pub(in crate::commands) static REPL_SET_INITIATE: Command = Command {
    facts: Facts {
        name: "replSetInitiate",
        help: "Initiates a replica set; an error on a server not started as a member.",
        admin_only: true,
        servers: Servers::AllButRouters,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ReplSetConfigure]),
    run,
    ..Command::ROW
};

args! { "replSetInitiate" => Args {
    config: Value<'a> = "replSetInitiate",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let Ok(set) = member_of(cx) else {
        bail!(Code::NO_REPLICATION_ENABLED, "This node was not started with replication enabled.");
    };
    let given = document_argument("replSetInitiate", args.config)?;
    let own = (cx.server.config.port, cx.server.identity.topology.process_id);
    set.check_hosts(given, own, Asks::Initiate)?;
    set.initiate(given)?;
    if given.is_empty() {
        out.put("info2", "no configuration specified. Using a default configuration for the set");
        out.put("me", set.initialized()?.host.as_str());
    }
    cx.server.identity.topology.advance();
    Ok(())
}
