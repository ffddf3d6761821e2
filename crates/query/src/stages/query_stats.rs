//! `$queryStats`: answered only by the server itself, as the first stage on `admin`.

use super::of_server::{OfServer, Where};
use super::prelude::*;

pub(super) static QUERY_STATS: StageSpec = StageSpec {
    name: "$queryStats",
    place: Place::First,
    parse: |spec, cx| OF_SERVER.parse(spec, cx),
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

static OF_SERVER: OfServer = OfServer {
    name: "$queryStats",
    runs_on: Where::Admin,
    refusal: "$queryStats must be run against the 'admin' database with {aggregate: 1}",
};
