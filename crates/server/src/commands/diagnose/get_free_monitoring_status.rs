//! `getFreeMonitoringStatus`: reports that the service is disabled. Shells of 4.0-6.0 send it when they
//! connect.

use crate::core::command::prelude::*;

pub(in crate::commands) static GET_FREE_MONITORING_STATUS: Command = Command {
    facts: Facts {
        name: "getFreeMonitoringStatus",
        help: "State of the free monitoring service: always disabled.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::CheckFreeMonitoringStatus]),
    run: |_, _, out| {
        out.put("state", "disabled");
        Ok(())
    },
    ..Command::ROW
};
