//! `serverStatus`: counters and gauges, in the sections that tools read.
//!
//! Each section is a row; `{section: 0}` omits one. Sections of subsystems that this server does not have are
//! absent rather than filled with zeroes.

use super::{index_status, ldap_status, metric_tree, set_status, status, wired_tiger};
use crate::clock;
use crate::core::command::prelude::*;
use crate::core::server::Server;
use crate::memory_line::Memory;
use crate::metrics::Metrics;
use crate::tickets::Pool;
use std::sync::atomic::{AtomicI64, Ordering};

pub(in crate::commands) static SERVER_STATUS: Command = Command {
    facts: Facts { name: "serverStatus", help: "Counters and gauges of the server.", ..Facts::ROW },
    access: Access::Cluster(&[Action::ServerStatus]),
    run,
    ..Command::ROW
};

type Section = (&'static str, fn(&Server, &mut DocWriter<'_>));

/// The sections in the order of the reply.
static SECTIONS: &[Section] = &[
    ("asserts", asserts),
    ("backgroundFlushing", background_flushing),
    ("batchedDeletes", batched_deletes),
    ("bucketCatalog", |_, out| nagi_query::write_bucket_catalog(out)),
    ("catalogStats", catalog_stats),
    ("connections", connections),
    ("defaultRWConcern", default_rw_concern),
    ("electionMetrics", set_status::elections),
    ("encryptionAtRest", encryption_at_rest),
    ("extra_info", extra_info),
    ("flowControl", set_status::flow_control),
    ("globalLock", global_lock),
    ("indexBuilds", index_status::builds),
    ("indexBulkBuilder", index_status::bulk_builder),
    ("indexStats", index_status::write),
    ("ldapConnPool", ldap_status::connections),
    ("ldapOperations", ldap_status::operations),
    ("locks", |server, out| server.metrics.locks.write(out)),
    ("logicalSessionRecordCache", session_cache),
    ("network", network),
    ("opLatencies", |server, out| op_latencies(server, false, out)),
    ("opWriteConcernCounters", |server, out| server.metrics.write_concerns.write(out)),
    ("opcounters", op_counters),
    ("opcountersRepl", set_status::op_counters),
    ("oplog", set_status::oplog),
    ("oplogTruncation", set_status::oplog_truncation),
    ("planCache", metric_tree::plan_cache),
    ("profiler", profiler),
    ("querySettings", |server, out| server.settings.query_settings.write_status(out)),
    ("queues", queues),
    ("readConcernCounters", |server, out| server.metrics.read_concerns.write(out)),
    ("repl", set_status::repl),
    ("security", security),
    ("sharedWrites", shared_writes),
    ("storageEngine", storage_engine),
    ("transactions", transactions),
    ("transportSecurity", transport_security),
    ("wiredTiger", wired_tiger::write),
    ("mem", memory),
    ("metrics", metric_tree::write),
    ("nagi", nagi),
];

/// Returns true for sections of a reply that does not ask for single ones. As in mongod, the others read data.
pub(super) fn is_usual(name: &str) -> bool {
    name != "oplog"
}

fn security(server: &Server, out: &mut DocWriter<'_>) {
    server.auth.logins.write(out);
    server.auth.tokens.write_status(out);
    if let Some(tls) = &server.tls {
        let own = tls.own_certificate();
        out.put("SSLServerSubjectName", &own.subject);
        out.put("SSLServerHasCertificateAuthority", own.has_authority);
        out.put("SSLServerCertificateExpirationDate", Value::DateTime(own.expires_ms));
    }
}

/// The cipher and the keys of the data files.
fn encryption_at_rest(server: &Server, out: &mut DocWriter<'_>) {
    let Some(keys) = &server.keys else { return };
    out.put("encryptionEnabled", true);
    out.put("encryptionCipherMode", "AES256-CTR");
    out.put("encryptionKeyId", keys.master_key_id().as_str());
    if !keys.master_key_name().is_empty() {
        out.put("kmipKeyId", keys.master_key_name());
    }
    out.put("generation", i32::try_from(keys.generation()).unwrap_or(i32::MAX));
    let created_secs = i64::try_from(keys.newest_secs()).unwrap_or(i64::MAX);
    out.put("generationCreated", Value::DateTime(created_secs.saturating_mul(1000)));
}

