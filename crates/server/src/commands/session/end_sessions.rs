//! `endSessions`: ends sessions and closes their cursors. Drivers send it when a client closes, also on connections
//! that are not logged in; it is refused there, as in MongoDB, because such a client has no sessions.

use super::common::named;
use crate::core::command::prelude::*;
use crate::limits::END_SESSIONS_COUNT_MAX;

pub(in crate::commands) static END_SESSIONS: Command = Command {
    facts: Facts {
        name: "endSessions",
        help: "Ends logical sessions.",
        api_v1: true,
        refusal_unaudited: true,
        ..Facts::ROW
    },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "endSessions" => Args {
    sessions: Array<'a> = "endSessions",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    if args.sessions.count() > END_SESSIONS_COUNT_MAX {
        bail!(
            Code::BAD_VALUE,
            "Too many sessions in one request: at most {END_SESSIONS_COUNT_MAX}"
        );
    }
    for session in named(cx, args.sessions, "endSessions.endSessions", None)? {
        cx.server.clients.sessions.end(&session);
        cx.server.clients.txn_sessions.end(&session);
        cx.server.clients.cursors.end_session(&session);
    }
    Ok(())
}
