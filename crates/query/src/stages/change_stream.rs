//! `$changeStream`: answered only by the server itself, on a member of a replica set.

use super::prelude::*;

pub(super) static CHANGE_STREAM: StageSpec = StageSpec {
    name: "$changeStream",
    place: Place::First,
    parse: change_stream,
    facts: StageFacts {
        in_transaction: false,
        in_view: false,
        runs_on: RunsOn::Either,
        ..StageFacts::ORDINARY
    },
    ..StageSpec::ROW
};

fn change_stream(_: Value<'_>, _: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    bail!(Code::Location(40573), "The $changeStream stage is only supported on replica sets");
}
