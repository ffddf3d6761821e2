//! `logout`: forgets who is logged in; always succeeds.

use crate::auth::login;
use crate::command::prelude::*;

pub(in crate::commands) static LOGOUT: Command = Command {
    name: "logout",
    help: "Logs the connection out of a database.",
    before_login: true,
    run: |cx, req, _| {
        cx.connection.conversation = None;
        login::log_out(cx.connection, req.db);
        Ok(())
    },
    ..Command::ROW
};
