//! `whatsmyuri`: the client's address as the server sees it.

use crate::core::command::prelude::*;

pub(in crate::commands) static WHATSMYURI: Command = Command {
    facts: Facts {
        name: "whatsmyuri",
        help: "The address and port of the client.",
        before_login: true,
        ..Facts::ROW
    },
    run: |cx, _, out| {
        out.put("you", cx.connection.peer.address.as_str());
        Ok(())
    },
    ..Command::ROW
};
