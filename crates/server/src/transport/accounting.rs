//! What a finished request leaves behind: counters, statistics of queries, the log of slow operations, the profile.

use std::sync::Arc;

use nagi_error::{Code, Error};

use crate::commands;
use crate::core::command::Done;
use crate::core::server::Server;
use crate::metrics::read_concerns::Asked;
use crate::metrics::{LatencyKind, Metrics, OpKind};
use crate::observe::slow::{self, Finished};
use crate::observe::{long, spans};
use crate::request::Request;
use crate::request::concern::WriteConcern;
use crate::settings::params;
use crate::transport::used_operators;

/// Updates counters, the log of slow operations and the profile.
pub(super) fn account(server: &Arc<Server>, finished: &Finished<'_>) {
    let Finished { request, error, done, micros, .. } = *finished;
    let command = request.command;
    let counter = commands::index_of(command).and_then(|i| server.metrics.by_command.get(i));
    if let Some(counter) = counter {
        counter.total.increment();
        if error.is_some() {
            counter.failed.increment();
        }
    }
    server.metrics.ops.count(command.counts_as);
    match error.map(Error::code) {
        Some(Code::MAX_TIME_MS_EXPIRED) => server.metrics.timed_out.increment(),
        Some(Code::CLIENT_DISCONNECT) => server.metrics.lost_clients.increment(),
        _ => {}
    }
    count_read_concern(server, request);
    if !done.waited {
        server.metrics.latency(command.latency).record(micros);
    }
    long::observe(server, finished);
    count_on_collection(server, finished);
    count_documents(&server.metrics, done);
    if error.is_none() {
        note_query(server, finished);
    }
    count_write_concern(server, finished);
    spans::observe(server, finished);
    slow::observe(server, finished);
}

/// Adds a request's document counts to the metrics. No other code does this: a command only fills its [`Done`].
fn count_documents(metrics: &Metrics, done: &Done) {
    let counts = [
        (&metrics.documents_inserted, done.inserted.unwrap_or(0) + done.upserted.unwrap_or(0)),
        (&metrics.documents_updated, done.matched.unwrap_or(0)),
        (&metrics.documents_deleted, done.deleted.unwrap_or(0)),
        (&metrics.documents_returned, done.returned.unwrap_or(0)),
        (&metrics.docs_examined, done.docs_examined),
        (&metrics.keys_examined, done.keys_examined),
        (&metrics.sorted_requests, u64::from(done.has_sort_stage)),
        (&metrics.write_conflicts, done.write_conflicts),
    ];
    for (counter, count) in counts {
        if count > 0 {
            counter.add(count);
        }
    }
    metrics.locks.add(&done.locks);
}

/// Counts the read concern of a query.
fn count_read_concern(server: &Server, request: &Request<'_>) {
    let (command, generic) = (request.command, &request.generic);
    if command.read_concern && command.latency == LatencyKind::Read {
        let asked = Asked {
            level: generic.read_concern.level,
            has_time: generic.read_concern.at_cluster_time.is_some(),
            in_transaction: generic.transaction().is_some(),
        };
        let default = || server.settings.rw_defaults.read_level();
        server.metrics.read_concerns.count(asked, default);
    }
}

/// Counts the operators of a request that ran, and records it in the query statistics. The record of a query whose
/// cursor is open was begun with the cursor.
fn note_query(server: &Server, finished: &Finished<'_>) {
    let Finished { op, request, done, micros, .. } = *finished;
    used_operators::count(server, request, done);
    if done.cursor_id != 0 || done.encrypted {
        return;
    }
    if let Some(limit) = server.query_stats_limit(request) {
        let client = op.client();
        let query = server.stats_query(request, client.as_deref());
        let observed = done.observed(micros, op.queued_micros());
        server.query_stats.record(limit, &query, &observed);
    }
}

/// Counts statements of writes by their write concern, if the server was started for that.
///
/// The sums are those of `opcounters`, as MongoDB's ticket SERVER-38998 says. So the statements of `bulkWrite` count by
/// their kinds, and a `findAndModify` does not count here, because there it is a command.
fn count_write_concern(server: &Server, finished: &Finished<'_>) {
    const ROW: usize = params::position("reportOpWriteConcernCountersInServerStatus");
    if server.settings.params.number(ROW) != 0 {
        let default = server.settings.rw_defaults.write_concern();
        let given = finished.request.generic.write_concern;
        let own =
            if server.is_replicated() { WriteConcern::MAJORITY } else { WriteConcern::DEFAULT };
        server.metrics.write_concerns.count(
            finished.done.tried,
            given.map(|concern| concern.counted()),
            default.map(|concern| concern.counted()),
            own.counted(),
        );
    }
}

/// Counts the request for the collection that it names, and the scans of collections. The statements of `bulkWrite`
/// have counted themselves for theirs.
fn count_on_collection(server: &Server, finished: &Finished<'_>) {
    let Finished { request, done, micros, .. } = *finished;
    let command = request.command;
    let mut scans = done.collection_scans;
    if command.on_collection || command.counts_as == OpKind::GetMore {
        let reads = command.latency == LatencyKind::Read
            && command.counts_as != OpKind::GetMore
            && finished.op.plan_summary().starts_with("COLLSCAN");
        scans += u64::from(reads);
        server.top.record(request, micros, scans);
    }
    if scans > 0 {
        server.metrics.collection_scans.add(scans);
        if request.body.get("tailable").is_truthy() {
            server.metrics.collection_scans_tailable.add(scans);
        }
    }
}
