//! `$changeStream` on a member of a replica set: refused, because this server has no change streams yet.

use super::OwnStage;
use crate::core::command::prelude::*;
use crate::replica::ReplicaSet;

pub(super) static CHANGE_STREAM: OwnStage = OwnStage {
    name: "$changeStream",
    // The parser of the stage reports that it requires a replica set.
    applies: |_, _| false,
    check,
    ..OwnStage::ROW
};

fn check(cx: &Context<'_>) -> Result<()> {
    match cx.server.replica.as_ref().is_some_and(ReplicaSet::is_member) {
        true => bail!(
            Code::COMMAND_NOT_SUPPORTED,
            "Change streams ($changeStream) are not available on this server yet; its changes can be \
             read from local.oplog.rs"
        ),
        false => Ok(()),
    }
}
