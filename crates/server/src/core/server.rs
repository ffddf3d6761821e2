//! The server: the state that all connections share.
//!
//! `app` builds a `Server` ([`crate::builder`]), `net` calls [`Server::connect`] for every connection and
//! [`Server::handle`] for every frame.
//!
//! Invariants
//! - No lock is held while a command runs; shared state consists of atomics, sharded maps and immutable values.
//! - `Server` knows neither sockets nor connection threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nagi_budget::{Budget, Charge, Patience};
use nagi_encryption::Keys;
use nagi_error::{Code, Result, bail};
use nagi_js::Engines;
use nagi_query::limits::{QueryOptions, StageMemory};
use nagi_store::Store;
use nagi_wire::Compressor;

use crate::audit::AuditLog;
use crate::auth::Auth;
use crate::core::connection::{Connection, Peer};
use crate::core::server_state::{Clients, Identity, Settings, Startup, Upkeep};
use crate::fsync::Writer;
use crate::logging::Log;
use crate::message_memory::{MemoryCharge, MessageCost, admit_message};
use crate::metrics::Metrics;
use crate::op::{ClientMetadata, Op};
use crate::query_stats::{Query, QueryStats};
use crate::replica::{ClusterClock, ReplicaSet};
use crate::request::Request;
use crate::request::concern::WriteConcern;
use crate::router::Router;
use crate::settings::params::{self};
use crate::spans::{Span, SpanCounts, Spans};
use crate::top::Top;
use crate::transport_security::TransportSecurity;

/// The shared state of all connections, grouped into parts that own related state.
pub struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) config: Startup,
    pub(crate) identity: Identity,
    pub(crate) clients: Clients,
    pub(crate) settings: Settings,
    pub(crate) upkeep: Upkeep,
    pub(crate) auth: Auth,
    /// The audit log; `None` if it is switched off.
    pub(crate) audit: Option<AuditLog>,
    /// `None` unless it is a member of a replica set.
    pub(crate) replica: Option<ReplicaSet>,
    /// `None` unless it is a router.
    pub(crate) router: Option<Router>,
    /// Runs JavaScript; `None` if it is switched off.
    pub(crate) engines: Option<Arc<Engines>>,
    /// The keys of the data directory; `None` if its files are not encrypted.
    pub(crate) keys: Option<Arc<Keys>>,
    /// `None` without TLS.
    pub(crate) tls: Option<Arc<dyn TransportSecurity>>,
    pub(crate) metrics: Metrics,
    pub(crate) query_stats: Arc<QueryStats>,
    pub(crate) spans: Spans,
    pub(crate) top: Top,
}

impl Server {
    /// A random seed that no other request of this process gets.
    pub(crate) fn draw_seed(&self) -> u64 {
        const STEP: u64 = 0x9FB2_1C65_1E98_DF25;
        self.identity.seeds.own().fetch_add(STEP, Ordering::Relaxed)
    }

    /// Admits a connection. Returns `None` if there are too many connections, the server is stopping or its memory is
    /// used up.
    pub fn connect(self: &Arc<Server>, peer: Peer) -> Option<Connection> {
        let id = self.clients.next_connection_id.fetch_add(1, Ordering::Relaxed);
        let open_count = self.metrics.connections.up();
        let charge = MemoryCharge::for_connection(self.store.budget());
        let too_many = open_count > self.config.connection_count_max || self.is_stopping();
        let Some(charge) = charge.filter(|_| !too_many) else {
            self.metrics.connections.down();
            self.refuse(&peer);
            return None;
        };
        self.metrics.connections_created.increment();
        let op = self.new_op(format!("conn{id}"), id, peer.address.clone());
        if !self.is_quiet() {
            // The connection's thread has this context from its first request on.
            crate::logging::set_log_context("listener");
            log::info!(target: "NETWORK", id = 22943, remote = peer.address.as_str(),
                connectionId = id, connectionCount = open_count; "Connection accepted");
        }
        Some(Connection::new(self.clone(), id, peer, op, charge))
    }

    /// The maximum number of open connections.
    pub fn connection_count_max(&self) -> usize {
        usize::try_from(self.config.connection_count_max).unwrap_or(usize::MAX)
    }

    /// Counts and logs a connection that is refused because there are too many. Not while the server stops: clients
    /// that reconnect then are closed, however many there are.
    pub fn refuse(&self, peer: &Peer) {
        if self.is_stopping() {
            return;
        }
        self.metrics.connections_rejected.increment();
        log::info!(target: "NETWORK", id = 22942, remote = peer.address.as_str(),
            connectionCount = self.metrics.connections.get();
            "Connection refused because there are too many open connections");
    }

    /// Counts and logs a connection from an address that is not allowed to connect.
    pub fn refuse_address(&self, peer: &Peer) {
        self.metrics.connections_not_allowed.increment();
        log::info!(target: "NETWORK", id = 8_200_180, remote = peer.address.as_str();
            "Connection refused because its address is not in net.ipAllowlist");
    }