/// Handshakes by version of the protocol. Versions before 1.2 are not supported.
fn transport_security(server: &Server, out: &mut DocWriter<'_>) {
    let [v12, v13] = server.tls.as_ref().map_or([0; 2], |tls| tls.accepted_counts());
    for (version, count) in [("1.0", 0), ("1.1", 0), ("1.2", v12), ("1.3", v13), ("unknown", 0)] {
        out.put(version, i64::try_from(count).unwrap_or(i64::MAX));
    }
}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let section = |name| args::read::<Option<Truthy>>(req.body, "serverStatus", name);
    let none = section("none")? == Some(Truthy(true));
    let is_wanted =
        |name: &'static str| Ok(section(name)?.map_or(!none && is_usual(name), |wanted| wanted.0));
    let histograms = req.body.get("opLatencies").as_doc();
    let histograms = match histograms {
        Some(asked) => args::read::<Truthy>(asked, "serverStatus", "histograms")?.0,
        None => false,
    };
    write_server_status(cx.server, &is_wanted, histograms, out)
}

impl Server {
    /// Writes what `serverStatus` replies to a client that asks for histograms too, for interfaces of this process that
    /// watch it. Takes about a millisecond.
    pub fn write_status(&self, out: &mut DocWriter<'_>) {
        // Only the reading of a request's fields fails.
        let _ = write_server_status(self, &|name| Ok(is_usual(name)), true, out);
    }
}

