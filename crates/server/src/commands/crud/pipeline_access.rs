//! The privileges that a pipeline requires on each collection that it reads or writes.

use nagi_bson::ArrayBuf;
use nagi_query::{AggregateRequest, Touch, Use};

use super::{aggregate::Args, own_stages};
use crate::auth::Target;
use crate::core::command::prelude::*;

/// The access check of `aggregate`.
pub(super) fn access(asking: &Asking<'_>, req: &Request<'_>) -> Result<bool> {
    let args = Args::parse(req)?;
    // A first stage that the server answers itself has a check of its own. The stages after it are checked as
    // if `$documents` came first.
    let ns = args.namespace(req.db)?;
    let own = own_stages::may(asking, &ns, args.pipeline);
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

/// Returns true if the client may define a view like this: it may read everything that the view reads, or it may not
/// read the view. Otherwise the view would show it what it may not read.
pub(in crate::commands) fn may_define_view(
    asking: &Asking<'_>,
    db: &str,
    view: &str,
    source: &str,
    pipeline: Array<'_>,
) -> Result<bool> {
    let ns = crate::commands::common::namespace(db, source)?;
    Ok(!asking.on_collection(db, view, Action::Find)
        || allowed(asking, &AggregateRequest::new(&ns, pipeline), false)?)
}

fn allowed(asking: &Asking<'_>, request: &AggregateRequest<'_>, bypass: bool) -> Result<bool> {
    let touches = match nagi_query::touches(request) {
        Ok(touches) => touches,
        // Which error an invalid pipeline has is for clients that may read the collection.
        Err(error) => {
            let ns = request.namespace;
            return match asking.on_collection(ns.database(), ns.collection(), Action::Find) {
                true => Err(error),
                false => Ok(false),
            };
        }
    };
    Ok(touches.iter().all(|Touch { namespace, usage }| {
        let may =
            |action| asking.on_collection(namespace.database(), namespace.collection(), action);
        let bypasses = || !bypass || may(Action::BypassDocumentValidation);
        match usage {
            Use::Read => may(Action::Find),
            Use::CollStats => may(Action::CollStats),
            Use::IndexStats => may(Action::IndexStats),
            Use::Watch => may(Action::ChangeStream) && may(Action::Find),
            Use::WatchDatabase => {
                let on = |action| asking.on_database(namespace.database(), action);
                on(Action::ChangeStream) && on(Action::Find)
            }
            Use::WatchCluster => {
                let on = |action| asking.allows(Target::Everywhere, action);
                on(Action::ChangeStream) && on(Action::Find)
            }
            Use::PlanCache => may(Action::PlanCacheRead),
            Use::Insert => may(Action::Insert) && bypasses(),
            Use::Update => may(Action::Update) && bypasses(),
            Use::Remove => may(Action::Remove),
        }
    }))
}
