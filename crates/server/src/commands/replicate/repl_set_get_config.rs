//! `replSetGetConfig`: the configuration of the replica set.

use super::member_of;
use crate::core::command::prelude::*;

pub(in crate::commands) static REPL_SET_GET_CONFIG: Command = Command {
    facts: Facts {
        name: "replSetGetConfig",
        help: "Configuration of the replica set; an error on a server without one.",
        admin_only: true,
        servers: Servers::AllButRouters,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ReplSetGetConfig]),
    run,
    ..Command::ROW
};

args! { "replSetGetConfig" => Args {
    one:        Value<'a>    = "replSetGetConfig",
    commitment: Option<bool> = "commitmentStatus",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let member = member_of(cx)?.initialized()?;
    out.put("config", &member.config);
    if args.commitment == Some(true) {
        out.put("commitmentStatus", true);
    }
    Ok(())
}
