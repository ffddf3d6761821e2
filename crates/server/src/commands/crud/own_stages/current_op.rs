//! `$currentOp`: the operations of all clients, or of the requesting client only.

use nagi_store::Namespace;

use super::OwnStage;
use crate::commands::crud::aggregate::Args;
use crate::commands::diagnose::{Shown, describe_local_ops, describe_ops};
use crate::core::command::prelude::*;

pub(super) static CURRENT_OP: OwnStage =
    OwnStage { name: "$currentOp", access: Some(access), docs, ..OwnStage::ROW };

fn access(asking: &Asking<'_>, _: &Namespace, spec: Value<'_>) -> bool {
    match spec.as_doc().is_some_and(|spec| spec.get("allUsers") == Value::Bool(true)) {
        true => asking.on_cluster(Action::Inprog),
        false => asking.user.is_some(),
    }
}

fn docs(
    cx: &Context<'_>,
    req: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<Vec<DocBuf>> {
    let Value::Doc(spec) = spec else {
        bail!(
            Code::FAILED_TO_PARSE,
            "$currentOp options must be specified in an object, but found: {}",
            spec.kind().name()
        );
    };
    if req.db != "admin" || matches!(args.collection, Value::String(_)) {
        bail!(
            Code::INVALID_NAMESPACE,
            "$currentOp must be run against the 'admin' database with {{aggregate: 1}}"
        );
    }
    let mut shown = Shown { own_only: true, ..Shown::DEFAULT };
    let mut local_ops = false;
    let mut all_nodes = false;
    for element in spec {
        let Value::Bool(on) = element.value() else {
            bail!(
                Code::FAILED_TO_PARSE,
                "The '{}' parameter of the $currentOp stage must be a boolean value, but found: {}",
                element.name(),
                element.kind().name()
            );
        };
        match element.name() {
            "idleConnections" => shown.idle_connections = on,
            "idleCursors" => shown.idle_cursors = on,
            "idleSessions" => shown.idle_sessions = on,
            "allUsers" => shown.own_only = !on,
            "truncateOps" => shown.truncated = on,
            "targetAllNodes" => all_nodes = on,
            // Where no other server shares the data all operations are local.
            "localOps" => local_ops = on,
            // The call stack is part of the field `waitingForLatch`, which no operation has.
            "backtrace" => {}
            other => {
                bail!(Code::FAILED_TO_PARSE, "Unrecognized option '{other}' in $currentOp stage.")
            }
        }
    }
    match (all_nodes, local_ops) {
        (false, false) => describe_ops(cx, shown),
        (false, true) => Ok(describe_local_ops(cx, shown)),
        (true, true) => bail!(
            Code::FAILED_TO_PARSE,
            "The 'localOps' parameter of the $currentOp stage cannot be true when 'targetAllNodes' is \
             also true"
        ),
        (true, false) => bail!(
            Code::FAILED_TO_PARSE,
            "$currentOp supports targetAllNodes parameter only for sharded clusters"
        ),
    }
}
