//! What a pipeline needs: rights on every collection it reads or writes.

use nagi_bson::ArrayBuf;
use nagi_query::{AggregateRequest, Touch, Use};

use super::{aggregate::Args, own_stages::LIST_LOCAL_CURSORS};
use crate::core::command::prelude::*;

/// The `access` of `aggregate`.
pub(super) fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    let first = args.pipeline.iter().next().and_then(|stage| stage.as_doc()?.first());
    // Stages that the server answers itself; those behind them read what they say.
    let own = match first.map_or("", |stage| stage.name()) {
        "$currentOp" => {
            let all = first.is_some_and(|stage| {
                stage.value().as_doc().is_some_and(|spec| spec.get("allUsers") == Value::Bool(true))
            });
            Some(if all { asking.on_cluster(Action::Inprog) } else { asking.user.is_some() })
        }
        LIST_LOCAL_CURSORS if asking.server.settings.params.bool("enableTestCommands") => {
            Some(asking.on_cluster(Action::ListCursors))
        }
        "$listLocalSessions" => {
            let others = first
                .is_some_and(|stage| stage.value().as_doc().is_some_and(|spec| !spec.is_empty()));
            Some(if others { asking.on_cluster(Action::ListSessions) } else { true })
        }
        "$querySettings" => Some(asking.on_cluster(Action::QuerySettings)),
        _ => None,
    };
    let ns = args.namespace(req.db)?;
    let Some(own) = own else {
        return allowed(asking, &args.request(&ns)?, args.bypass == Some(true));
    };
    let stages = ArrayBuf::build(|stages| {
        stages.doc(|stage| stage.array("$documents", |_| ()));
        args.pipeline.iter().skip(1).for_each(|stage| stages.push(stage));
    });
    let request = AggregateRequest { pipeline: stages.as_array(), ..args.request(&ns)? };
    Ok(own && allowed(asking, &request, args.bypass == Some(true))?)
}

/// Whether one may read what a view of these stages over a collection reads.
pub(in crate::commands) fn reads(
    asking: &Asking<'_>,
    db: &str,
    collection: &str,
    pipeline: Array<'_>,
) -> Result<bool> {
    let ns = crate::commands::common::namespace(db, collection)?;
    allowed(asking, &AggregateRequest::new(&ns, pipeline), false)
}

fn allowed(asking: &Asking<'_>, request: &AggregateRequest<'_>, bypass: bool) -> Result<bool> {
    let touches = nagi_query::touches(request)?;
    Ok(touches.iter().all(|Touch { namespace, usage }| {
        let may =
            |action| asking.on_collection(namespace.database(), namespace.collection(), action);
        let bypasses = || !bypass || may(Action::BypassDocumentValidation);
        match usage {
            Use::Read => may(Action::Find),
            Use::CollStats => may(Action::CollStats),
            Use::IndexStats => may(Action::IndexStats),
            Use::PlanCache => may(Action::PlanCacheRead),
            Use::Insert => may(Action::Insert) && bypasses(),
            Use::Update => may(Action::Update) && bypasses(),
            Use::Remove => may(Action::Remove),
        }
    }))
}
