//! `replSetGetConfig`: there is no configuration on a standalone.

use crate::command::prelude::*;

pub(in crate::commands) static REPL_SET_GET_CONFIG: Command = Command {
    name: "replSetGetConfig",
    help: "Configuration of the replica set; an error on a server without one.",
    admin_only: true,
    run: |_, _, _| bail!(Code::NO_REPLICATION_ENABLED, "not running with --replSet"),
    ..Command::ROW
};