/// Writes the fields of the reply, with the sections for which `is_wanted` returns true.
pub(super) fn write_server_status(
    server: &Server,
    is_wanted: &dyn Fn(&'static str) -> Result<bool>,
    histograms: bool,
    out: &mut DocWriter<'_>,
) -> Result<()> {
    let uptime_ms = (clock::micros_since(server.identity.started) / 1000) as i64;
    out.put("host", &server.host_and_port());
    out.put("version", crate::limits::COMPATIBLE_VERSION);
    // Tools take it as the sign of a router.
    out.put("process", if server.router.is_some() { "mongos" } else { "nagi" });
    out.put("service", Array::EMPTY);
    out.put("pid", i64::from(std::process::id()));
    // A whole number of seconds as a double, which tools convert to an integer.
    out.put("uptime", (uptime_ms / 1000) as f64);
    out.put("uptimeMillis", uptime_ms);
    out.put("uptimeEstimate", uptime_ms / 1000);
    out.put("localTime", Value::DateTime(clock::wall_ms()));
    for (name, write) in SECTIONS {
        let absent = match *name {
            "electionMetrics" | "flowControl" | "oplog" | "oplogTruncation" | "repl" => {
                server.replica.is_none()
            }
            "encryptionAtRest" => server.keys.is_none(),
            "bucketCatalog" => !has_series(server),
            "opWriteConcernCounters" => {
                !server.settings.params.bool("reportOpWriteConcernCountersInServerStatus")
            }
            "ldapConnPool" | "ldapOperations" => server.auth.directory.directory().is_none(),
            // Tools take this section as the sign of an engine with a cache.
            "wiredTiger" => ["mmapv1", "tikv"].contains(&server.config.storage_engine.as_str()),
            "sharedWrites" => nagi_percore::shared_writes().is_empty(),
            "backgroundFlushing" => server.config.storage_engine != "mmapv1",
            _ => false,
        };
        if absent || !is_wanted(name)? {
            continue;
        }
        match *name {
            "opLatencies" if histograms => {
                out.doc(name, |section| op_latencies(server, true, section));
            }
            _ => out.doc(name, |section| write(server, section)),
        }
    }
    Ok(())
}

/// Writes to shared memory by place, in builds that count them: see `nagi-bench contention`.
fn shared_writes(_: &Server, out: &mut DocWriter<'_>) {
    for (place, writes) in nagi_percore::shared_writes() {
        out.doc(place, |out| {
            out.put("lines", writes.lines as i64);
            out.put("operations", writes.operations as i64);
        });
    }
}

fn asserts(server: &Server, out: &mut DocWriter<'_>) {
    let asserts = &server.metrics.asserts;
    out.put("regular", asserts.regular.get() as i32);
    out.put("warning", 0);
    out.put("msg", 0);
    out.put("user", asserts.user.get() as i32);
    out.put("tripwire", 0);
    out.put("rollovers", 0);
}

/// Deletes of many documents, which are committed in batches.
fn batched_deletes(server: &Server, out: &mut DocWriter<'_>) {
    let figures = nagi_query::delete_figures(&server.store);
    out.put("batches", figures.batches as i64);
    out.put("docs", figures.docs as i64);
    out.put("stagedSizeBytes", figures.bytes as i64);
    out.put("timeInBatchMillis", (figures.micros / 1000) as i64);
    out.put("refetchesDueToYield", figures.refetches as i64);
}

/// The number of checkpoints of the memory-mapped engine.
fn background_flushing(server: &Server, out: &mut DocWriter<'_>) {
    server.store.engine().stats(&mut |name, value| {
        if name == "checkpoints" {
            out.put("flushes", value);
        }
    });
}

fn catalog_stats(server: &Server, out: &mut DocWriter<'_>) {
    let catalog = server.store.catalog();
    let series = catalog.iter().filter(|c| c.options.timeseries.is_some()).count() as i32;
    let views = catalog.iter().filter(|c| c.is_view()).count() as i32;
    let system = catalog.iter().filter(|c| !c.is_view() && c.namespace.is_system()).count() as i32;
    let capped = catalog.iter().filter(|c| c.options.capped).count() as i32;
    let is_clustered = |c: &&std::sync::Arc<nagi_store::Collection>| {
        c.options.clustered.is_some() && !c.namespace.is_buckets()
    };
    let clustered = catalog.iter().filter(is_clustered).count() as i32;
    out.put("collections", catalog.iter().count() as i32 - views - system);
    out.put("capped", capped);
    out.put("clustered", clustered);
    out.put("timeseries", series);
    // Each time series is a view, too.
    out.put("views", views - series);
    out.put("internalCollections", system);
    out.put("internalViews", 0);
    let profiles = catalog.iter().filter(|c| c.namespace.collection() == "system.profile");
    out.put("systemProfile", profiles.count() as i32);
}

fn has_series(server: &Server) -> bool {
    server.store.catalog().iter().any(|c| c.options.timeseries.is_some())
}

fn connections(server: &Server, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    let current = metrics.connections.get();
    out.put("current", current as i32);
    out.put("available", (server.config.connection_count_max - current).max(0) as i32);
    out.put("totalCreated", metrics.connections_created.get());
    out.put("rejected", metrics.connections_rejected.get());
    out.put("rejectedByAddress", metrics.connections_not_allowed.get());
    out.put("active", metrics.active_requests.get() as i32);
    out.put("threaded", current as i32);
    out.put("exhaustIsMaster", 0);
    out.put("exhaustHello", metrics.awaiting_hello.get() as i32);
    out.put("awaitingTopologyChanges", metrics.awaiting_hello.get() as i32);
    out.put("loadBalanced", 0);
}

fn default_rw_concern(server: &Server, out: &mut DocWriter<'_>) {
    server.settings.rw_defaults.write(&server.default_write_concern(), out);
}

fn extra_info(_: &Server, out: &mut DocWriter<'_>) {
    let (faults, user_us, system_us) = status::faults_and_times();
    let (voluntary, involuntary) = status::context_switches();
    let (input_blocks, output_blocks) = status::disk_blocks();
    out.put("note", "fields vary by platform");
    out.put("page_faults", faults);
    out.put("page_reclaims", status::page_reclaims());
    out.put("input_blocks", input_blocks);
    out.put("output_blocks", output_blocks);
    out.put("user_time_us", user_us);
    out.put("system_time_us", system_us);
    out.put("maximum_resident_set_kb", status::peak_resident_kb());
    out.put("voluntary_context_switches", voluntary);
    out.put("involuntary_context_switches", involuntary);
    out.put("threads", status::process().2);
}

fn global_lock(server: &Server, out: &mut DocWriter<'_>) {
    out.put("totalTime", clock::micros_since(server.identity.started) as i64);
    let tickets = &server.clients.tickets;
    let mut pair = |name, readers: i64, writers: i64| {
        out.doc(name, |doc| {
            doc.put("total", (readers + writers) as i32);
            doc.put("readers", readers as i32);
            doc.put("writers", writers as i32);
        });
    };
    // mongostat computes the queued operations from these two and the tickets in use, so an operation must be in one of
    // them only, and one that waits for events, without a ticket, in none.
    let queued = |pool: &Pool| pool.waiting() + pool.blocked();
    pair("currentQueue", queued(&tickets.read), queued(&tickets.write));
    pair("activeClients", tickets.read.working(), tickets.write.working());
}

fn session_cache(server: &Server, out: &mut DocWriter<'_>) {
    out.put("activeSessionsCount", server.clients.sessions.count() as i32);
    server.metrics.session_jobs.write(out);
    out.put("sessionCatalogSize", server.clients.txn_sessions.count() as i32);
}

fn network(server: &Server, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    out.put("bytesIn", metrics.bytes_in.get());
    out.put("bytesOut", metrics.bytes_out.get());
    out.put("physicalBytesIn", metrics.physical_bytes_in.get());
    out.put("physicalBytesOut", metrics.physical_bytes_out.get());
    out.put("numSlowDNSOperations", 0_i64);
    out.put("numSlowSSLOperations", 0_i64);
    out.put("numRequests", metrics.request_count.get());
    // Each connection has a thread, which runs its requests.
    out.doc("serviceExecutors", |doc| {
        let (all, running) = (metrics.connections.get(), metrics.active_requests.get());
        doc.doc("passthrough", |doc| {
            doc.put("threadsRunning", all as i32);
            doc.put("clientsInTotal", all as i32);
            doc.put("clientsRunning", running as i32);
            doc.put("clientsWaitingForData", (all - running).max(0) as i32);
        });
    });
    out.doc("compression", |doc| {
        for (id, name) in [(1, "snappy"), (3, "zstd"), (2, "zlib")] {
            let counter = &metrics.compression[id];
            doc.doc(name, |one| {
                one.doc("compressor", |c| {
                    c.put("bytesIn", counter.compressor_in.get());
                    c.put("bytesOut", counter.compressor_out.get());
                });
                one.doc("decompressor", |c| {
                    c.put("bytesIn", counter.decompressor_in.get());
                    c.put("bytesOut", counter.decompressor_out.get());
                });
            });
        }
    });
}

fn op_latencies(server: &Server, histograms: bool, out: &mut DocWriter<'_>) {
    let metrics = &server.metrics;
    let kinds = [
        ("reads", &metrics.reads),
        ("writes", &metrics.writes),
        ("commands", &metrics.commands),
        ("transactions", &server.clients.txn_sessions.latency),
    ];
    for (name, latency) in kinds {
        out.doc(name, |doc| latency.write(histograms, doc));
    }
}

fn op_counters(server: &Server, out: &mut DocWriter<'_>) {
    let Metrics { ops, .. } = &server.metrics;
    out.put("insert", ops.insert.get());
    out.put("query", ops.query.get());
    out.put("update", ops.update.get());
    out.put("delete", ops.delete.get());
    out.put("getmore", ops.get_more.get());
    out.put("command", ops.command.get());
    let metrics = &server.metrics;
    let legacy = [
        ("insert", &metrics.legacy_insert),
        ("query", &metrics.legacy_query),
        ("update", &metrics.legacy_update),
        ("delete", &metrics.legacy_delete),
        ("getmore", &metrics.legacy_get_more),
        ("killcursors", &metrics.legacy_kill_cursors),
    ];
    let total = legacy.iter().map(|one| one.1.get()).sum::<i64>();
    if total > 0 {
        out.doc("deprecated", |doc| {
            doc.put("total", total);
            legacy.iter().for_each(|(name, counter)| doc.put(name, counter.get()));
        });
    }
}

fn queues(server: &Server, out: &mut DocWriter<'_>) {
    out.doc("execution", |doc| {
        doc.doc("write", |pool| server.clients.tickets.write.write_queue(pool));
        doc.doc("read", |pool| server.clients.tickets.read.write_queue(pool));
    });
}

/// Entries of `system.profile`.
fn profiler(server: &Server, out: &mut DocWriter<'_>) {
    out.put("totalWrites", server.metrics.profile_writes.get());
    out.put("activeWriters", server.metrics.profile_writers.get());
}

fn storage_engine(server: &Server, out: &mut DocWriter<'_>) {
    out.put("name", server.config.storage_engine.as_str());
    out.put("supportsCommittedReads", true);
    out.put("supportsPendingDrops", true);
    out.put("supportsSnapshotReadConcern", true);
    out.put("readOnly", false);
    out.put("persistent", server.config.persistent);
    out.put("backupCursorOpen", server.upkeep.backups.is_open());
    // Dropped data whose space is not free yet.
    server.store.engine().stats(&mut |name, value| {
        if name == "ranges_to_reclaim" {
            out.put("dropPendingIdents", value);
        }
    });
}

fn transactions(server: &Server, out: &mut DocWriter<'_>) {
    let numbered = &server.clients.txn_sessions;
    let open = numbered.open_transactions();
    let active = open.iter().filter(|open| open.active).count();
    let total = |counter: &AtomicI64| counter.load(Ordering::Relaxed);
    out.put("retriedCommandsCount", total(&numbered.retried_commands));
    out.put("retriedStatementsCount", total(&numbered.retried_statements));
    out.put("transactionsCollectionWriteCount", total(&numbered.record_writes));
    out.put("currentActive", active as i64);
    out.put("currentInactive", (open.len() - active) as i64);
    out.put("currentOpen", open.len() as i64);
    out.put("totalAborted", total(&numbered.aborted));
    out.put("totalCommitted", total(&numbered.committed));
    out.put("totalStarted", total(&numbered.started));
    // Only sharded clusters prepare transactions, so these are zero.
    for name in ["totalPrepared", "totalPreparedThenCommitted", "totalPreparedThenAborted"] {
        out.put(name, 0_i64);
    }
    out.put("currentPrepared", 0_i64);
}

fn memory(server: &Server, out: &mut DocWriter<'_>) {
    let memory = Memory::of(&server.store);
    let int = |mb: i64| i32::try_from(mb).unwrap_or(i32::MAX);
    out.put("bits", usize::BITS as i32);
    out.put("resident", int(memory.resident_mb));
    out.put("virtual", int(memory.virtual_mb));
    if let Some(mapped_mb) = memory.mapped_mb {
        out.put("mapped", int(mapped_mb));
    }
    out.put("supported", true);
}

fn nagi(server: &Server, out: &mut DocWriter<'_>) {
    out.put("version", server.config.nagi_version);
    if let Some(audit) = &server.audit {
        out.doc("audit", |doc| audit.write_status(doc));
    }
    out.put("failedLogins", server.auth.logins.refused.get());
    let tickets = &server.clients.tickets;
    out.put("waitingForLock", tickets.read.blocked() + tickets.write.blocked());
    out.doc("memory", |doc| super::memory::write(server, doc));
    if server.spans.is_on() {
        out.doc("openTelemetry", |doc| server.spans.write_status(doc));
    }
    out.doc("storage", |doc| {
        server.store.engine().stats(&mut |name, value| doc.put(name, value));
    });
    out.doc("spills", |doc| {
        let figures = server.store.spill_figures();
        doc.put("open", figures.open as i64);
        doc.put("openBytes", figures.open_bytes as i64);
        doc.put("diskBytes", figures.disk_bytes as i64);
        doc.put("runs", figures.runs as i64);
        doc.put("writtenBytes", figures.written_bytes as i64);
    });
    // The window of an oplog that has removed nothing yet says nothing: it grows.
    let removed_to = server.metrics.oplog_removed_to_secs.load(Ordering::Relaxed);
    if removed_to > 0 {
        let window = i64::from(clock::wall_seconds()) - removed_to;
        out.doc("oplog", |doc| doc.put("windowSecs", window.max(0)));
    }
    if let Some((ended_ms, age_ms)) = server.upkeep.backups.newest() {
        out.doc("lastBackup", |doc| {
            doc.put("at", Value::DateTime(ended_ms));
            doc.put("ageSecs", age_ms / 1000);
        });
    }
    out.doc("jobs", |doc| {
        doc.put("rests", server.metrics.job_rests.get());
        doc.put("restMicros", server.metrics.job_rest_micros.get());
    });
    out.doc("parallelReads", |doc| {
        let (open, total) = server.clients.workers.counts();
        doc.put("open", open);
        doc.put("total", total);
    });
}
