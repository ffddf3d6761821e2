//! `logout`: ends the login of the connection. It always succeeds.

use crate::core::command::prelude::*;
use crate::core::login;

pub(in crate::commands) static LOGOUT: Command = Command {
    facts: Facts {
        name: "logout",
        help: "Logs the connection out of a database.",
        before_login: true,
        ..Facts::ROW
    },
    run: |cx, req, _| {
        cx.connection.audit_abandoned();
        cx.connection.conversation = None;
        login::log_out(cx.connection, req.db);
        Ok(())
    },
    ..Command::ROW
};
