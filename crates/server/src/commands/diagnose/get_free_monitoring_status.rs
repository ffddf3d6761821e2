//! `getFreeMonitoringStatus`: shells of 4.0-6.0 ask when they connect; there is no such service.

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
