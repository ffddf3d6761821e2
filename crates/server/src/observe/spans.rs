//! Records a finished request as a span.

use std::time::{SystemTime, UNIX_EPOCH};

use nagi_error::Error;

use crate::core::server::Server;
use crate::observe::slow::Finished;
use crate::spans::{Span, spread};

/// Records the request if spans are on and its trace is sampled. Handshakes and logins are not recorded: drivers send
/// them on their own, too.
pub(crate) fn observe(server: &Server, finished: &Finished<'_>) {
    if !server.spans.is_on() || finished.request.command.before_login {
        return;
    }
    let mut draw = || spread(server.draw_seed());
    let comment = finished.request.generic.comment;
    let Some(trace) = server.spans.sample(comment, &mut draw) else { return };
    let Finished { op, request, done, micros, .. } = *finished;
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end_ns = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
    let namespace = op.namespace();
    let collection = namespace.split_once('.').map_or("", |(_, collection)| collection);
    let mut plan_summary = op.plan_summary();
    if plan_summary.is_empty() {
        plan_summary.push_str(done.plan_summary);
    }
    let named = |error: &Error| (error.code().0, error.code().name().into_owned());
    server.spans.record(Span {
        trace_id: trace.trace_id,
        id: (draw() | 1).to_be_bytes(),
        parent: trace.parent,
        begin_ns: end_ns.saturating_sub(micros.saturating_mul(1000)),
        end_ns,
        operation: request.command.name,
        database: request.db.to_owned(),
        // `$cmd`: it concerns no collection.
        collection: if collection.starts_with("$cmd") { "" } else { collection }.to_owned(),
        error: finished.error.map(named),
        client: op.remote.clone(),
        returned: done.returned,
        keys_examined: done.keys_examined,
        docs_examined: done.docs_examined,
        plan_summary,
    });
}
