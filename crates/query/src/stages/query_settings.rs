//! `$querySettings`: answered only by the server itself, on a database.

use super::of_server::{OfServer, Where};
use super::prelude::*;

pub(super) static QUERY_SETTINGS: StageSpec = StageSpec {
    name: "$querySettings",
    place: Place::First,
    parse: |spec, cx| OF_SERVER.parse(spec, cx),
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

static OF_SERVER: OfServer = OfServer {
    name: "$querySettings",
    runs_on: Where::Databases,
    refusal: "'$querySettings' can only be run with {aggregate: 1}",
};
