//! The server: everything that connections share.
//!
//! Invariants
//! - No lock is held while a command runs; shared state is atomics, sharded maps, immutable values.
//! - `Server` knows neither sockets nor threads of connections: `net` calls [`Server::connect`] and
//!   [`Server::handle`], one call a frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use nagi_bson::{DocBuf, DocWriter, oid};
use nagi_budget::Budget;
use nagi_error::{Code, Result, err};
use nagi_js::Engines;
use nagi_query::limits::{QueryOptions, StageMemory};
use nagi_store::Store;
use nagi_wire::Compressor;
use parking_lot::{Condvar, Mutex};

use crate::auth::Auth;
use crate::clock;
use crate::cluster_params::ClusterParams;
use crate::commands::COMMANDS;
use crate::concern::WriteConcern;
use crate::connection::{Connection, Peer};
use crate::cursors::Cursors;
use crate::fail_points::FailPoints;
use crate::helpers::Helpers;
use crate::jobs::Signal;
use crate::limits::{READ_TICKETS, WRITE_TICKETS};
use crate::logging::Log;
use crate::metrics::Metrics;
use crate::numbered::NumberedSessions;
use crate::op::{Op, Ops};
use crate::params::{self, Parameters};
use crate::query_settings::AllQuerySettings;
use crate::replica::ReplicaSet;
use crate::room::Room;
use crate::rw_defaults::RwDefaults;
use crate::scripting::ENGINES_MAX;
use crate::session::Sessions;
use crate::snapshots::Snapshots;
use crate::tickets::Tickets;
use crate::write_block::WriteBlock;

/// What `app` gives a server.
pub struct ServerConfig {
    pub store: Arc<Store>,
    pub log: Arc<Log>,
    /// Name of the storage engine in `serverStatus`.
    pub storage_engine: String,
    /// Data survives the process.
    pub persistent: bool,
    /// The command line, secrets removed.
    pub argv: Vec<String>,
    /// `parsed` of `getCmdLineOpts`.
    pub parsed_options: DocBuf,
    pub port: u16,
    /// The replica set that this server is the member of, and `host:port` under which a default
    /// configuration names it.
    pub replica_set: Option<(String, String)>,
    pub connection_count_max: i64,
    /// Memory that the process may use, of the machine or of the control groups around it.
    pub memory_limit_bytes: Option<u64>,
    /// Requests need privileges (`--auth`).
    pub authorization: bool,
    /// Requests may run JavaScript.
    pub javascript: bool,
    /// `--setParameter name=value`, as typed.
    pub parameters: Vec<(String, String)>,
    /// The release, "0.1.0".
    pub nagi_version: &'static str,
    pub git_version: &'static str,
}

/// The shared state of all connections.
pub struct Server {
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) config: Startup,
    pub(crate) metrics: Metrics,
    pub(crate) ops: Ops,
    pub(crate) sessions: Sessions,
    pub(crate) numbered: NumberedSessions,
    pub(crate) snapshots: Snapshots,
    /// None on a standalone.
    pub(crate) replica: Option<ReplicaSet>,
    pub(crate) cursors: Cursors,
    pub(crate) params: Parameters,
    pub(crate) auth: Auth,
    pub(crate) oids: Arc<oid::Generator>,
    /// Where the random numbers of the next request begin.
    seeds: AtomicU64,
    pub(crate) topology: Topology,
    pub(crate) fsync: crate::fsync::FsyncLock,
    pub(crate) compactions: crate::compaction::Compactions,
    pub(crate) backups: crate::backup::Backups,
    pub(crate) fail_points: Arc<FailPoints>,
    /// A bit for each compressor of the wire that may be used.
    compressors: AtomicU8,
    pub(crate) profile: crate::profile::Profiles,
    pub(crate) top: crate::top::Top,
    pub(crate) tickets: Tickets,
    pub(crate) query_settings: AllQuerySettings,
    pub(crate) cluster_params: ClusterParams,
    pub(crate) rw_defaults: RwDefaults,
    pub(crate) write_block: WriteBlock,
    pub(crate) helpers: Helpers,
    /// Runs JavaScript; none where that is switched off.
    pub(crate) engines: Option<Arc<Engines>>,
    pub(crate) started: Instant,
    pub(crate) signal: Arc<Signal>,
    /// When the last TTL pass began.
    pub(crate) ttl_last_ms: AtomicI64,
    /// When old records of sessions were last looked for.
    pub(crate) records_swept_ms: AtomicI64,
    next_connection_id: AtomicI64,
    pub(crate) shutdown: Shutdown,
    /// Held while a document of a `system.views` is brought up to date.
    pub(crate) views_mirrored: Mutex<()>,
}

