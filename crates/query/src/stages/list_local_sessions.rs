//! `$listLocalSessions`: answered only by the server itself, on a database.

use super::of_server::{OfServer, Where};
use super::prelude::*;

pub(super) static LIST_LOCAL_SESSIONS: StageSpec = StageSpec {
    name: "$listLocalSessions",
    place: Place::First,
    parse: |spec, cx| OF_SERVER.parse(spec, cx),
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

static OF_SERVER: OfServer = OfServer {
    name: "$listLocalSessions",
    runs_on: Where::Databases,
    refusal: "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection",
};
