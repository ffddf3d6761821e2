//! Builds a server: everything is configured before its first thread runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagi_bson::{Doc, DocBuf};
use nagi_encryption::Keys;
use nagi_error::{Code, Result, bail, err};
use nagi_js::Engines;
use nagi_store::Store;
use nagi_wire::Compressor;

use crate::audit::{AuditLog, AuditOptions};
use crate::auth::Auth;
use crate::auth::tokens::Tokens;
use crate::cache_size::CacheSize;
use crate::commands;
use crate::core::nodes;
use crate::core::scripting::ENGINES_MAX;
use crate::core::server::Server;
use crate::core::server_state::{Clients, Identity, Settings, Startup, Upkeep};
use crate::diagnostic_data;
use crate::directory::Directory;
use crate::logging::Log;
use crate::metrics::Metrics;
use crate::query_stats::QueryStats;
use crate::random::random_bytes;
use crate::replica::{OplogLimits, ReplicaSet};
use crate::router::Router;
use crate::settings::params::Parameters;
use crate::spans::Spans;
use crate::token_trust::TokenTrust;
use crate::top::Top;
use crate::transport_security::TransportSecurity;
use crate::upkeep::{jobs, shared_settings};

/// The configuration that `app` passes.
pub struct ServerConfig {
    pub store: Arc<Store>,
    pub log: Arc<Log>,
    /// Name of the storage engine in `serverStatus`.
    pub storage_engine: String,
    /// The data survives the process.
    pub persistent: bool,
    /// The command line without secrets.
    pub argv: Vec<String>,
    /// `parsed` of `getCmdLineOpts`.
    pub parsed_options: DocBuf,
    pub port: u16,
    /// The name of the replica set that this server is a member of, and its `host:port` for a default configuration.
    pub replica_set: Option<(String, String)>,
    /// To its clients the server is a router of a sharded cluster, because other processes may serve the same data. The
    /// empty store in memory is where it shows what such a cluster has in `config`. Not together with a replica set.
    pub router: Option<Arc<Store>>,
    pub oplog: OplogLimits,
    pub connection_count_max: i64,
    /// The memory that the process may use: of the machine, or the limit of the surrounding control groups.
    pub memory_limit_bytes: Option<u64>,
    /// Requests need privileges (`--auth`).
    pub authorization: bool,
    /// Certificates and mode of TLS (`net.tls`); `None` without it.
    pub tls: Option<Arc<dyn TransportSecurity>>,
    /// Checks passwords and knows groups (`security.ldap`); `None` without it.
    pub directory: Option<Arc<dyn Directory>>,
    /// Verifies tokens of identity providers (MONGODB-OIDC); `None` if none are accepted.
    pub tokens: Option<Arc<dyn TokenTrust>>,
    /// Requests may run JavaScript.
    pub javascript: bool,
    /// Requests run on threads of the server, which may change the time slices of these threads. False if they run on
    /// threads of an application.
    pub own_threads: bool,
    /// `--setParameter name=value`, as typed.
    pub parameters: Vec<(String, String)>,
    /// Applies the log of a copy from the entry on with which the copy ends, to restore a moment: what does not fit is
    /// an error, and the copied write block does not count.
    pub restores: bool,
    /// The release, "0.1.0".
    pub nagi_version: &'static str,
    pub git_version: &'static str,
}

/// A configured server that does not run yet.
pub struct ServerBuilder {
    server: Server,
    /// Samples of diagnostic data are taken.
    diagnoses: bool,
}

