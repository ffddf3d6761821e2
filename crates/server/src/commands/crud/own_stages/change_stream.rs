//! `$changeStream`: what only the server can check. The stage itself is one of the query language's.

use super::OwnStage;
use crate::commands::crud::aggregate::Args;
use crate::core::command::prelude::*;
use crate::replica::ReplicaSet;

pub(super) static CHANGE_STREAM: OwnStage =
    OwnStage { name: "$changeStream", applies: |_, _| false, check, ..OwnStage::ROW };

/// # Errors
/// 40573 on a server that is neither a member of a replica set nor a router whose store logs changes, 72 for a read
/// concern other than `majority`, 166 on a view and on a time series.
fn check(cx: &Context<'_>, req: &Request<'_>, args: &Args<'_>) -> Result<()> {
    let is_logged = match &cx.server.router {
        Some(_) => cx.store().has_change_log(),
        None => cx.server.replica.as_ref().is_some_and(ReplicaSet::is_member),
    };
    if !is_logged {
        bail!(Code::Location(40573), "The $changeStream stage is only supported on replica sets");
    }
    if let Some(level) = req.generic.read_concern.level.filter(|level| *level != "majority") {
        bail!(
            Code::INVALID_OPTIONS,
            "Aggregation stage $changeStream cannot run with a readConcern other than 'majority'. \
             Current readConcern: {level}"
        );
    }
    let ns = args.namespace(req.db)?;
    let found = cx.store().collection(&ns);
    match found.as_ref().and_then(|found| found.options.view.as_ref()) {
        Some(view) if view.on.is_buckets() => {
            bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a timeseries collection")
        }
        Some(_) => {
            bail!(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection")
        }
        None => Ok(()),
    }
}