/// What stays of the configuration.
pub(crate) struct Startup {
    pub(crate) storage_engine: String,
    pub(crate) persistent: bool,
    pub(crate) argv: Vec<String>,
    pub(crate) parsed_options: DocBuf,
    pub(crate) port: u16,
    pub(crate) connection_count_max: i64,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) nagi_version: &'static str,
    pub(crate) git_version: &'static str,
    pub(crate) host: String,
}

/// `topologyVersion`: a process id and a counter that grows when the server's role changes.
pub(crate) struct Topology {
    pub(crate) process_id: [u8; 12],
    counter: Mutex<i64>,
    changed: Condvar,
}

impl Topology {
    pub(crate) fn counter(&self) -> i64 {
        *self.counter.lock()
    }

    /// Waits until the counter exceeds `seen`, at most until then. True if it does.
    pub(crate) fn wait_beyond(&self, seen: i64, until: Instant) -> bool {
        let mut counter = self.counter.lock();
        while *counter <= seen {
            if self.changed.wait_until(&mut counter, until).timed_out() {
                return *counter > seen;
            }
        }
        true
    }

    /// `topologyVersion`, as replies show it.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        out.doc("topologyVersion", |doc| {
            doc.put("processId", &self.process_id);
            doc.put("counter", self.counter());
        });
    }

    /// The server's role has changed: waiting hellos answer.
    pub(crate) fn advance(&self) {
        *self.counter.lock() += 1;
        self.changed.notify_all();
    }
}

/// Whether and why the server ends.
#[derive(Default)]
pub(crate) struct Shutdown {
    wanted: Mutex<bool>,
    changed: Condvar,
    /// When quiesce mode ends at the latest; none outside of it.
    pub(crate) quiesce_until: Mutex<Option<Instant>>,
}

const STARTED_WITHOUT_SET: &str = "Document(s) exist in 'system.replset', but started without --replSet. \
     Database contents may appear inconsistent with the writes that were visible when this node was \
     running as part of a replica set. Restart with --replSet unless you are doing maintenance and no \
     other clients are connected";
const STARTED_ELSEWHERE: &str = "Locally stored replica set configuration does not have a valid entry \
     for the current node: clients that discover the set look for it at another address. Start it with the \
     host and port of the configuration, or change them with replSetReconfig and force: true";

impl Server {
    /// A number that no other request of this process begins with.
    pub(crate) fn draw_seed(&self) -> u64 {
        self.seeds.fetch_add(0x9FB2_1C65_1E98_DF25, Ordering::Relaxed)
    }

