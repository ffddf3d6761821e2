//! `connPoolStats`: connections to other members. This server has none.

use crate::core::command::prelude::*;

pub(in crate::commands) static CONN_POOL_STATS: Command = Command {
    facts: Facts {
        name: "connPoolStats",
        help: "Outgoing connections to other servers.",
        ..Facts::ROW
    },
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
