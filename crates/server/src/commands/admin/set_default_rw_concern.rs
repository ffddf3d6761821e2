//! `setDefaultRWConcern`: only for members of replica sets.

use crate::command::prelude::*;

pub(in crate::commands) static SET_DEFAULT_RW_CONCERN: Command = Command {
    name: "setDefaultRWConcern",
    help: "Sets the default read and write concern of a replica set.",
    access: Access::Cluster(&[Action::SetDefaultRWConcern]),
    admin_only: true,
    write: true,
    run: |_, _, _| {
        bail!(Code::Location(51300), "'setDefaultRWConcern' is not supported on standalone nodes.")
    },
    ..Command::ROW
};
