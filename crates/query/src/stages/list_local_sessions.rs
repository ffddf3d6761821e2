//! `$listLocalSessions`: answered only by the server itself, on a database.

use super::prelude::*;

pub(super) static LIST_LOCAL_SESSIONS: StageSpec = StageSpec {
    name: "$listLocalSessions",
    place: Place::First,
    parse: list_local_sessions,
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

fn list_local_sessions(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(
        Code::INVALID_NAMESPACE,
        "$listLocalSessions must be run against the database with {{aggregate: 1}}, not a collection"
    );
}
