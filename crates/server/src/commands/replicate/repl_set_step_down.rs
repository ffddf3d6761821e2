//! `replSetStepDown`: makes the primary a secondary for the requested number of seconds. This requires `force`,
//! because there is no other member that could become primary.

use super::member_of;
use crate::core::command::prelude::*;
use crate::replica::Role;

pub(in crate::commands) static REPL_SET_STEP_DOWN: Command = Command {
    facts: Facts {
        name: "replSetStepDown",
        help: "Makes the primary a secondary for a time.",
        admin_only: true,
        servers: Servers::AllButRouters,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ReplSetStateChange]),
    run,
    ..Command::ROW
};

args! { "replSetStepDown" => Args {
    seconds:  Truncated    = "replSetStepDown",
    catch_up: Option<Truncated> = "secondaryCatchUpPeriodSecs",
    force:    Option<bool> = "force",
}}

/// The longest time as a secondary, in seconds.
const SECONDS_MAX: i64 = 86_400 * 365;

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let set = member_of(cx)?;
    set.initialized()?;
    let Truncated(seconds) = args.seconds;
    if !(0..=SECONDS_MAX).contains(&seconds) {
        bail!(Code::BAD_VALUE, "stepdown period must be a non-negative integer");
    }
    let catch_up =
        args.catch_up.map(|n| n.0).unwrap_or(if args.force == Some(true) { 0 } else { 10 });
    if catch_up < 0 {
        bail!(Code::BAD_VALUE, "secondaryCatchUpPeriodSecs period must be a positive or absent");
    }
    let seconds = if seconds == 0 { 60 } else { seconds };
    if seconds < catch_up {
        bail!(Code::BAD_VALUE, "stepdown period must be longer than secondaryCatchUpPeriodSecs");
    }
    let no_primary = || err!(Code::NOT_WRITABLE_PRIMARY, "not primary so can't step down");
    if set.role() != Role::Primary {
        return Err(no_primary());
    }
    if args.force != Some(true) {
        bail!(
            Code::EXCEEDED_TIME_LIMIT,
            "No electable secondaries caught up. Please use the replSetStepDown command with the \
             argument {{force: true}} to force node to step down."
        );
    }
    let _writing = cx.begin_write("local")?;
    if !set.step_down(seconds)? {
        return Err(no_primary());
    }
    cx.server.identity.topology.advance();
    Ok(())
}