    /// Makes a server. Fails on a parameter that is unknown or has a bad value.
    pub fn new(config: ServerConfig) -> Result<Arc<Server>> {
        let random = random_bytes()?;
        let process = random[..5].try_into().expect("five of sixteen bytes");
        let start = u32::from_le_bytes([random[5], random[6], random[7], 0]);
        let oids = Arc::new(oid::Generator::new(process, start));
        let seed = u64::from_le_bytes(random[8..].try_into().expect("eight of sixteen bytes"));
        let process_id = oids.next(clock::wall_seconds());
        let params = Parameters::new(&config.parameters)?;
        let engines =
            config.javascript.then(|| Engines::new(config.store.budget().clone(), ENGINES_MAX, 0));
        let replica = config
            .replica_set
            .map(|(name, own_host)| ReplicaSet::open(config.store.clone(), name, own_host));
        let query_settings = AllQuerySettings::open(&config.store)?;
        let cluster_params = ClusterParams::open(&config.store)?;
        let rw_defaults = RwDefaults::open(&config.store)?;
        let write_block = WriteBlock::open(&config.store)?;
        let server = Arc::new(Server {
            store: config.store,
            log: config.log,
            config: Startup {
                storage_engine: config.storage_engine,
                persistent: config.persistent,
                argv: config.argv,
                parsed_options: config.parsed_options,
                port: config.port,
                connection_count_max: config.connection_count_max,
                memory_limit_bytes: config.memory_limit_bytes,
                nagi_version: config.nagi_version,
                git_version: config.git_version,
                host: host_name(),
            },
            metrics: Metrics::new(COMMANDS.len()),
            ops: Ops::new(),
            sessions: Sessions::new(params.int("maxSessions") as usize),
            numbered: NumberedSessions::new(),
            snapshots: Snapshots::default(),
            replica: replica.transpose()?,
            query_settings,
            cluster_params,
            rw_defaults,
            write_block,
            cursors: Cursors::default(),
            params,
            auth: Auth::new(config.authorization, random_bytes()?),
            oids,
            seeds: AtomicU64::new(seed),
            topology: Topology { process_id, counter: Mutex::new(0), changed: Condvar::new() },
            fsync: crate::fsync::FsyncLock::default(),
            compactions: crate::compaction::Compactions::default(),
            backups: crate::backup::Backups::default(),
            fail_points: Arc::default(),
            compressors: AtomicU8::new(u8::MAX),
            profile: crate::profile::Profiles::default(),
            top: crate::top::Top::default(),
            tickets: Tickets::new(READ_TICKETS, WRITE_TICKETS),
            helpers: Helpers::new(),
            engines,
            started: clock::now(),
            signal: Arc::new(Signal::default()),
            ttl_last_ms: AtomicI64::new(clock::wall_ms()),
            records_swept_ms: AtomicI64::new(clock::wall_ms()),
            next_connection_id: AtomicI64::new(1),
            shutdown: Shutdown::default(),
            views_mirrored: Mutex::new(()),
        });
        server.params.apply_all(&server);
        server.warn_of_replica_data()?;
        server.mirror_all_views()?;
        crate::jobs::spawn(&server);
        Ok(server)
    }

    /// Warns if the data belong to a member of a replica set that this server is not.
    fn warn_of_replica_data(&self) -> Result<()> {
        let Some(set) = &self.replica else {
            if crate::replica::is_stored(&self.store)? {
                self.log.startup_warning(
                    "CONTROL",
                    20_547,
                    STARTED_WITHOUT_SET,
                    DocBuf::new().as_doc(),
                );
            }
            return Ok(());
        };
        if let Some(host) = set.is_elsewhere(self.config.port) {
            let attr = DocBuf::build(|doc| {
                doc.put("configuredHost", host.as_str());
                doc.put("port", i32::from(self.config.port));
            });
            self.log.startup_warning("REPL", 21_405, STARTED_ELSEWHERE, attr.as_doc());
        }
        Ok(())
    }

    /// Admits a connection, or `None` if there are too many.
    pub fn connect(self: &Arc<Server>, peer: Peer) -> Option<Connection> {
        let id = self.next_connection_id.fetch_add(1, Ordering::Relaxed);
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
        if self.params.bool("enableTestCommands") {
            op.set_fail_points(self.fail_points.clone());
        }
        self.ops.register(op.clone());
        op
    }

    pub(crate) fn disconnected(&self, connection: &Connection) {
        self.metrics.connections.down();
        self.ops.forget(&connection.op);
        if !self.is_quiet() {
            log::info!(target: "NETWORK", id = 22944, remote = connection.peer.address.as_str(),
                connectionId = connection.id, connectionCount = self.metrics.connections.get();
                "Connection ended");
        }
    }

