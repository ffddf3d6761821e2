//! `whatsmyuri`: the client's address as the server sees it.

use crate::command::prelude::*;

pub(in crate::commands) static WHATSMYURI: Command = Command {
    name: "whatsmyuri",
    help: "The address and port of the client.",
    before_login: true,
    run: |cx, _, out| {
        out.put("you", cx.connection.peer.address.as_str());
        Ok(())
    },
    ..Command::ROW
};
