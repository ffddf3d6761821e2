//! `getFreeMonitoringStatus`: shells of 4.0-6.0 ask when they connect; there is no such service.

use crate::command::prelude::*;

pub(in crate::commands) static GET_FREE_MONITORING_STATUS: Command = Command {
    name: "getFreeMonitoringStatus",
    help: "State of the free monitoring service: always disabled.",
    access: Access::Cluster(&[Action::CheckFreeMonitoringStatus]),
    admin_only: true,
    run: |_, _, out| {
        out.put("state", "disabled");
        Ok(())
    },
    ..Command::ROW
};
