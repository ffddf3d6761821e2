//! `$currentOp`: answered only by the server itself, as the first stage on `admin`.

use super::of_server::{OfServer, Where};
use super::prelude::*;

pub(super) static CURRENT_OP: StageSpec = StageSpec {
    name: "$currentOp",
    place: Place::First,
    parse: |spec, cx| OF_SERVER.parse(spec, cx),
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

static OF_SERVER: OfServer = OfServer {
    name: "$currentOp",
    runs_on: Where::Admin,
    refusal: "$currentOp must be run against the 'admin' database with {aggregate: 1}",
};
