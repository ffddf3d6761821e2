//! `$querySettings`: answered only by the server itself, on a database.

use super::prelude::*;

pub(super) static QUERY_SETTINGS: StageSpec = StageSpec {
    name: "$querySettings",
    place: Place::First,
    parse: query_settings,
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

fn query_settings(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::INVALID_NAMESPACE, "'$querySettings' can only be run with {{aggregate: 1}}");
}
