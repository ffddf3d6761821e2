//! `lockInfo`: locks that are held; this server has none that last.

use crate::core::command::prelude::*;

pub(in crate::commands) static LOCK_INFO: Command = Command {
    facts: Facts {
        name: "lockInfo",
        help: "Locks that are held now.",
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
