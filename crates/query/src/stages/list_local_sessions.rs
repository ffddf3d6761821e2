//! `$listLocalSessions`: answered only by the server itself, on a database.

use super::prelude::*;

pub(super) static LIST_LOCAL_SESSIONS: StageSpec = StageSpec {
    name: "$listLocalSessions",
    place: Place::First,
    parse: list_local_sessions,
    facts: StageFacts {
        in_transaction: false,
        in_api: false,
        rejectable: false,
        runs_on: RunsOn::Either,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};

fn list_local_sessions(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(
        Code::INVALID_NAMESPACE,
        "$listLocalSessions must be run against the database with {{aggregate: 1}}, not a collection"
    );
}
