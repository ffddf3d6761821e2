//! `replSetGetStatus`: tools look at this error to see that the server is a standalone.

use crate::command::prelude::*;

pub(in crate::commands) static REPL_SET_GET_STATUS: Command = Command {
    name: "replSetGetStatus",
    help: "State of the replica set; an error on a server without one.",
    admin_only: true,
    run: |_, _, _| bail!(Code::NO_REPLICATION_ENABLED, "not running with --replSet"),
    ..Command::ROW
};
