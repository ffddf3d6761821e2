//! Counts the operators that a finished request has used: `metrics.operatorCounters`.
//!
//! As in MongoDB, an explained command counts like one that runs, a query on a view counts the view's pipeline as well,
//! and a request that fails counts nothing.

use nagi_bson::Doc;
use nagi_store::Namespace;

use crate::commands;
use crate::core::command::Done;
use crate::core::server::Server;
use crate::metrics::LatencyKind;
use crate::metrics::operators::Holds;
use crate::request::{Facts, Request};

/// Limit of views upon views.
const VIEW_DEPTH_MAX: usize = 20;

/// Counts them. For a lookup by `_id` it costs a look at its filter; for another read also a look into the catalog.
pub(crate) fn count(server: &Server, request: &Request<'_>, done: &Done) {
    let Some((command, body)) = meant(request) else { return };
    let operators = command.operators;
    if operators.is_empty() {
        return;
    }
    let holds = |name: &str| operators.contains(&(name, Holds::Statements));
    let beside = request.sequences.iter().filter(|sequence| holds(sequence.name));
    let statements = beside.flat_map(|sequence| sequence.iter());
    server.metrics.operators.count(operators, body, statements);
    // A lookup that was answered without a plan read no view.
    let may_read_view = command.on_collection && command.latency == LatencyKind::Read;
    if may_read_view && done.plan_summary.is_empty() {
        count_views(server, request.db, body);
    }
}

/// The command that was run or explained, and the document that has its arguments.
fn meant<'a>(request: &Request<'a>) -> Option<(&'static Facts, Doc<'a>)> {
    match request.command.operators {
        [(name, Holds::Command)] => {
            let body = request.body.get(name).as_doc()?;
            let command = commands::find(body.first()?.name())?;
            Some((&command.facts, body))
        }
        _ => Some((request.command, request.body)),
    }
}

/// Counts the operators of the view that a command reads, and of the views that it is based on.
fn count_views(server: &Server, db: &str, body: Doc<'_>) {
    let name = body.first().and_then(|first| first.value().as_str());
    let Some(mut at) = name.and_then(|name| Namespace::new(db, name).ok()) else { return };
    let catalog = server.store.catalog();
    for _ in 0..VIEW_DEPTH_MAX {
        let Some(view) = catalog.collection(&at).and_then(|found| found.options.view.as_ref())
        else {
            return;
        };
        server.metrics.operators.count_pipeline(view.pipeline.as_array());
        at = view.on.clone();
    }
}
