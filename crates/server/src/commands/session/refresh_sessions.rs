//! `refreshSessions`: marks sessions as still in use.

use super::common::named;
use crate::clock;
use crate::core::command::prelude::*;

pub(in crate::commands) static REFRESH_SESSIONS: Command = Command {
    facts: Facts {
        name: "refreshSessions",
        help: "Renews the time of last use of logical sessions.",
        api_v1: true,
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "refreshSessions" => Args {
    sessions: Array<'a> = "refreshSessions",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    for session in named(cx, args.sessions, "refreshSessions.refreshSessions", None)? {
        let user = cx.connection.user().filter(|_| cx.asking().owns_session(&session));
        cx.server.clients.sessions.touch(&session, clock::wall_ms(), user)?;
    }
    Ok(())
}
