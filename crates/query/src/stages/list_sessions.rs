//! `$listSessions`: fails, because there is no collection of sessions to list.

use super::of_server::{OfServer, Where};
use super::prelude::*;

pub(super) static LIST_SESSIONS: StageSpec = StageSpec {
    name: "$listSessions",
    place: Place::First,
    parse: |spec, cx| OF_SERVER.parse(spec, cx),
    facts: StageFacts { runs_on: RunsOn::Either, ..StageFacts::OF_SERVER },
    ..StageSpec::ROW
};

static OF_SERVER: OfServer = OfServer {
    name: "$listSessions",
    runs_on: Where::Sessions,
    refusal: "$listSessions may only be run against config.system.sessions",
};
