//! `$listLocalSessions`: answered only by the server itself, on a database.

use super::of_server::OfServer;
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
    on_admin: false,
    refusal: "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection",
};
