//! The section `metrics` of `serverStatus`.

use super::set_status;
use crate::commands;
use crate::core::command::prelude::*;
use crate::core::server::Server;

type Branch = (&'static str, fn(&Server, &mut DocWriter<'_>));

static BRANCHES: &[Branch] = &[
    ("aggStageCounters", |server, out| server.metrics.stages.write(out)),
    ("commands", commands),
    ("cursor", cursor),
    ("document", document),
    ("getLastError", get_last_error),
    ("operation", operation),
    ("operatorCounters", |server, out| server.metrics.operators.write(out)),
    ("query", query),
    ("queryExecutor", query_executor),
    ("queryStats", |server, out| server.query_stats.write_status(out)),
    ("repl", set_status::metrics),
    ("ttl", ttl),
];

pub(super) fn write(server: &Server, out: &mut DocWriter<'_>) {
    for (name, write) in BRANCHES {
        out.doc(name, |branch| write(server, branch));
    }
}

fn commands(server: &Server, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    out.put("<UNKNOWN>", metrics.unknown_commands.get());
    let router = server.router.is_some();
    let rows = commands::all().zip(&metrics.by_command).filter(|(row, _)| row.is_of(router));
    for (command, counter) in rows {
        out.doc(command.name, |one| {
            one.put("failed", counter.failed.get());
            one.put("total", counter.total.get());
        });
    }
}

fn cursor(server: &Server, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    let (total, pinned, no_timeout) = server.clients.cursors.counts();
    out.put("moreThanOneBatch", metrics.cursors_more_than_one_batch.get());
    out.put("timedOut", metrics.cursors_timed_out.get());
    out.put("totalOpened", metrics.cursors_opened.get());
    out.doc("lifespan", |out| server.clients.cursors.lifespans.write(out));
    out.doc("open", |open| {
        open.put("noTimeout", no_timeout);
        open.put("pinned", pinned);
        open.put("total", total);
    });
}

fn document(server: &Server, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    out.put("deleted", metrics.documents_deleted.get());
    out.put("inserted", metrics.documents_inserted.get());
    out.put("returned", metrics.documents_returned.get());
    out.put("updated", metrics.documents_updated.get());
}

/// Waits of writes for other members. A set has one member, so nothing waits and nothing times out: a write concern
/// that it cannot satisfy fails at once.
fn get_last_error(_: &Server, out: &mut DocWriter<'_>) {
    out.doc("wtime", |out| {
        out.put("num", 0);
        out.put("totalMillis", 0);
    });
    out.put("wtimeouts", 0_i64);
}

fn operation(server: &Server, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    out.put("killedDueToClientDisconnect", metrics.lost_clients.get());
    out.put("killedDueToMaxTimeMSExpired", metrics.timed_out.get());
    out.put("scanAndOrder", metrics.sorted_requests.get());
    out.put("writeConflicts", metrics.write_conflicts.get());
}

fn query(server: &Server, out: &mut DocWriter<'_>) {
    let plans = nagi_query::plan_cache_figures(&server.store);
    out.put("planCacheTotalQueryShapes", plans.entries as i64);
    out.put("planCacheTotalSizeEstimateBytes", plans.bytes as i64);
    out.doc("planCache", |out| {
        out.doc("classic", |out| {
            out.put("hits", plans.hits as i64);
            out.put("misses", plans.misses as i64);
            out.put("replanned", plans.replanned as i64);
        });
    });
    let sorts = nagi_query::sort_figures(&server.store);
    out.doc("sort", |out| {
        out.put("spillToDisk", sorts.spills as i64);
        out.put("totalBytesSorted", sorts.bytes as i64);
        out.put("totalKeysSorted", sorts.keys as i64);
    });
}

fn query_executor(server: &Server, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    out.put("scanned", metrics.keys_examined.get());
    out.put("scannedObjects", metrics.docs_examined.get());
    out.doc("collectionScans", |out| {
        let (total, tailable) =
            (metrics.collection_scans.get(), metrics.collection_scans_tailable.get());
        out.put("nonTailable", total - tailable);
        out.put("total", total);
    });
}

fn ttl(server: &Server, out: &mut DocWriter<'_>) {
    out.put("deletedDocuments", server.metrics.ttl_deleted.get());
    out.put("passes", server.metrics.ttl_passes.get());
}

/// The section `planCache`: the same figures, where MongoDB has them since 7.0.
pub(super) fn plan_cache(server: &Server, out: &mut DocWriter<'_>) {
    let plans = nagi_query::plan_cache_figures(&server.store);
    out.put("totalQueryShapes", plans.entries as i64);
    out.put("totalSizeEstimateBytes", plans.bytes as i64);
    out.doc("classic", |out| {
        out.put("hits", plans.hits as i64);
        out.put("misses", plans.misses as i64);
        out.put("replanned", plans.replanned as i64);
    });
}