impl ServerBuilder {
    /// Reads the persistent state of the server from the store.
    ///
    /// # Errors
    /// If a parameter is unknown or has an invalid value, or if the store cannot be read.
    pub fn new(config: ServerConfig) -> Result<ServerBuilder> {
        let params = Arc::new(Parameters::new(&config.parameters)?);
        // The value was checked when it was set.
        let size = CacheSize::parse(&params.text("internalQueryStatsCacheSize"));
        let query_stats =
            QueryStats::new(config.store.budget(), size.unwrap_or(CacheSize::Percent(1.0)));
        let engines =
            config.javascript.then(|| Engines::new(config.store.budget().clone(), ENGINES_MAX, 0));
        let replica = config
            .replica_set
            .map(|names| ReplicaSet::open(config.store.clone(), names, config.oplog));
        let router = config.router.map(|views| Router::open(&config.store, views));
        nagi_budget::meter::attach_interrupt(crate::op::may_wait);
        nagi_store::interrupt::attach(crate::op::may_wait);
        let server = Server {
            identity: Identity::new()?,
            clients: Clients::new(&params),
            auth: Auth::new(
                config.authorization,
                config.store.clone(),
                params.clone(),
                random_bytes()?,
                config.directory,
                Tokens::new(config.tokens),
            ),
            settings: Settings::open(params, &config.store)?,
            upkeep: Upkeep::new(),
            replica: replica.transpose()?,
            router: router.transpose()?,
            engines,
            tls: config.tls,
            audit: None,
            keys: None,
            metrics: Metrics::new(commands::all().count()),
            query_stats: Arc::new(query_stats),
            spans: Spans::default(),
            top: Top::default(),
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
                restores: config.restores,
                own_threads: config.own_threads,
                nagi_version: config.nagi_version,
                git_version: config.git_version,
                host: host_name(),
            },
        };
        Ok(ServerBuilder { server, diagnoses: false })
    }

    /// Sets the data directory, so that backups can be made.
    ///
    /// # Errors
    /// If the remains of an earlier backup cannot be removed.
    pub fn data_folder(self, data: &Path) -> std::io::Result<ServerBuilder> {
        self.server.upkeep.backups.set_data_folder(data)?;
        Ok(self)
    }

    /// Takes samples of diagnostic data, as long as the parameter `diagnosticDataCollectionEnabled` is on. They are
    /// stored in a folder of the data directory, or that of the parameter `diagnosticDataCollectionDirectoryPath`;
    /// without either the newest one is kept in memory. After [`ServerBuilder::encryption`].
    ///
    /// # Errors
    /// If the path of the parameter cannot be completed, because the process has no working directory.
    pub fn record_diagnostic_data(mut self, data: Option<&Path>) -> std::io::Result<ServerBuilder> {
        let path = self.server.settings.params.text("diagnosticDataCollectionDirectoryPath");
        let folder = match path.as_str() {
            "" => data.map(|data| data.join(diagnostic_data::FOLDER)),
            path => Some(PathBuf::from(path)),
        };
        if let Some(folder) = folder {
            self.server.set_diagnostic_data_folder(&std::path::absolute(folder)?);
        }
        self.diagnoses = true;
        Ok(self)
    }

    /// Sets the threshold and the sample rate of the log of slow operations, where they are configured.
    #[must_use]
    pub fn slow_operations(self, threshold_ms: Option<i64>, sample_rate: Option<f64>) -> Self {
        if let Some(ms) = threshold_ms {
            self.server.settings.profile.set_slow_ms(ms);
        }
        if let Some(rate) = sample_rate {
            self.server.settings.profile.set_sample_rate(rate);
        }
        self
    }

    /// Sets the profiling level of databases that have none of their own: 0, 1 (slow operations) or 2 (all).
    #[must_use]
    pub fn profile_level(self, level: i32) -> Self {
        self.server.settings.profile.set_default_level(level);
        self
    }

    /// Makes the server the only member of its replica set, as `replSetInitiate` without a configuration does, unless
    /// it is a member already.
    ///
    /// # Errors
    /// If the configuration cannot be written.
    pub fn initiate_replica_set(self) -> Result<Self> {
        match &self.server.replica {
            Some(replica) if !replica.is_member() => replica.initiate(Doc::EMPTY)?,
            _ => {}
        }
        Ok(self)
    }

    /// Changes the port of the set's only member to that of this server, for a server whose port the system selects at
    /// each start: clients that discover the set would look for it at the port of an earlier start.
    ///
    /// # Errors
    /// If the configuration cannot be written.
    pub fn follow_port(self) -> Result<Self> {
        if let Some(replica) = &self.server.replica {
            replica.follow_port(self.server.config.port)?;
        }
        Ok(self)
    }

    /// Sets the keys with which the data files are encrypted, if they are.
    #[must_use]
    pub fn encryption(mut self, keys: Option<Arc<Keys>>) -> Self {
        if keys.is_some() {
            self.server.upkeep.backups.include(nagi_encryption::FILE_NAME);
        }
        self.server.keys = keys;
        self
    }

    /// Switches the audit log on.
    ///
    /// # Errors
    /// 2 for options that exclude each other; if the destination cannot be opened, or the stored configuration
    /// cannot be read.
    pub fn audit(mut self, options: &AuditOptions) -> Result<Self> {
        let successes = self.server.settings.params.bool("auditAuthorizationSuccess");
        if options.runtime && (successes || !options.filter.as_doc().is_empty()) {
            bail!(
                Code::BAD_VALUE,
                "auditLog.filter and auditAuthorizationSuccess cannot be set at the start together with \
                 auditLog.runtimeConfiguration: use the command setAuditConfig"
            );
        }
        let log = AuditLog::open(options, self.server.budget()).map_err(|error| {
            err!(Code::OPERATION_FAILED, "The audit log cannot be opened: {error}")
        })?;
        self.server.audit = Some(log);
        self.server.apply_audit_config()?;
        Ok(self)
    }

    /// Restricts the compressors that clients may use, by name; without this call all may be used.
    #[must_use]
    pub fn compressors(self, names: &[String]) -> Self {
        let bits = names.iter().filter_map(|name| Compressor::by_name(name));
        let mask = bits.fold(0, |mask, compressor| mask | 1 << compressor as u8);
        self.server.settings.compressors.store(mask, Ordering::Relaxed);
        self
    }

    /// Applies the parameters, updates derived collections and starts the background threads.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn start(self) -> Result<Arc<Server>> {
        nagi_query::on_worker_start(crate::timeslice::reset_thread);
        let server = Arc::new(self.server);
        server.settings.params.apply_all(&server);
        shared_settings::follow(&server)?;
        answer_others(&server);
        nodes::tell(&server)?;
        server.warn_of_replica_data()?;
        server.mirror_all_views()?;
        server.audit_startup()?;
        jobs::spawn(&server);
        if self.diagnoses {
            jobs::start(&server, "ftdc", crate::commands::record_diagnostic_data);
        }
        Ok(server)
    }
}

