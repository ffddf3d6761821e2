//! `lockInfo`: locks that are held; this server has none that last.

use crate::command::prelude::*;

pub(in crate::commands) static LOCK_INFO: Command = Command {
    name: "lockInfo",
    help: "Locks that are held now.",
    access: Access::Cluster(&[Action::ServerStatus]),
    admin_only: true,
    run: |_, _, out| {
        out.put("lockInfo", Array::EMPTY);
        Ok(())
    },
    ..Command::ROW
};
