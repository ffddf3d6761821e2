//! `logout`: forgets who is logged in; always succeeds.

use crate::command::prelude::*;

pub(in crate::commands) static LOGOUT: Command = Command {
    name: "logout",
    help: "Logs the connection out of a database.",
    before_login: true,
    run: |_, _, _| Ok(()),
    ..Command::ROW
};
