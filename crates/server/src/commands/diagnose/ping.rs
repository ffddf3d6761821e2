//! `ping`: replies at once.

use crate::core::command::prelude::*;

pub(in crate::commands) static PING: Command = Command {
    facts: Facts {
        name: "ping",
        help: "Replies at once, to test whether the server is reachable.",
        before_login: true,
        api_v1: true,
        ..Facts::ROW
    },
    run: |_, _, _| Ok(()),
    ..Command::ROW
};
