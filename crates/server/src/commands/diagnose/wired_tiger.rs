//! The section `wiredTiger` of `serverStatus`: figures of the engine under WiredTiger's names.
//!
//! Only figures that have a counterpart are here: a cached block stands for a page, a memtable for the dirty pages, a
//! flush of a memtable for a checkpoint and for the eviction of a modified page. What only B-trees have is absent.

use std::collections::HashMap;

use crate::core::command::prelude::*;
use crate::core::server::Server;

/// Where a value comes from.
enum Figure {
    /// A gauge of the engine, or one that [`gauges`] adds.
    Gauge(&'static str),
    Sum(&'static str, &'static str),
    /// 1 if the gauge is not 0.
    Flag(&'static str),
    /// Always 0, where the engine has the gauge.
    Never(&'static str),
}

use Figure::{Flag, Gauge, Never, Sum};

type Rows = &'static [(&'static str, Figure)];

static SECTIONS: &[(&str, Rows)] = &[
    (
        "block-manager",
        &[
            ("blocks read", Gauge("file_reads")),
            ("blocks written", Gauge("file_blocks_written")),
            ("bytes read", Gauge("file_bytes_read")),
            ("bytes written", Gauge("file_bytes_written")),
        ],
    ),
    ("cache", CACHE),
    (
        "checkpoint",
        &[
            ("currently running", Flag("flushes_running")),
            ("max time (msecs)", Gauge("flush_max_ms")),
            ("min time (msecs)", Gauge("flush_min_ms")),
            ("most recent time (msecs)", Gauge("flush_last_ms")),
            ("total succeed number of checkpoints", Gauge("checkpoints")),
            ("total time (msecs)", Gauge("flush_total_ms")),
        ],
    ),
    (
        "connection",
        &[("total fsync I/Os", Gauge("log_syncs")), ("total read I/Os", Gauge("file_reads"))],
    ),
    // Scans do not pass the counters of the engine.
    ("cursor", &[("cursor insert calls", Gauge("keys_written"))]),
    ("data-handle", &[("connection data handles currently active", Gauge(HANDLES))]),
    (
        "log",
        &[
            ("log bytes written", Gauge("log_bytes_written")),
            ("log sync operations", Gauge("log_syncs")),
            ("log write operations", Gauge("log_writes")),
            ("total log buffer size", Gauge("wal_ring_capacity_bytes")),
        ],
    ),
    // MongoDB 7.0 and earlier have the times of checkpoints here; tools read either.
    (
        "transaction",
        &[
            ("transaction checkpoint currently running", Flag("flushes_running")),
            ("transaction checkpoint max time (msecs)", Gauge("flush_max_ms")),
            ("transaction checkpoint min time (msecs)", Gauge("flush_min_ms")),
            ("transaction checkpoint most recent time (msecs)", Gauge("flush_last_ms")),
            ("transaction checkpoint total time (msecs)", Gauge("flush_total_ms")),
            ("transaction checkpoints", Gauge("checkpoints")),
            ("transactions committed", Gauge("commits")),
            ("update conflicts", Gauge(CONFLICTS)),
        ],
    ),
];

static CACHE: Rows = &[
    ("application threads page read from disk to cache count", Gauge("cache_misses")),
    // Background threads write memtables; no request does.
    ("application threads page write from cache to disk count", Never("memtable_bytes")),
    ("bytes currently in the cache", Sum("cache_bytes", RECORDS)),
    ("bytes dirty in the cache cumulative", Gauge("bytes_committed")),
    ("bytes read into cache", Gauge("file_bytes_read")),
    ("bytes written from cache", Gauge("file_bytes_written")),
    ("eviction worker thread evicting pages", Gauge("checkpoints")),
    ("maximum bytes configured", Gauge(BUDGET)),
    ("modified pages evicted", Gauge("checkpoints")),
    ("pages currently held in the cache", Gauge("cache_blocks")),
    // A full cache drops another block within the read of one, which is no sign of a cache under pressure.
    ("pages evicted by application threads", Never("memtable_bytes")),
    ("pages read into cache", Gauge("cache_misses")),
    ("pages requested from the cache", Sum("cache_hits", "cache_misses")),
    ("pages written from cache", Gauge("file_blocks_written")),
    ("tracked bytes belonging to internal pages in the cache", Gauge("table_reader_bytes")),
    ("tracked bytes belonging to leaf pages in the cache", Gauge("cache_bytes")),
    ("tracked dirty bytes in the cache", Gauge("memtable_bytes")),
    ("unmodified pages evicted", Gauge("cache_blocks_removed")),
];

// Figures that are not the engine's.
const BUDGET: &str = "budget";
const CONFLICTS: &str = "conflicts";
const HANDLES: &str = "handles";
const RECORDS: &str = "records";

type Gauges = HashMap<&'static str, i64>;

/// The gauges of the engine, and those of the server that belong to the section.
fn gauges(server: &Server) -> Gauges {
    let mut gauges = Gauges::new();
    server.store.engine().stats(&mut |name, value| {
        gauges.insert(name, value);
    });
    if let Some(budget) = server.store.budget().bytes() {
        gauges.insert(BUDGET, i64::try_from(budget).unwrap_or(i64::MAX));
    }
    let records = server.store.record_cache_bytes().0;
    gauges.insert(RECORDS, i64::try_from(records).unwrap_or(i64::MAX));
    gauges.insert(CONFLICTS, server.metrics.write_conflicts.get());
    let catalog = server.store.catalog();
    let handles = catalog.iter().filter(|c| !c.is_view()).map(|c| 1 + c.indexes.len());
    gauges.insert(HANDLES, handles.sum::<usize>() as i64);
    gauges
}

impl Figure {
    fn value(&self, gauges: &Gauges) -> Option<i64> {
        let of = |name| gauges.get(name).copied();
        match self {
            Gauge(name) => of(name),
            Sum(one, other) => Some(of(one)?.saturating_add(of(other)?)),
            Flag(name) => of(name).map(|value| i64::from(value != 0)),
            Never(name) => of(name).map(|_| 0),
        }
    }
}

pub(super) fn write(server: &Server, out: &mut DocWriter<'_>) {
    let gauges = gauges(server);
    let has_cache = gauges.contains_key(BUDGET) && gauges.contains_key("cache_bytes");
    for (section, rows) in SECTIONS {
        let known = || rows.iter().filter_map(|(name, from)| Some((*name, from.value(&gauges)?)));
        // Tools divide by the size of the cache.
        let is_wanted = *section != "cache" || has_cache;
        if is_wanted && known().next().is_some() {
            out.doc(section, |doc| known().for_each(|(name, value)| doc.put(name, value)));
        }
    }
    out.doc("snapshot-window-settings", |doc| {
        let seconds = server.settings.params.int("minSnapshotHistoryWindowInSeconds");
        doc.put("minimum target snapshot window size in seconds", seconds);
    });
    out.doc("concurrentTransactions", |doc| {
        doc.doc("write", |pool| server.clients.tickets.write.write(pool));
        doc.doc("read", |pool| server.clients.tickets.read.write(pool));
    });
}
