//! `$listSessions`: its privileges. The stage itself fails in the pipeline, because no collection has the sessions.

use super::{OwnStage, list_local_sessions};

pub(super) static LIST_SESSIONS: OwnStage = OwnStage {
    name: "$listSessions",
    applies: |_, _| false,
    access: Some(list_local_sessions::access),
    ..OwnStage::ROW
};