    /// Registers an operation that currentOp shows, of a connection or of a background job (connection id 0).
    pub(crate) fn new_op(
        &self,
        description: String,
        connection_id: i64,
        remote: String,
    ) -> Arc<Op> {
        let op = Op::new(description, connection_id, remote, self.config.own_threads);
        if self.settings.params.bool("enableTestCommands") {
            op.set_fail_points(self.settings.fail_points.clone());
        }
        self.clients.ops.register(op.clone());
        op
    }

    pub(crate) fn disconnected(&self, connection: &Connection) {
        connection.audit_abandoned();
        connection.audit_logout("Implicit logout due to client connection closure");
        self.metrics.connections.down();
        self.clients.ops.forget(&connection.op);
        if !self.is_quiet() {
            log::info!(target: "NETWORK", id = 22944, remote = connection.peer.address.as_str(),
                connectionId = connection.id, connectionCount = self.metrics.connections.get();
                "Connection ended");
        }
    }

    /// True if the log omits the messages that every connection, login and collection command would cause.
    pub(crate) fn is_quiet(&self) -> bool {
        self.settings.params.number(const { params::position("quiet") }) != 0
    }

    /// Reads the files of TLS again, for new connections; open ones stay. `message` is logged.
    ///
    /// # Errors
    /// If there is no TLS, or a file is unusable; then the old certificates stay.
    pub fn rotate_certificates(&self, message: &str) -> Result<()> {
        let Some(tls) = &self.tls else {
            bail!(
                Code::ILLEGAL_OPERATION,
                "TLS is not configured: there are no certificates to rotate"
            );
        };
        log::info!(target: "NETWORK", id = 8_200_162, message = message;
            "Beginning certificate rotation");
        match tls.rotate() {
            Ok(()) => {
                log::info!(target: "NETWORK", id = 4_913_400, message = message;
                    "Successfully rotated X509 certificates");
                Ok(())
            }
            Err(error) => {
                log::error!(target: "NETWORK", id = 8_200_161, error = error.as_str();
                    "The certificates could not be rotated; the old ones stay in use");
                bail!(Code::INVALID_SSL_CONFIGURATION, "{error}")
            }
        }
    }

    /// Returns true if clients must log in.
    pub fn requires_login(&self) -> bool {
        self.auth.is_enabled()
    }

    /// Returns true if there is TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns true if clients may use a compressor.
    pub(crate) fn compresses_by(&self, compressor: Compressor) -> bool {
        self.settings.compressors.load(Ordering::Relaxed) >> (compressor as u8) & 1 == 1
    }

    /// Records spans of a share of requests, from 0 to 1, for an exporter that takes them.
    pub fn record_spans(&self, ratio: f64) {
        self.spans.switch_on(ratio);
    }

    /// Takes the recorded spans, once there are many or `time` has passed. The second value is false once the server
    /// stops; these are its last spans.
    pub fn take_spans(&self, time: Duration) -> (Vec<Span>, bool) {
        self.spans.take(time)
    }

    /// How many spans were recorded and dropped.
    pub fn span_counts(&self) -> SpanCounts {
        self.spans.counts()
    }

    /// Counts a message of the exporter.
    pub fn note_export(&self, sent: bool) {
        let exports = &self.spans.exports;
        match sent {
            true => exports.sent.increment(),
            false => exports.failed.increment(),
        }
    }

    /// Counts spans that the exporter could not send.
    pub fn note_lost_spans(&self, count: usize) {
        self.spans.exports.spans_lost.add(count as u64);
    }

    /// The name of the server in telemetry: its host and port.
    pub fn instance_name(&self) -> String {
        self.host_and_port()
    }

    /// The budget of the process's memory.
    pub fn budget(&self) -> &Arc<Budget> {
        self.store.budget()
    }

    /// Waits for the memory that a message needs, in the order of arrival. `None` if no memory was released for 30 s,
    /// or if `go_on` returned false. While the server is locked against writes (`fsync`), those that wait release none,
    /// and the time does not count.
    pub fn admit_message(
        &self,
        cost: MessageCost,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Charge> {
        let lock = &self.upkeep.fsync;
        admit_message(self.budget(), cost, &mut || match go_on() {
            false => Patience::Ended,
            true if lock.is_stopped(Writer::New) => Patience::Unlimited,
            true => Patience::Limited,
        })
    }

    /// Requests the shutdown of the process: [`Server::wait_for_shutdown`] returns.
    pub fn request_shutdown(&self) {
        *self.upkeep.shutdown.wanted.lock() = true;
        self.upkeep.shutdown.changed.notify_all();
    }

    /// Blocks until a client runs the `shutdown` command or [`Server::request_shutdown`] is called.
    pub fn wait_for_shutdown(&self) {
        let mut wanted = self.upkeep.shutdown.wanted.lock();
        while !*wanted {
            self.upkeep.shutdown.changed.wait(&mut wanted);
        }
    }

    /// Begins to stop: new commands fail with 11600, running ones are interrupted, waiting hellos are woken.
    pub fn stop(&self) {
        self.audit_shutdown();
        self.clients.ops.stopping.store(true, Ordering::SeqCst);
        self.identity.topology.advance();
        self.clients.ops.kill_all(Code::INTERRUPTED_AT_SHUTDOWN, None);
        self.clients.cursors.clear();
        self.clients.snapshots.clear();
        self.upkeep.fsync.release_all();
        self.store.let_commits_go_on();
        self.store.begin_close();
        self.upkeep.backups.close();
        self.upkeep.signal.end();
        self.spans.close();
        if let Some(trust) = self.auth.tokens.trust() {
            trust.stop();
        }
        self.request_shutdown();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.clients.ops.stopping.load(Ordering::Relaxed)
    }

    /// Returns false on a standalone: the server has neither transactions of clients nor cluster times.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replica.is_some() || self.router.is_some()
    }

