//! `$listSessions`: fails, because there is no collection of sessions to list.

use super::prelude::*;

pub(super) static LIST_SESSIONS: StageSpec = StageSpec {
    name: "$listSessions",
    place: Place::First,
    parse: list_sessions,
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

fn list_sessions(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::INVALID_NAMESPACE, "$listSessions may only be run against config.system.sessions");
}