/// From now on the server answers what the servers want to know that share its data. Without effect if there cannot be
/// any.
fn answer_others(server: &Arc<Server>) {
    let weak = Arc::downgrade(server);
    server.store.on_question(move |question| match weak.upgrade() {
        Some(server) => commands::answer(&server, question),
        None => DocBuf::new(),
    });
}

const STARTED_WITHOUT_SET: &str = "Document(s) exist in 'system.replset', but started without --replSet. \
     Database contents may appear inconsistent with the writes that were visible when this node was \
     running as part of a replica set. Restart with --replSet unless you are doing maintenance and no \
     other clients are connected";
const STARTED_ELSEWHERE: &str = "Locally stored replica set configuration does not have a valid entry \
     for the current node: clients that discover the set look for it at another address. Start it with the \
     host and port of the configuration, or change them with replSetReconfig and force: true";

impl Server {
    /// Warns if the data belongs to a member of a replica set that this server is not.
    fn warn_of_replica_data(&self) -> Result<()> {
        let Some(set) = &self.replica else {
            if crate::replica::is_stored(&self.store)? {
                self.log.startup_warning(
                    "CONTROL",
                    20_547,
                    STARTED_WITHOUT_SET,
                    DocBuf::new().as_doc(),
                );
                if !self.config.restores {
                    self.store.count_unlogged_changes();
                }
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
}

fn host_name() -> String {
    nagi_proc::machine::host_name().unwrap_or_else(|| "localhost".to_owned())
}
