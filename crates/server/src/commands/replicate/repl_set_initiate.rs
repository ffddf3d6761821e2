//! `replSetInitiate`: a server that was not started as a member cannot become one.

use crate::command::prelude::*;

pub(in crate::commands) static REPL_SET_INITIATE: Command = Command {
    name: "replSetInitiate",
    help: "Makes a replica set; an error on a server not started for one.",
    admin_only: true,
    run: |_, _, _| {
        bail!(Code::NO_REPLICATION_ENABLED, "This node was not started with replication enabled.")
    },
    ..Command::ROW
};
