//! The figures that the console draws and `/metrics` lists: one row each, read from `serverStatus` or from the machine.

use nagi_bson::{Doc, Value, number};

use crate::machine::Machine;

/// How a figure behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only grows while the server runs.
    Counter,
    Gauge,
}

/// Where a figure is read.
pub(crate) enum Source {
    /// A path of `serverStatus`.
    Status(&'static str),
    /// The sum of a field over all pools of memory.
    Pools(&'static str),
    Machine(fn(&Machine) -> Option<f64>),
}

/// A figure.
pub(crate) struct Figure {
    /// The name in the JSON interface.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unit: &'static str,
    pub(crate) help: &'static str,
    /// The name of the metric without prefix and suffix, and its label.
    pub(crate) metric: &'static str,
    pub(crate) label: Option<(&'static str, &'static str)>,
    pub(crate) source: Source,
}

macro_rules! figures {
    ($(
        $kind:ident $unit:literal $name:literal $metric:literal $(($label:literal = $value:literal))?
        $how:ident($path:expr), $help:literal;
    )*) => {
        /// All figures. Those of one metric are neighbours, as OpenMetrics wants them.
        pub(crate) static FIGURES: &[Figure] = &[$(Figure {
            name: $name,
            kind: Kind::$kind,
            unit: $unit,
            help: $help,
            metric: $metric,
            label: figures!(@label $($label, $value)?),
            source: Source::$how($path),
        }),*];
    };
    (@label) => { None };
    (@label $label:literal, $value:literal) => { Some(($label, $value)) };
}

figures! {
    Counter "" "ops.insert" "operations" ("type" = "insert") Status("opcounters.insert"), "Operations by type.";
    Counter "" "ops.query" "operations" ("type" = "query") Status("opcounters.query"), "Operations by type.";
    Counter "" "ops.update" "operations" ("type" = "update") Status("opcounters.update"), "Operations by type.";
    Counter "" "ops.delete" "operations" ("type" = "delete") Status("opcounters.delete"), "Operations by type.";
    Counter "" "ops.getmore" "operations" ("type" = "getmore") Status("opcounters.getmore"), "Operations by type.";
    Counter "" "ops.command" "operations" ("type" = "command") Status("opcounters.command"), "Operations by type.";
    Counter "us" "latency.reads.us" "operation_seconds" ("kind" = "read") Status("opLatencies.reads.latency"),
        "Time of operations by kind.";
    Counter "us" "latency.writes.us" "operation_seconds" ("kind" = "write") Status("opLatencies.writes.latency"),
        "Time of operations by kind.";
    Counter "us" "latency.commands.us" "operation_seconds" ("kind" = "command") Status("opLatencies.commands.latency"),
        "Time of operations by kind.";
    Counter "" "latency.reads.count" "timed_operations" ("kind" = "read") Status("opLatencies.reads.ops"),
        "Operations by kind, as their times are counted.";
    Counter "" "latency.writes.count" "timed_operations" ("kind" = "write") Status("opLatencies.writes.ops"),
        "Operations by kind, as their times are counted.";
    Counter "" "latency.commands.count" "timed_operations" ("kind" = "command") Status("opLatencies.commands.ops"),
        "Operations by kind, as their times are counted.";
    Gauge "" "connections.current" "connections" ("state" = "current") Status("connections.current"),
        "Connections of clients.";
    Gauge "" "connections.available" "connections" ("state" = "available") Status("connections.available"),
        "Connections of clients.";
    Gauge "" "connections.active" "connections" ("state" = "active") Status("connections.active"),
        "Connections of clients.";
    Counter "" "connections.created" "connections_created" Status("connections.totalCreated"),
        "Connections since the start.";
    Counter "" "connections.rejected" "connections_rejected" Status("connections.rejected"),
        "Connections that were refused because there were too many.";
    Gauge "" "queue.readers" "queued_operations" ("kind" = "read")
        Status("queues.execution.read.normalPriority.queueLength"),
        "Requests that wait for a ticket.";
    Gauge "" "queue.writers" "queued_operations" ("kind" = "write")
        Status("queues.execution.write.normalPriority.queueLength"),
        "Requests that wait for a ticket.";
    Gauge "" "queue.lock" "operations_waiting_for_lock" Status("nagi.waitingForLock"),
        "Requests that wait for the lock of fsync.";
    Gauge "" "active.readers" "active_operations" ("kind" = "read") Status("globalLock.activeClients.readers"),
        "Requests that run.";
    Gauge "" "active.writers" "active_operations" ("kind" = "write") Status("globalLock.activeClients.writers"),
        "Requests that run.";
    Gauge "" "cursors.open" "open_cursors" Status("metrics.cursor.open.total"), "Open cursors.";
    Counter "" "cursors.timedout" "cursors_timed_out" Status("metrics.cursor.timedOut"),
        "Cursors that were closed after ten minutes without use.";
    Gauge "" "transactions.open" "open_transactions" Status("transactions.currentOpen"), "Open transactions.";
    Counter "" "transactions.committed" "transactions_committed" Status("transactions.totalCommitted"),
        "Committed transactions.";
    Counter "" "transactions.aborted" "transactions_aborted" Status("transactions.totalAborted"),
        "Aborted transactions.";
    Counter "" "logins.failed" "failed_logins" Status("nagi.failedLogins"), "Logins that were refused.";
    Gauge "" "sessions" "sessions" Status("logicalSessionRecordCache.activeSessionsCount"), "Logical sessions.";
    Counter "" "documents.inserted" "documents" ("outcome" = "inserted") Status("metrics.document.inserted"),
        "Documents by what was done with them.";
    Counter "" "documents.returned" "documents" ("outcome" = "returned") Status("metrics.document.returned"),
        "Documents by what was done with them.";
    Counter "" "documents.updated" "documents" ("outcome" = "updated") Status("metrics.document.updated"),
        "Documents by what was done with them.";
    Counter "" "documents.deleted" "documents" ("outcome" = "deleted") Status("metrics.document.deleted"),
        "Documents by what was done with them.";
    Counter "" "keys.scanned" "index_keys_examined" Status("metrics.queryExecutor.scanned"),
        "Keys of indexes that queries read.";
    Counter "" "documents.scanned" "documents_examined" Status("metrics.queryExecutor.scannedObjects"),
        "Documents that queries read.";
    Counter "" "collection.scans" "collection_scans" Status("metrics.queryExecutor.collectionScans.total"),
        "Queries that read a whole collection.";
    Counter "" "sorts" "sorts_without_index" Status("metrics.operation.scanAndOrder"),
        "Queries that sorted because no index has the order.";
    Counter "" "write.conflicts" "write_conflicts" Status("metrics.operation.writeConflicts"),
        "Writes that were repeated after a conflict.";
    Counter "bytes" "network.in" "network_received_bytes" Status("network.bytesIn"), "Bytes of requests.";
    Counter "bytes" "network.out" "network_sent_bytes" Status("network.bytesOut"), "Bytes of replies.";
    Counter "" "network.requests" "requests" Status("network.numRequests"), "Requests.";
    Gauge "bytes" "memory.resident" "memory_resident_bytes" Status("nagi.memory.residentBytes"),
        "Resident memory of the process.";
    Gauge "bytes" "memory.allocated" "memory_allocated_bytes" Status("nagi.memory.allocatedBytes"),
        "Memory that the allocator has given out.";
    Gauge "bytes" "memory.budget" "memory_budget_bytes" Status("nagi.memory.budgetBytes"), "The memory budget.";
    Gauge "bytes" "memory.bound" "memory_bound_bytes" Status("nagi.memory.boundBytes"), "The bound of resident memory.";
    Counter "" "memory.overbound" "memory_over_bound" Status("nagi.memory.timesOverBound"),
        "How often resident memory was beyond its bound.";
    Gauge "bytes" "memory.blocks" "cache_used_bytes" ("cache" = "blocks") Status("nagi.memory.caches.blocks.usedBytes"),
        "Memory of caches.";
    Gauge "bytes" "memory.records" "cache_used_bytes" ("cache" = "records")
        Status("nagi.memory.caches.records.usedBytes"), "Memory of caches.";
    Gauge "bytes" "memory.blocks.limit" "cache_limit_bytes" ("cache" = "blocks")
        Status("nagi.memory.caches.blocks.limitBytes"), "Limits of caches.";
    Gauge "bytes" "memory.records.limit" "cache_limit_bytes" ("cache" = "records")
        Status("nagi.memory.caches.records.limitBytes"), "Limits of caches.";
    Gauge "bytes" "memory.memtables" "memtable_bytes" Status("nagi.memory.caches.blocks.memtableBytes"),
        "Memory of writes that are not in files yet.";
    Gauge "bytes" "memory.pool.audit" "memory_pool_bytes" ("pool" = "audit")
        Status("nagi.memory.pools.audit.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.changeStreams" "memory_pool_bytes" ("pool" = "changeStreams")
        Status("nagi.memory.pools.changeStreams.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.compactions" "memory_pool_bytes" ("pool" = "compactions")
        Status("nagi.memory.pools.compactions.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.conflicts" "memory_pool_bytes" ("pool" = "conflicts")
        Status("nagi.memory.pools.conflicts.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.connections" "memory_pool_bytes" ("pool" = "connections")
        Status("nagi.memory.pools.connections.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.cursors" "memory_pool_bytes" ("pool" = "cursors")
        Status("nagi.memory.pools.cursors.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.evaluation" "memory_pool_bytes" ("pool" = "evaluation")
        Status("nagi.memory.pools.evaluation.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.execution" "memory_pool_bytes" ("pool" = "execution")
        Status("nagi.memory.pools.execution.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.indexBuilds" "memory_pool_bytes" ("pool" = "indexBuilds")
        Status("nagi.memory.pools.indexBuilds.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.openCursors" "memory_pool_bytes" ("pool" = "openCursors")
        Status("nagi.memory.pools.openCursors.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.plans" "memory_pool_bytes" ("pool" = "plans")
        Status("nagi.memory.pools.plans.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.replies" "memory_pool_bytes" ("pool" = "replies")
        Status("nagi.memory.pools.replies.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.requests" "memory_pool_bytes" ("pool" = "requests")
        Status("nagi.memory.pools.requests.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.scripts" "memory_pool_bytes" ("pool" = "scripts")
        Status("nagi.memory.pools.scripts.usedBytes"), "Memory by pool.";
    Gauge "bytes" "memory.pool.transactions" "memory_pool_bytes" ("pool" = "transactions")
        Status("nagi.memory.pools.transactions.usedBytes"), "Memory by pool.";
    Counter "" "memory.waits" "memory_waits" Pools("waited"), "Requests that waited for memory.";
    Counter "" "memory.refusals" "memory_refusals" Pools("refused"), "Requests that failed for lack of memory.";
    Counter "" "cache.hits" "cache_hits" ("cache" = "blocks") Status("nagi.storage.cache_hits"),
        "Reads that a cache answered.";
    Counter "" "records.hits" "cache_hits" ("cache" = "records") Status("nagi.memory.caches.records.hits"),
        "Reads that a cache answered.";
    Counter "" "cache.misses" "cache_misses" ("cache" = "blocks") Status("nagi.storage.cache_misses"),
        "Reads that a cache did not answer.";
    Counter "" "records.misses" "cache_misses" ("cache" = "records") Status("nagi.memory.caches.records.misses"),
        "Reads that a cache did not answer.";
    Counter "bytes" "disk.read" "disk_read_bytes" Status("nagi.storage.file_bytes_read"), "Bytes read from data files.";
    Counter "bytes" "disk.written" "disk_written_bytes" Status("nagi.storage.file_bytes_written"),
        "Bytes written to data files.";
    Counter "" "disk.reads" "disk_reads" Status("nagi.storage.file_reads"), "Reads of data files.";
    Counter "bytes" "disk.log.written" "log_written_bytes" Status("nagi.storage.log_bytes_written"),
        "Bytes written to the write-ahead log.";
    Counter "" "disk.log.syncs" "log_syncs" Status("nagi.storage.log_syncs"), "Syncs of the write-ahead log.";
    Gauge "bytes" "disk.free" "disk_free_bytes" Status("nagi.storage.disk_free_bytes"),
        "Free space of the file system.";
    Gauge "bytes" "disk.total" "disk_total_bytes" Status("nagi.storage.disk_total_bytes"), "Size of the file system.";
    Gauge "bytes" "disk.used" "disk_used_bytes" Status("nagi.storage.disk_bytes"), "Size of the data files.";
    Gauge "" "write.stopped" "write_stopped" Status("nagi.storage.write_stopped"),
        "1 if the disk is full and writes are refused.";
    Gauge "" "compactions.running" "compactions_running" Status("nagi.storage.compactions_running"),
        "Compactions that run.";
    Gauge "" "flushes.running" "flushes_running" Status("nagi.storage.flushes_running"),
        "Flushes of memtables that run.";
    Gauge "bytes" "compactions.pending" "compactions_pending_bytes" Status("nagi.storage.compactions_pending_bytes"),
        "Bytes that wait for a compaction.";
    Counter "bytes" "compactions.read" "compaction_read_bytes" Status("nagi.storage.compaction_bytes_read"),
        "Bytes that compactions read.";
    Counter "bytes" "compactions.written" "compaction_written_bytes" Status("nagi.storage.compaction_bytes_written"),
        "Bytes that compactions wrote.";
    Counter "us" "governor.paused" "governor_paused_seconds" Status("nagi.storage.governor_paused_us"),
        "Time for which commits were slowed down because the disk is behind.";
    Counter "" "ring.waits" "log_buffer_waits" Status("nagi.storage.wal_ring_waits"),
        "Commits that waited for the log's buffer.";
    Counter "us" "ring.waited" "log_buffer_waited_seconds" Status("nagi.storage.wal_ring_waited_us"),
        "Time for which commits waited for the log's buffer.";
    Counter "bytes" "spills.written" "spill_written_bytes" Status("nagi.spills.writtenBytes"),
        "Bytes of sorts and groups that did not fit into memory.";
    Gauge "s" "oplog.window" "oplog_window_seconds" Status("nagi.oplog.windowSecs"),
        "Time between the first and the last entry of an oplog that removes its oldest entries.";
    Gauge "s" "backup.age" "backup_age_seconds" Status("nagi.lastBackup.ageSecs"),
        "Time since the end of the newest backup by nagi backup.";
    Counter "" "ttl.deleted" "ttl_deleted_documents" Status("metrics.ttl.deletedDocuments"), "Documents that expired.";
    Counter "us" "cpu.user" "cpu_seconds" ("mode" = "user") Status("extra_info.user_time_us"),
        "Processor time of the process.";
    Counter "us" "cpu.system" "cpu_seconds" ("mode" = "system") Status("extra_info.system_time_us"),
        "Processor time of the process.";
    Counter "" "page.faults" "major_page_faults" Status("extra_info.page_faults"), "Page faults that read from disk.";
    Counter "us" "host.throttled" "host_throttled_seconds" Machine(|m| m.throttled_us),
        "Time for which the control group's limit of processors stopped the process.";
    Counter "us" "host.stalled.io" "host_stalled_seconds" ("resource" = "io") Machine(|m| m.io_us),
        "Time for which some task of the machine waited for a resource.";
    Counter "us" "host.stalled.memory" "host_stalled_seconds" ("resource" = "memory") Machine(|m| m.memory_us),
        "Time for which some task of the machine waited for a resource.";
    Counter "us" "host.stalled.cpu" "host_stalled_seconds" ("resource" = "cpu") Machine(|m| m.cpu_us),
        "Time for which some task of the machine waited for a resource.";
}

/// The position of a figure in [`FIGURES`]; evaluated by the compiler, which refuses unknown names.
pub(crate) const fn position(name: &str) -> usize {
    let mut at = 0;
    while at < FIGURES.len() {
        if is_same(FIGURES[at].name.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no such figure")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The values of all figures, in their order; NaN where there is none.
pub(crate) fn read(status: Doc<'_>, machine: &Machine) -> Box<[f64]> {
    let value = |figure: &Figure| match figure.source {
        Source::Status(path) => at_path(status, path),
        Source::Pools(field) => pools(status, field),
        Source::Machine(read) => read(machine),
    };
    FIGURES.iter().map(|figure| value(figure).unwrap_or(f64::NAN)).collect()
}

/// The number at a path of a document.
pub(crate) fn at_path(doc: Doc<'_>, path: &str) -> Option<f64> {
    let mut value = Value::Doc(doc);
    for name in path.split('.') {
        value = value.as_doc()?.get(name);
    }
    number::as_f64(value)
}

fn pools(status: Doc<'_>, field: &str) -> Option<f64> {
    let memory = status.get("nagi").as_doc()?.get("memory").as_doc()?;
    let pools = memory.get("pools").as_doc()?;
    let values = pools.iter().filter_map(|pool| number::as_f64(pool.value().as_doc()?.get(field)));
    Some(values.sum())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nagi_bson::doc;

    use super::*;

    #[test]
    fn names_are_unique_and_metrics_are_neighbours() {
        let names: BTreeSet<_> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
        let mut metrics: Vec<_> = FIGURES.iter().map(|figure| figure.metric).collect();
        metrics.dedup();
        let families: BTreeSet<_> = metrics.iter().collect();
        assert_eq!(families.len(), metrics.len());
        for pair in FIGURES.windows(2).filter(|pair| pair[0].metric == pair[1].metric) {
            let facts = |figure: &Figure| (figure.kind, figure.unit, figure.help);
            assert_eq!(facts(&pair[0]), facts(&pair[1]), "{}", pair[1].name);
            assert!(pair.iter().all(|figure| figure.label.is_some()), "{}", pair[1].name);
        }
    }

    #[test]
    fn values_come_from_paths_and_sums() {
        let status = doc! {
            "opcounters": { "insert": 5 },
            "nagi": { "memory": { "pools": { "a": { "waited": 1_i64 }, "b": { "waited": 2_i64 } } } }
        };
        let machine = Machine { throttled_us: Some(7.0), ..Machine::default() };
        let values = read(status.as_doc(), &machine);
        assert_eq!(values[position("ops.insert")], 5.0);
        assert!(values[position("ops.query")].is_nan());
        assert_eq!(values[position("memory.waits")], 3.0);
        assert_eq!(values[position("host.throttled")], 7.0);
    }
}
