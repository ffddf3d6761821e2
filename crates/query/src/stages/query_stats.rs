//! `$queryStats`: answered only by the server itself, as the first stage on `admin`.

use super::prelude::*;

pub(super) static QUERY_STATS: StageSpec = StageSpec {
    name: "$queryStats",
    place: Place::First,
    parse: query_stats,
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

fn query_stats(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(
        Code::INVALID_NAMESPACE,
        "$queryStats must be run against the 'admin' database with {{aggregate: 1}}"
    );
}
