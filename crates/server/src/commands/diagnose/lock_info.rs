//! `lockInfo`: locks that are held. This server has no locks that outlast an operation.

use crate::core::command::prelude::*;

pub(in crate::commands) static LOCK_INFO: Command = Command {
    facts: Facts {
        name: "lockInfo",
        help: "Lists the locks currently held.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::ServerStatus]),
    run: |_, _, out| {
        out.put("lockInfo", Array::EMPTY);
        Ok(())
    },
    ..Command::ROW
};
