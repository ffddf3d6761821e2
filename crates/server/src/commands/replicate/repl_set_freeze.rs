//! `replSetFreeze`: prevents a secondary from becoming primary for a time; 0 lifts this.

use super::member_of;
use crate::core::command::prelude::*;
use crate::replica::Role;

pub(in crate::commands) static REPL_SET_FREEZE: Command = Command {
    facts: Facts {
        name: "replSetFreeze",
        help: "Prevents a secondary from becoming primary for a time.",
        admin_only: true,
        servers: Servers::AllButRouters,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ReplSetStateChange]),
    run,
    ..Command::ROW
};

args! { "replSetFreeze" => Args {
    seconds: Truncated = "replSetFreeze",
}}

/// The longest time, in seconds.
const SECONDS_MAX: i64 = 86_400 * 365;

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let set = member_of(cx)?;
    set.initialized()?;
    let no_secondary = || {
        err!(
            Code::NOT_SECONDARY,
            "cannot freeze node when primary or running for election. state: Primary"
        )
    };
    if set.role() != Role::Secondary {
        return Err(no_secondary());
    }
    match args.seconds.0 {
        0 => {
            set.step_up()?;
            out.put("info", "unfreezing");
        }
        seconds if (1..=SECONDS_MAX).contains(&seconds) => {
            if !set.freeze(seconds)? {
                return Err(no_secondary());
            }
            if seconds == 1 {
                out.put("warning", "you really want to freeze for only 1 second?");
            }
        }
        _ => bail!(Code::BAD_VALUE, "seconds must be a non-negative number"),
    }
    cx.server.identity.topology.advance();
    Ok(())
}
