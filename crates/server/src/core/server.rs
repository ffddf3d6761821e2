//! The server: everything that connections share.
//!
//! Invariants
//! - No lock is held while a command runs; shared state is atomics, sharded maps, immutable values.
//! - `Server` knows neither sockets nor threads of connections: `net` calls [`Server::connect`] and
//!   [`Server::handle`], one call a frame.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagi_budget::Budget;
use nagi_error::Code;
use nagi_js::Engines;
use nagi_query::limits::{QueryOptions, StageMemory};
use nagi_store::Store;
use nagi_wire::Compressor;

use crate::auth::Auth;
use crate::core::connection::{Connection, Peer};
use crate::core::parts::{Clients, Identity, Settings, Startup, Upkeep};
use crate::logging::Log;
use crate::metrics::Metrics;
use crate::op::Op;
use crate::replica::ReplicaSet;
use crate::request::concern::WriteConcern;
use crate::room::Room;
use crate::settings::params::{self};
use crate::top::Top;

/// The shared state of all connections: what belongs together is owned by one part.
pub struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) config: Startup,
    pub(crate) identity: Identity,
    pub(crate) clients: Clients,
    pub(crate) settings: Settings,
    pub(crate) upkeep: Upkeep,
    pub(crate) auth: Auth,
    /// None on a standalone.
    pub(crate) replica: Option<ReplicaSet>,
    /// Runs JavaScript; none where that is switched off.
    pub(crate) engines: Option<Arc<Engines>>,
    pub(crate) metrics: Metrics,
    pub(crate) top: Top,
}

impl Server {
    /// A number that no other request of this process begins with.
    pub(crate) fn draw_seed(&self) -> u64 {
        const STEP: u64 = 0x9FB2_1C65_1E98_DF25;
        self.identity.seeds.own().fetch_add(STEP, Ordering::Relaxed)
    }

    /// Admits a connection, or `None` if there are too many.
    pub fn connect(self: &Arc<Server>, peer: Peer) -> Option<Connection> {
        let id = self.clients.next_connection_id.fetch_add(1, Ordering::Relaxed);
        let open_count = self.metrics.connections.up();
        let room = Room::for_connection(self.store.budget());
        let too_many = open_count > self.config.connection_count_max || self.is_stopping();
        let Some(room) = room.filter(|_| !too_many) else {
            self.metrics.connections.down();
            self.refuse(&peer);
            return None;
        };
        self.metrics.connections_created.increment();
        let op = self.new_op(format!("conn{id}"), id, peer.address.clone());
        if !self.is_quiet() {
            log::info!(target: "NETWORK", id = 22943, remote = peer.address.as_str(),
                connectionId = id, connectionCount = open_count; "Connection accepted");
        }
        Some(Connection::new(self.clone(), id, peer, op, room))
    }

    /// Connections that may be open at once.
    pub fn connection_count_max(&self) -> usize {
        usize::try_from(self.config.connection_count_max).unwrap_or(usize::MAX)
    }

    /// Counts and logs a connection that is closed because there are too many.
    pub fn refuse(&self, peer: &Peer) {
        self.metrics.connections_rejected.increment();
        log::info!(target: "NETWORK", id = 22942, remote = peer.address.as_str(),
            connectionCount = self.metrics.connections.get();
            "Connection refused because there are too many open connections");
    }

    /// An operation that currentOp shows, of a connection or (0) of the background.
    pub(crate) fn new_op(
        &self,
        description: String,
        connection_id: i64,
        remote: String,
    ) -> Arc<Op> {
        let op = Op::new(description, connection_id, remote);
        if self.settings.params.bool("enableTestCommands") {
            op.set_fail_points(self.settings.fail_points.clone());
        }
        self.clients.ops.register(op.clone());
        op
    }

    pub(crate) fn disconnected(&self, connection: &Connection) {
        self.metrics.connections.down();
        self.clients.ops.forget(&connection.op);
        if !self.is_quiet() {
            log::info!(target: "NETWORK", id = 22944, remote = connection.peer.address.as_str(),
                connectionId = connection.id, connectionCount = self.metrics.connections.get();
                "Connection ended");
        }
    }

    /// Whether the log leaves out what each connection, login and collection command would add to it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.settings.params.number(const { params::position("quiet") }) != 0
    }

    /// Whether clients may use a compressor.
    pub(crate) fn compresses_by(&self, compressor: Compressor) -> bool {
        self.settings.compressors.load(Ordering::Relaxed) >> (compressor as u8) & 1 == 1
    }

    /// The account of the process's memory.
    pub fn budget(&self) -> &Arc<Budget> {
        self.store.budget()
    }

    /// Asks the process to end: [`Server::wait_for_shutdown`] returns.
    pub fn request_shutdown(&self) {
        *self.upkeep.shutdown.wanted.lock() = true;
        self.upkeep.shutdown.changed.notify_all();
    }

    /// Blocks until a client's `shutdown` command, or [`Server::request_shutdown`].
    pub fn wait_for_shutdown(&self) {
        let mut wanted = self.upkeep.shutdown.wanted.lock();
        while !*wanted {
            self.upkeep.shutdown.changed.wait(&mut wanted);
        }
    }

    /// Begins to stop: new commands get 11600, running ones are interrupted, waiting hellos wake.
    pub fn stop(&self) {
        self.clients.ops.stopping.store(true, Ordering::SeqCst);
        self.identity.topology.advance();
        self.clients.ops.kill_all(Code::INTERRUPTED_AT_SHUTDOWN, None);
        self.clients.cursors.clear();
        self.clients.snapshots.clear();
        self.upkeep.fsync.release_all();
        self.upkeep.backups.close();
        self.upkeep.signal.end();
        self.request_shutdown();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.clients.ops.stopping.load(Ordering::Relaxed)
    }

    /// What holds for requests that name no write concern.
    pub(crate) fn default_write_concern(&self) -> WriteConcern<'static> {
        match self.replica {
            Some(_) => self.settings.rw_defaults.write_concern().unwrap_or(WriteConcern::MAJORITY),
            None => WriteConcern::DEFAULT,
        }
    }

    /// What the parameters allow a query; `allow_disk_use`: as it asks itself.
    pub(crate) fn query_options(&self, allow_disk_use: Option<bool>) -> QueryOptions {
        let densify_docs_max = self.settings.params.int("internalQueryMaxAllowedDensifyDocs");
        QueryOptions {
            allow_disk_use: allow_disk_use.unwrap_or_else(|| self.allows_disk()),
            memory: self.stage_memory(),
            densify_docs_max: u64::try_from(densify_docs_max).unwrap_or(0),
        }
    }

    /// Memory of each kind of blocking stage.
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

    /// Whether a second thread may read for a request that has to read much.
    pub(crate) fn helps_scans(&self) -> bool {
        const ROW: usize = params::position("internalQueryParallelScan");
        self.settings.params.number(ROW) != 0
    }

    /// Records that a plan reads at once before they are requested.
    pub(crate) fn records_ahead_max(&self) -> usize {
        const ROW: usize = params::position("internalQueryRecordsAhead");
        usize::try_from(self.settings.params.number(ROW)).unwrap_or(1)
    }

    /// Whether requests that do not say may write temporary files.
    fn allows_disk(&self) -> bool {
        const ROW: usize = params::position("allowDiskUseByDefault");
        self.settings.params.number(ROW) != 0
    }

    /// The feature compatibility version that tools read.
    pub(crate) fn fcv(&self) -> &'static str {
        "8.0"
    }

    /// "host:port", as statistics name the server.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.config.host, self.config.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.upkeep.signal.end();
    }
}