    /// Whether the log leaves out what each connection, login and collection command would add to it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.params.number(const { params::position("quiet") }) != 0
    }

    /// Tells where the data's files are, so that backups can be made.
    ///
    /// # Errors
    /// What an earlier run left of a backup cannot be removed.
    pub fn set_data_folder(&self, data: &std::path::Path) -> std::io::Result<()> {
        self.backups.set_data_folder(data)
    }

    /// Start values for the slow operation line, where they were chosen.
    pub fn set_slow_operations(&self, threshold_ms: Option<i64>, sample_rate: Option<f64>) {
        if let Some(ms) = threshold_ms {
            self.profile.set_slow_ms(ms);
        }
        if let Some(rate) = sample_rate {
            self.profile.set_sample_rate(rate);
        }
    }

    /// The profiling level of databases that do not choose one: 0, 1 (slow operations) or 2 (all).
    pub fn set_default_profile(&self, level: i32) {
        self.profile.set_default_level(level);
    }

    /// The compressors that clients may use, by name; all of them unless it is called.
    pub fn set_compressors(&self, names: &[String]) {
        let bits = names.iter().filter_map(|name| Compressor::by_name(name));
        let mask = bits.fold(0, |mask, compressor| mask | 1 << compressor as u8);
        self.compressors.store(mask, Ordering::Relaxed);
    }

    /// Whether clients may use a compressor.
    pub(crate) fn compresses_by(&self, compressor: Compressor) -> bool {
        self.compressors.load(Ordering::Relaxed) >> (compressor as u8) & 1 == 1
    }

    /// The account of the process's memory.
    pub fn budget(&self) -> &Arc<Budget> {
        self.store.budget()
    }

    /// Asks the process to end: [`Server::wait_for_shutdown`] returns.
    pub fn request_shutdown(&self) {
        *self.shutdown.wanted.lock() = true;
        self.shutdown.changed.notify_all();
    }

    /// Blocks until a client's `shutdown` command, or [`Server::request_shutdown`].
    pub fn wait_for_shutdown(&self) {
        let mut wanted = self.shutdown.wanted.lock();
        while !*wanted {
            self.shutdown.changed.wait(&mut wanted);
        }
    }

    /// Begins to stop: new commands get 11600, running ones are interrupted, waiting hellos wake.
    pub fn stop(&self) {
        self.ops.stopping.store(true, Ordering::SeqCst);
        self.topology.advance();
        self.ops.kill_all(Code::INTERRUPTED_AT_SHUTDOWN, None);
        self.cursors.clear();
        self.snapshots.clear();
        self.fsync.release_all();
        self.backups.close();
        self.signal.end();
        self.request_shutdown();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.ops.stopping.load(Ordering::Relaxed)
    }

    /// What holds for requests that name no write concern.
    pub(crate) fn default_write_concern(&self) -> WriteConcern<'static> {
        match self.replica {
            Some(_) => self.rw_defaults.write_concern().unwrap_or(WriteConcern::MAJORITY),
            None => WriteConcern::DEFAULT,
        }
    }

    /// What the parameters allow a query; `allow_disk_use`: as it asks itself.
    pub(crate) fn query_options(&self, allow_disk_use: Option<bool>) -> QueryOptions {
        let densify_docs_max = self.params.int("internalQueryMaxAllowedDensifyDocs");
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
                usize::try_from(self.params.number(ROW)).unwrap_or(usize::MAX)
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
        self.params.number(ROW) != 0
    }

    /// Records that a plan reads at once before they are asked for.
    pub(crate) fn records_ahead_max(&self) -> usize {
        const ROW: usize = params::position("internalQueryRecordsAhead");
        usize::try_from(self.params.number(ROW)).unwrap_or(1)
    }

    /// Whether requests that do not say may write temporary files.
    fn allows_disk(&self) -> bool {
        const ROW: usize = params::position("allowDiskUseByDefault");
        self.params.number(ROW) != 0
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
        self.signal.end();
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// Sixteen bytes of the system's randomness.
///
/// # Errors
/// InternalError if the system has none: nothing that is guessable may take their place.
pub(crate) fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| err!(Code::INTERNAL_ERROR, "the system gives no random bytes: {error}"))?;
    Ok(bytes)
}

/// A version 4 UUID.
///
/// # Errors
/// As [`random_bytes`].
pub(crate) fn random_uuid() -> Result<[u8; 16]> {
    let mut bytes = random_bytes()?;
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Ok(bytes)
}
