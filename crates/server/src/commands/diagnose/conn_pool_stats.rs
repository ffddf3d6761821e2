//! `connPoolStats`: connections to other members; a standalone has none.

use crate::command::prelude::*;

pub(in crate::commands) static CONN_POOL_STATS: Command = Command {
    name: "connPoolStats",
    help: "Outgoing connections to other servers.",
    access: Access::Cluster(&[Action::ConnPoolStats]),
    run: |_, _, out| {
        for name in [
            "numClientConnections",
            "numAScopedConnections",
            "totalInUse",
            "totalAvailable",
            "totalLeased",
            "totalCreated",
            "totalRefreshing",
        ] {
            out.put(name, 0);
        }
        out.doc("pools", |_| ());
        out.doc("hosts", |_| ());
        Ok(())
    },
    ..Command::ROW
};
