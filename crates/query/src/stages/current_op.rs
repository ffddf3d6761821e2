//! `$currentOp`: answered only by the server itself, as the first stage on `admin`.

use super::prelude::*;

pub(super) static CURRENT_OP: StageSpec = StageSpec {
    name: "$currentOp",
    place: Place::First,
    parse: current_op,
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

fn current_op(_: Value<'_>, cx: &mut PipelineCx<'_>) -> Result<Box<dyn Stage>> {
    if cx.namespace.database() != "admin" {
        bail!(
            Code::INVALID_NAMESPACE,
            "$currentOp must be run against the 'admin' database with {{aggregate: 1}}"
        );
    }
    bail!(
        Code::COMMAND_NOT_SUPPORTED,
        "$currentOp is not supported as a stage by this server; use the currentOp command"
    );
}
