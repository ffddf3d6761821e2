//! `endSessions`: ends sessions and closes their cursors. Drivers send it when a client closes.

use crate::core::command::prelude::*;
use crate::limits::END_SESSIONS_COUNT_MAX;
use crate::session::parse_lsid;

pub(in crate::commands) static END_SESSIONS: Command = Command {
    facts: Facts {
        name: "endSessions",
        help: "Ends logical sessions.",
        before_login: true,
        api_v1: true,
        ..Facts::ROW
    },
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
    for value in args.sessions.iter() {
        let session = parse_lsid(value, "endSessions.endSessions")?;
        // Sessions of other users are ignored.
        if !cx.asking().owns_session(&session) {
            continue;
        }
        cx.server.clients.sessions.end(&session);
        cx.server.clients.txn_sessions.end(&session);
        cx.server.clients.cursors.end_session(&session);
    }
    Ok(())
}