    /// The clock of cluster times; `None` on a standalone.
    pub(crate) fn cluster_clock(&self) -> Option<&ClusterClock> {
        match &self.router {
            Some(router) => Some(&router.clock),
            None => self.replica.as_ref().map(|set| &set.clock),
        }
    }

    /// The write concern of requests that specify none.
    pub(crate) fn default_write_concern(&self) -> WriteConcern<'static> {
        match self.is_replicated() {
            true => self.settings.rw_defaults.write_concern().unwrap_or(WriteConcern::MAJORITY),
            false => WriteConcern::DEFAULT,
        }
    }

    /// The limits that the parameters set for a query; `allow_disk_use` is the request's own option.
    pub(crate) fn query_options(&self, allow_disk_use: Option<bool>) -> QueryOptions {
        const DENSIFY_DOCS_MAX: usize = params::position("internalQueryMaxAllowedDensifyDocs");
        let densify_docs_max = self.settings.params.number(DENSIFY_DOCS_MAX);
        QueryOptions {
            allow_disk_use: allow_disk_use.unwrap_or_else(|| self.allows_disk()),
            memory: self.stage_memory(),
            densify_docs_max: u64::try_from(densify_docs_max).unwrap_or(0),
        }
    }

    /// The memory limit of each kind of blocking stage.
    fn stage_memory(&self) -> StageMemory {
        macro_rules! bytes {
            ($name:literal) => {{
                const ROW: usize = params::position($name);
                usize::try_from(self.settings.params.number(ROW)).unwrap_or(usize::MAX)
            }};
        }
        StageMemory {
            bucket_auto: bytes!("internalDocumentSourceBucketAutoMaxMemoryBytes"),
            densify: bytes!("internalDocumentSourceDensifyMaxMemoryBytes"),
            facet: bytes!("internalQueryFacetBufferSizeBytes"),
            graph_lookup: bytes!("internalDocumentSourceGraphLookupMaxMemoryBytes"),
            group: bytes!("internalDocumentSourceGroupMaxMemoryBytes"),
            lookup: bytes!("internalLookupStageIntermediateDocumentMaxSizeBytes"),
            set_window_fields: bytes!("internalDocumentSourceSetWindowFieldsMaxMemoryBytes"),
            sort: bytes!("internalQueryMaxBlockingSortMemoryUsageBytes"),
            text_or: bytes!("internalTextOrStageMaxMemoryBytes"),
        }
    }

    /// How many queries a second query statistics may record, if this request is a query that they record: below 0 for
    /// all of them. Where they are off, which is the default, this costs a load.
    pub(crate) fn query_stats_limit(&self, request: &Request<'_>) -> Option<i64> {
        const ROW: usize = params::position("internalQueryStatsRateLimit");
        let limit = self.settings.params.number(ROW);
        let recorded = limit != 0 && request.command.query_stats && !request.is_encrypted();
        recorded.then_some(limit)
    }

    /// A query as query statistics see it.
    pub(crate) fn stats_query<'q>(
        &'q self,
        request: &'q Request<'q>,
        client: Option<&'q ClientMetadata>,
    ) -> Query<'q> {
        let default_level = self.settings.rw_defaults.read_level();
        Query { request, client, store: &self.store, default_level }
    }

    /// Returns true if large scans may use a second thread (parallel scan).
    pub(crate) fn helps_scans(&self) -> bool {
        const ROW: usize = params::position("internalQueryParallelScan");
        self.settings.params.number(ROW) != 0
    }

    /// The number of records that a plan reads ahead in one batch.
    pub(crate) fn records_ahead_max(&self) -> usize {
        const ROW: usize = params::position("internalQueryRecordsAhead");
        usize::try_from(self.settings.params.number(ROW)).unwrap_or(1)
    }

    /// Returns true if requests that do not specify it may write temporary files.
    fn allows_disk(&self) -> bool {
        const ROW: usize = params::position("allowDiskUseByDefault");
        self.settings.params.number(ROW) != 0
    }

    /// The feature compatibility version that the server reports to tools.
    pub(crate) fn fcv(&self) -> &'static str {
        "8.0"
    }

    /// "host:port", the name of the server in statistics.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.config.host, self.config.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.upkeep.signal.end();
    }
}
