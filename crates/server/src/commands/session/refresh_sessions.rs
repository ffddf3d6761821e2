//! `refreshSessions`: marks sessions as still in use.

use crate::clock;
use crate::core::command::prelude::*;
use crate::session::parse_lsid;

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
    for value in args.sessions.iter() {
        let session = parse_lsid(value, "refreshSessions.refreshSessions")?;
        cx.server.clients.sessions.touch(&session, clock::wall_ms(), cx.connection.user())?;
    }
    Ok(())
}
