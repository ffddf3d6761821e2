//! `startSession`: returns a session id that the server generates. Drivers generate their own.

use crate::clock;
use crate::core::command::prelude::*;
use crate::limits::SESSION_TIMEOUT_MINUTES;
use crate::session::GivenSession;

pub(in crate::commands) static START_SESSION: Command = Command {
    facts: Facts { name: "startSession", help: "Starts a logical session.", ..Facts::ROW },
    access: Access::LoggedIn,
    run,
    ..Command::ROW
};

args! { "startSession" => Args {
    start_session: Value<'a> = "startSession",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    let id = crate::random::random_uuid()?;
    let session = cx.asking().session(&GivenSession { id, uid: None }, None)?;
    cx.server.clients.sessions.touch(&session, clock::wall_ms(), cx.connection.user())?;
    out.doc("id", |doc| {
        doc.put("id", Value::Binary(nagi_bson::Binary { subtype: 4, bytes: &id }));
    });
    out.put("timeoutMinutes", SESSION_TIMEOUT_MINUTES);
    Ok(())
}
