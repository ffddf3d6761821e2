//! `ping`: answers.

use crate::command::prelude::*;

pub(in crate::commands) static PING: Command = Command {
    name: "ping",
    help: "Answers at once, to see whether the server is there.",
    before_login: true,
    api_v1: true,
    run: |_, _, _| Ok(()),
    ..Command::ROW
};
