//! Counters for `serverStatus` and `top`: each core adds to its own copy, and a listing sums them.

pub(crate) mod latency;
pub(crate) mod lifespans;
pub(crate) mod locks;
pub(crate) mod long_operations;
pub(crate) mod operators;
pub(crate) mod read_concerns;
pub(crate) mod session_jobs;
pub(crate) mod slow_shapes;
pub(crate) mod stages;
pub(crate) mod write_concerns;

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

pub(crate) use latency::Latency;

/// A counter that only grows.
#[derive(Default)]
pub(crate) struct Counter(nagi_percore::Counter);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.add(n);
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// The value as the int64 that replies carry.
    pub(crate) fn get(&self) -> i64 {
        self.0.get() as i64
    }
}

/// A gauge, such as the number of running requests: it rises and falls.
#[derive(Default)]
pub(crate) struct Gauge(nagi_percore::Counter);

impl Gauge {
    pub(crate) fn up(&self) {
        self.0.add(1);
    }

    pub(crate) fn down(&self) {
        self.0.sub(1);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.get() as i64
    }
}

/// A gauge of connections. It limits their number, so it is exact at any time.
#[derive(Default)]
pub(crate) struct ExactGauge(AtomicI64);

impl ExactGauge {
    /// Increments it and returns the new value.
    pub(crate) fn up(&self) -> i64 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn down(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// The counter of `opcounters` that a command belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpKind {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

/// The counter of `opLatencies` that a command belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatencyKind {
    Read,
    Write,
    Command,
}

/// Numbers of operations by kind.
#[derive(Default)]
pub(crate) struct OpCounters {
    pub(crate) insert: Counter,
    pub(crate) query: Counter,
    pub(crate) update: Counter,
    pub(crate) delete: Counter,
    pub(crate) get_more: Counter,
    pub(crate) command: Counter,
}

impl OpCounters {
    pub(crate) fn count(&self, kind: OpKind) {
        match kind {
            // Write commands count their statements instead of themselves; see the write commands.
            OpKind::Insert | OpKind::Update | OpKind::Delete => {}
            OpKind::Query => self.query.increment(),
            OpKind::GetMore => self.get_more.increment(),
            OpKind::Command => self.command.increment(),
        }
    }
}

/// Numbers of runs of one command.
#[derive(Default)]
pub(crate) struct CommandCounter {
    pub(crate) total: Counter,
    pub(crate) failed: Counter,
}

/// Bytes into and out of one compressor.
#[derive(Default)]
pub(crate) struct CompressionCounter {
    pub(crate) compressor_in: Counter,
    pub(crate) compressor_out: Counter,
    pub(crate) decompressor_in: Counter,
    pub(crate) decompressor_out: Counter,
}

/// Numbers of errors by class.
#[derive(Default)]
pub(crate) struct Asserts {
    pub(crate) regular: Counter,
    pub(crate) user: Counter,
}

/// All counters of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) ops: OpCounters,
    pub(crate) reads: Latency,
    pub(crate) writes: Latency,
    pub(crate) commands: Latency,
    /// By position in the command table.
    pub(crate) by_command: Box<[CommandCounter]>,
    pub(crate) unknown_commands: Counter,
    /// Pauses that long background jobs take for the benefit of clients.
    pub(crate) job_rests: Counter,
    pub(crate) job_rest_micros: Counter,
    pub(crate) asserts: Asserts,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) physical_bytes_in: Counter,
    pub(crate) physical_bytes_out: Counter,
    pub(crate) request_count: Counter,
    /// By compressor id (0 noop, 1 snappy, 2 zlib, 3 zstd).
    pub(crate) compression: [CompressionCounter; 4],
    pub(crate) connections: ExactGauge,
    pub(crate) connections_created: Counter,
    pub(crate) connections_rejected: Counter,
    /// Of addresses that `net.ipAllowlist` does not contain.
    pub(crate) connections_not_allowed: Counter,
    pub(crate) active_requests: Gauge,
    pub(crate) active_readers: Gauge,
    pub(crate) active_writers: Gauge,
    pub(crate) awaiting_hello: Gauge,
    pub(crate) documents_inserted: Counter,
    pub(crate) documents_updated: Counter,
    pub(crate) documents_deleted: Counter,
    pub(crate) documents_returned: Counter,
    pub(crate) keys_examined: Counter,
    pub(crate) collection_scans: Counter,
    pub(crate) collection_scans_tailable: Counter,
    /// Requests that sorted because no index provided the order.
    pub(crate) sorted_requests: Counter,
    pub(crate) write_conflicts: Counter,
    pub(crate) locks: crate::metrics::locks::LockCounters,
    pub(crate) docs_examined: Counter,
    pub(crate) cursors_opened: Counter,
    pub(crate) cursors_timed_out: Counter,
    pub(crate) cursors_more_than_one_batch: Counter,
    pub(crate) legacy_insert: Counter,
    pub(crate) legacy_update: Counter,
    pub(crate) legacy_delete: Counter,
    pub(crate) legacy_query: Counter,
    pub(crate) legacy_get_more: Counter,
    pub(crate) legacy_kill_cursors: Counter,
    pub(crate) ttl_passes: Counter,
    pub(crate) ttl_deleted: Counter,
    /// Operations that ended because their time was over, or their client gone.
    pub(crate) timed_out: Counter,
    pub(crate) lost_clients: Counter,
    pub(crate) index_builds: Counter,
    pub(crate) profile_writes: Counter,
    pub(crate) profile_writers: Gauge,
    pub(crate) oplog_truncations: Counter,
    /// The second of the newest entry that was removed from the oplog; 0: none since the start.
    pub(crate) oplog_removed_to_secs: AtomicI64,
    pub(crate) oplog_truncation_micros: Counter,
    pub(crate) read_concerns: read_concerns::ReadConcernCounters,
    pub(crate) session_jobs: session_jobs::SessionJobs,
    pub(crate) stages: stages::StageCounters,
    pub(crate) slow_shapes: slow_shapes::SlowShapes,
    pub(crate) long_operations: long_operations::LongOperations,
    pub(crate) operators: operators::OperatorCounters,
    pub(crate) write_concerns: write_concerns::WriteConcernCounters,
}

impl Metrics {
    pub(crate) fn new(command_count: usize) -> Metrics {
        let by_command = (0..command_count).map(|_| CommandCounter::default()).collect();
        Metrics { by_command, ..Metrics::default() }
    }

    /// The gauge of running requests of this kind, those that wait for a ticket or for events included.
    pub(crate) fn active_clients(&self, kind: LatencyKind) -> Option<&Gauge> {
        match kind {
            LatencyKind::Read => Some(&self.active_readers),
            LatencyKind::Write => Some(&self.active_writers),
            LatencyKind::Command => None,
        }
    }

    pub(crate) fn latency(&self, kind: LatencyKind) -> &Latency {
        match kind {
            LatencyKind::Read => &self.reads,
            LatencyKind::Write => &self.writes,
            LatencyKind::Command => &self.commands,
        }
    }
}
