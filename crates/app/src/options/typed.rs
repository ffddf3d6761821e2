//! The options as typed values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nagi_encryption::Keys;
use nagi_host::EngineKind;
use nagi_net::NetConfig;
use nagi_server::{
    AuditOptions, LogDestination, LogRotate, Networks, OplogLimits, SYSLOG_FACILITIES,
};
use nagi_tls::TlsOptions;

use super::alerts::AlertOptions;
use super::ldap::LdapSettings;
use super::{
    Compression, EncryptionOptions, OtlpSettings, Settings, audit, cache, cluster, compression,
    encryption, ldap, open_telemetry, tls,
};

/// The engine that a value of `storage.engine` names.
fn engine_by_option(value: &str) -> EngineKind {
    match value {
        // The second is MongoDB's name before 7.0, which programs for tests still pass.
        "inMemory" | "ephemeralForTest" => EngineKind::Memory,
        "lmdb" | "mmapv1" => EngineKind::Mapped,
        "tikv" => EngineKind::Distributed,
        _ => EngineKind::Embedded,
    }
}

/// Options of the mapped engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedOptions {
    /// Files grow ahead of need.
    pub(crate) prealloc: bool,
    pub(crate) small_files: bool,
    /// Accepted from old configurations; there are no namespace files.
    pub(crate) ns_size_mb: Option<i64>,
    /// The maximum time for which a commit may be in the write-ahead log only; 0: no maximum.
    pub(crate) sync_period_secs: u64,
}

impl MappedOptions {
    fn from_settings(settings: &Settings) -> MappedOptions {
        let number = |key: &str| settings.get(key).and_then(|v| v.parse::<i64>().ok());
        MappedOptions {
            prealloc: settings.get("storage.mmapv1.preallocDataFiles") != Some("false"),
            small_files: settings.is_on("storage.mmapv1.smallFiles"),
            ns_size_mb: number("storage.mmapv1.nsSize"),
            sync_period_secs: number("storage.syncPeriodSecs")
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(SYNC_PERIOD_SECS),
        }
    }
}

/// Where the web console listens.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ConsoleOptions {
    pub(crate) bind_ip: Vec<String>,
    /// `None`: the server's port + 1000.
    pub(crate) port: Option<u16>,
    /// Origins of proxies, such as `https://db.example.com`.
    pub(crate) origins: Vec<String>,
}

impl ConsoleOptions {
    fn from_settings(settings: &Settings) -> Result<Option<ConsoleOptions>, String> {
        if settings.get("net.console.enabled") == Some("false") {
            return Ok(None);
        }
        let list = |key: &str, default: &str| {
            let texts = settings.get(key).unwrap_or(default).split(',');
            let texts = texts.map(str::trim).filter(|text| !text.is_empty());
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        let names = list("net.console.bindIp", "127.0.0.1").into_iter();
        let bind_ip = names.map(|n| if n == "*" { "0.0.0.0".to_owned() } else { n }).collect();
        let port = settings.get("net.console.port").and_then(|port| port.parse().ok());
        let origins = list("net.console.origins", "");
        for origin in &origins {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            if host.is_none_or(|host| host.is_empty() || host.contains(['/', '*', '@', ' '])) {
                return Err(format!(
                    "BadValue: bad value '{origin}' for net.console.origins (--consoleOrigins): expected a scheme, \
                     a host and perhaps a port, such as https://db.example.com:8443"
                ));
            }
        }
        Ok(Some(ConsoleOptions { bind_ip, port, origins }))
    }
}

/// All options of a start.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) net: NetConfig,
    pub(crate) alerts: AlertOptions,
    /// `None`: there is no web console.
    pub(crate) console: Option<ConsoleOptions>,
    /// `None`: no traces and metrics are sent.
    pub(crate) open_telemetry: Option<OtlpSettings>,
    /// `None`: connections are not encrypted.
    pub(crate) tls: Option<TlsOptions>,
    /// `None`: no directory checks passwords.
    pub(crate) ldap: Option<LdapSettings>,
    /// `None`: data files are not encrypted.
    pub(crate) encryption: Option<EncryptionOptions>,
    /// The keys of the data directory, once it is locked.
    pub(crate) keys: Option<Arc<Keys>>,
    pub(crate) db_path: String,
    /// The configured engine or the default; the contents of the data directory may still change it.
    pub(crate) engine: EngineKind,
    /// The operator specified the engine.
    pub(crate) engine_chosen: bool,
    pub(crate) mapped: MappedOptions,
    /// The cluster that has the data; `None`: they are in the data directory, or in memory.
    pub(crate) cluster: Option<nagi_host::Cluster>,
    /// The maximum data of the in-memory engine, if it is configured.
    pub(crate) in_memory_bytes: Option<u64>,
    pub(crate) cache_bytes: Option<u64>,
    /// The compressor of blocks evicted from the cache, if it is configured.
    pub(crate) cache_compressor: Option<String>,
    /// Files are read with direct I/O, bypassing the page cache.
    pub(crate) direct_io: bool,
    /// The cache is filled in the background after the start.
    pub(crate) warm_up: bool,
    pub(crate) commit_interval_ms: u32,
    pub(crate) compression: Compression,
    pub(crate) connection_count_max: i64,
    /// The name of the replica set that the server is a member of.
    pub(crate) replica_set: Option<String>,
    /// Initiates the replica set, if that has not happened yet.
    pub(crate) initiate: bool,
    pub(crate) oplog: OplogLimits,
    /// Clients must log in, and need privileges.
    pub(crate) authorization: bool,
    /// The server may start though other machines can use it without a login.
    pub(crate) allow_unsafe: bool,
    /// Core dumps are written although the memory has secrets.
    pub(crate) core_dumps: bool,
    /// Requests may run JavaScript.
    pub(crate) javascript: bool,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) log: LogDestination,
    pub(crate) audit: Option<AuditOptions>,
    /// Repair the data, then exit.
    pub(crate) repair: bool,
    pub(crate) fork: bool,
    /// The server stops when its standard input ends.
    pub(crate) stop_at_end_of_input: bool,
    pub(crate) pid_file: Option<PathBuf>,
    /// Server parameters, including options that are parameters under another name, such as the verbosity.
    pub(crate) parameters: Vec<(String, String)>,
    /// The lines of parameters that the configuration file sets, for messages.
    pub(crate) parameter_lines: BTreeMap<String, usize>,
    /// The compressors of messages that clients may use.
    pub(crate) compressors: Vec<String>,
    /// The profiling level of databases that have none of their own.
    pub(crate) profile_level: i32,
    /// The directory from which MongoDB would read time zones.
    pub(crate) time_zones: Option<String>,
    /// The log shows times in UTC instead of local time.
    pub(crate) stamps_in_utc: bool,
    /// Verbosity by the component's name.
    pub(crate) component_verbosity: Vec<(String, i32)>,
    /// Options with values that have no effect, and what applies instead.
    pub(crate) notes: Vec<(String, &'static str)>,
    /// The lines of the configuration file whose `//` remarks were skipped.
    pub(crate) remark_lines: Vec<usize>,
    /// The threshold of slow operations, if it is configured.
    pub(crate) slow_ms: Option<i64>,
    pub(crate) slow_sample_rate: Option<f64>,
    /// All settings by dotted key, for `getCmdLineOpts` and the log.
    pub(crate) parsed: Vec<(String, String)>,
}

/// mongod's default.
const DB_PATH: &str = "/data/db";
const CONNECTIONS_MAX: i64 = 65_536;
const COMMIT_INTERVAL_MS: u32 = 100;
const SYNC_PERIOD_SECS: u64 = 60;

pub(super) fn from_settings(settings: &Settings) -> Result<Options, String> {
    let number = |key: &str| settings.get(key).and_then(|v| v.parse::<i64>().ok());
    let real = |key: &str| settings.get(key).and_then(|v| v.parse::<f64>().ok());
    let fork = settings.is_on("processManagement.fork");
    let log = log_destination(settings)?;
    let stop_at_end_of_input = settings.is_on("stopAtEndOfInput");
    if fork {
        check_fork(&log, stop_at_end_of_input)?;
    }
    if settings.is_on("storage.journal.enabled") && settings.is_on("nojournal") {
        return Err("BadValue: Can't specify both --journal and --nojournal options.".into());
    }
    let cache = cache::bytes(settings, nagi_proc::memory_bytes)?;
    let compression = compression::from_settings(settings)?;
    let engine = settings.get("storage.engine").map(engine_by_option);
    let bytes = |gigabytes: f64| (gigabytes * f64::from(1 << 30)) as u64;
    Ok(Options {
        net: net(settings)?,
        alerts: AlertOptions::from_settings(settings)?,
        console: ConsoleOptions::from_settings(settings)?,
        open_telemetry: open_telemetry::from_settings(settings)?,
        tls: tls::from_settings(settings)?,
        ldap: ldap::from_settings(settings)?,
        encryption: encryption::from_settings(settings, engine)?,
        keys: None,
        db_path: settings.get("storage.dbPath").unwrap_or(DB_PATH).to_owned(),
        engine: engine.unwrap_or(EngineKind::Embedded),
        engine_chosen: engine.is_some(),
        mapped: MappedOptions::from_settings(settings),
        cluster: cluster::from_settings(settings, engine)?,
        in_memory_bytes: real("storage.inMemory.engineConfig.inMemorySizeGB").map(bytes),
        cache_bytes: compression.cache_bytes.or(cache),
        cache_compressor: settings.get("storage.cacheCompressor").map(str::to_owned),
        direct_io: settings.get("storage.directIO") != Some("false"),
        warm_up: settings.get("storage.cacheWarmUp") != Some("false"),
        commit_interval_ms: number("storage.journal.commitIntervalMs")
            .or(number("storage.mmapv1.journal.commitIntervalMs"))
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(COMMIT_INTERVAL_MS),
        compression,
        connection_count_max: number("net.maxIncomingConnections").unwrap_or(CONNECTIONS_MAX),
        replica_set: replica_set(settings)?,
        initiate: initiate(settings)?,
        oplog: oplog(settings),
        authorization: authorization(settings)?,
        allow_unsafe: settings.is_on("security.allowUnsafe"),
        core_dumps: settings.is_on("security.coreDumps"),
        javascript: settings.get("security.javascriptEnabled") != Some("false"),
        key_file: settings.get("security.keyFile").map(PathBuf::from),
        audit: audit::from_settings(settings, &log)?,
        log,
        repair: settings.is_on("repair"),
        fork,
        stop_at_end_of_input,
        pid_file: settings.get("processManagement.pidFilePath").map(PathBuf::from),
        parameters: parameters(settings),
        parameter_lines: parameter_lines(settings),
        compressors: compressors(settings)?,
        profile_level: profile_level(settings),
        time_zones: time_zones(settings)?,
        stamps_in_utc: settings.get("systemLog.timeStampFormat") == Some("iso8601-utc"),
        component_verbosity: component_verbosity(settings),
        notes: settings.notes(),
        remark_lines: settings.remark_lines.clone(),
        slow_ms: number("operationProfiling.slowOpThresholdMs"),
        slow_sample_rate: real("operationProfiling.slowOpSampleRate"),
        parsed: parsed(settings),
    })
}

/// A process in the background has no standard input and output.
fn check_fork(log: &LogDestination, stop_at_end_of_input: bool) -> Result<(), String> {
    if matches!(log, LogDestination::Stdout) {
        return Err("BadValue: --fork has to be used with --logpath or --syslog".into());
    }
    if stop_at_end_of_input {
        return Err("BadValue: --stopAtEndOfInput cannot be used with --fork, which closes the \
                    standard input"
            .into());
    }
    Ok(())
}

/// All settings and parameters by dotted key, without passwords.
fn parsed(settings: &Settings) -> Vec<(String, String)> {
    let shown =
        |(key, value): (&&str, &String)| ((*key).to_owned(), tls::shown(key, value).to_owned());
    let mut parsed: Vec<_> = settings.values.iter().map(shown).collect();
    for (name, value) in &settings.parameters {
        parsed.push((format!("setParameter.{name}"), value.clone()));
    }
    parsed
}

fn profile_level(settings: &Settings) -> i32 {
    match settings.get("operationProfiling.mode") {
        Some("slowOp" | "1") => 1,
        Some("all" | "2") => 2,
        _ => 0,
    }
}

fn initiate(settings: &Settings) -> Result<bool, String> {
    let initiate = settings.is_on("replication.initiate");
    match initiate && settings.get("replication.replSetName").is_none() {
        true => {
            Err("BadValue: --initiate needs the name of the replica set: add --replSet NAME"
                .to_owned())
        }
        false => Ok(initiate),
    }
}

/// The limits of the oplog. MongoDB takes 5 % of the free disk space unless told otherwise.
fn oplog(settings: &Settings) -> OplogLimits {
    let default = OplogLimits::default();
    let megabytes = settings.get("replication.oplogSizeMB").and_then(|n| n.parse::<i64>().ok());
    let hours = settings.get("storage.oplogMinRetentionHours").and_then(|n| n.parse().ok());
    let path = settings.get("storage.dbPath").unwrap_or(DB_PATH);
    let free = rustix::fs::statvfs(path).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let part = i64::try_from(free.unwrap_or(0) / 20).unwrap_or(i64::MAX);
    OplogLimits {
        bytes_max: megabytes.map_or(part.clamp(default.bytes_max, OPLOG_BYTES_MAX), |mb| mb << 20),
        hours_min: hours.unwrap_or(default.hours_min),
    }
}

/// The greatest size that is chosen for an oplog.
const OPLOG_BYTES_MAX: i64 = 50 << 30;

/// The maximum length of a replica set's name.
const SET_NAME_BYTES_MAX: usize = 128;

/// The name of the set. The old syntax with other members after a slash is refused, because there can be none.
fn replica_set(settings: &Settings) -> Result<Option<String>, String> {
    let Some(name) = settings.get("replication.replSetName") else { return Ok(None) };
    if name.is_empty() || name.contains('/') || name.len() > SET_NAME_BYTES_MAX {
        return Err(format!(
            "BadValue: bad value '{name}' for the name of a replica set (--replSet): expected 1 to \
             {SET_NAME_BYTES_MAX} bytes without '/'; name the set alone, without members"
        ));
    }
    Ok(Some(name.to_owned()))
}

/// A key file enables authorization, so disabling it at the same time is refused.
fn authorization(settings: &Settings) -> Result<bool, String> {
    match (settings.get("security.authorization"), settings.get("security.keyFile")) {
        (Some("disabled"), Some(_)) => {
            Err("BadValue: cannot disable authorization with a key file".into())
        }
        (Some(chosen), _) => Ok(chosen == "enabled"),
        (None, key_file) => Ok(key_file.is_some()),
    }
}

/// The parameters, including options that are parameters under another name.
fn parameters(settings: &Settings) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (key, name) in [
        ("systemLog.verbosity", "logLevel"),
        ("systemLog.quiet", "quiet"),
        ("notablescan", "notablescan"),
        ("security.ldap.retryCount", "ldapRetryCount"),
        ("security.redactClientLogData", "redactClientLogData"),
    ] {
        if let Some(value) = settings.get(key) {
            all.push((name.to_owned(), value.to_owned()));
        }
    }
    all.extend(settings.parameters.iter().map(|(n, v)| (n.clone(), v.clone())));
    all
}

fn parameter_lines(settings: &Settings) -> BTreeMap<String, usize> {
    let lines = settings.lines.iter();
    let of_parameters = lines.filter_map(|(key, line)| {
        let name = key.strip_prefix("setParameter.")?;
        settings.parameters.contains_key(name).then(|| (name.to_owned(), *line))
    });
    of_parameters.collect()
}

fn log_destination(settings: &Settings) -> Result<LogDestination, String> {
    let append = settings.is_on("systemLog.logAppend");
    let rotate = match settings.get("systemLog.logRotate") {
        Some("reopen") if !append => {
            return Err("BadValue: logRotate reopen needs logAppend".into());
        }
        Some("reopen") => LogRotate::Reopen,
        _ => LogRotate::Rename,
    };
    let facility = settings.get("systemLog.syslogFacility").unwrap_or("user");
    let Some((_, facility)) = SYSLOG_FACILITIES.iter().find(|(name, _)| *name == facility) else {
        let names: Vec<&str> = SYSLOG_FACILITIES.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "BadValue: ERROR: syslogFacility must be set to a string representing one of the possible \
             syslog facilities, not '{facility}': {}",
            names.join(", ")
        ));
    };
    match (settings.get("systemLog.path"), settings.get("systemLog.destination")) {
        (Some(_), Some("syslog")) => Err("BadValue: Can only set systemLog.path if \
                                          systemLog.destination is to a file."
            .into()),
        (None, Some("syslog")) => {
            Ok(LogDestination::Syslog { socket: SYSLOG.into(), facility: *facility })
        }
        (Some(path), _) => Ok(LogDestination::File { path: path.into(), append, rotate }),
        (None, Some(_)) => Err("BadValue: systemLog.path is required if systemLog.destination is \
                                to a file"
            .into()),
        (None, None) => Ok(LogDestination::Stdout),
    }
}

/// The socket of the system's log.
pub(super) const SYSLOG: &str = "/dev/log";

/// The key of the compressors of messages.
pub(crate) const COMPRESSORS_KEY: &str = "net.compression.compressors";
/// The compressors that the list may contain.
pub(crate) const MESSAGE_COMPRESSORS: [&str; 3] = ["snappy", "zstd", "zlib"];

/// The compressors of messages: a list in order of preference, or `disabled`.
fn compressors(settings: &Settings) -> Result<Vec<String>, String> {
    let list = settings.get(COMPRESSORS_KEY).unwrap_or("snappy,zstd,zlib");
    if list == "disabled" {
        return Ok(Vec::new());
    }
    let names = list.split(',').map(str::trim).map(str::to_owned);
    names
        .map(|name| match MESSAGE_COMPRESSORS.contains(&name.as_str()) {
            true => Ok(name),
            false => Err(format!(
                "BadValue: Invalid network message compressor specified in configuration: '{name}' \
                 (there are: {}, or 'disabled' alone)",
                MESSAGE_COMPRESSORS.join(", ")
            )),
        })
        .collect()
}

/// The directory of time zones must exist, as in mongod.
fn time_zones(settings: &Settings) -> Result<Option<String>, String> {
    let Some(path) = settings.get("processManagement.timeZoneInfo") else { return Ok(None) };
    match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => Ok(Some(path.to_owned())),
        Ok(_) => {
            Err(format!("BadValue: processManagement.timeZoneInfo: {path} is not a directory"))
        }
        Err(error) => Err(format!("BadValue: processManagement.timeZoneInfo: {path}: {error}")),
    }
}

/// Verbosity by component, from keys such as `systemLog.component.storage.journal.verbosity`.
fn component_verbosity(settings: &Settings) -> Vec<(String, i32)> {
    let level = |(key, value): (&&str, &String)| {
        let path = key.strip_prefix("systemLog.component.")?.strip_suffix(".verbosity")?;
        Some((path.to_owned(), value.parse().ok()?))
    };
    settings.values.iter().filter_map(level).collect()
}

/// A list of addresses and networks.
fn networks(settings: &Settings, key: &str) -> Result<Option<Networks>, String> {
    let list = settings.get(key).map(|list| {
        Networks::parse(list).map_err(|error| format!("BadValue: bad value for {key}: {error}"))
    });
    list.transpose()
}

fn net(settings: &Settings) -> Result<NetConfig, String> {
    let mut net = NetConfig::default();
    if let Some(port) = settings.get("net.port").and_then(|p| p.parse().ok()) {
        net.port = port;
    }
    net.ipv6 = settings.is_on("net.ipv6");
    net.allowed = networks(settings, "net.ipAllowlist")?;
    // The lists of members are without effect, but a wrong one would be found only by another server.
    networks(settings, "security.clusterIpSourceAllowlist")?;
    networks(settings, "security.clusterIpSourceWhitelist")?;
    let all = settings.is_on("net.bindIpAll");
    match settings.get("net.bindIp") {
        Some(_) if all => {
            return Err("BadValue: Cannot specify both --bind_ip and --bind_ip_all".into());
        }
        Some(names) => {
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
            net.bind_ip = names.map(|n| if n == "*" { "0.0.0.0" } else { n }.to_owned()).collect();
            if net.bind_ip.is_empty() {
                return Err("BadValue: net.bindIp (--bind_ip) has no address".into());
            }
        }
        None if all => {
            net.bind_ip = vec!["0.0.0.0".into()];
            if net.ipv6 {
                net.bind_ip.push("::".into());
            }
        }
        None => {}
    }
    if let Some(backlog) = settings.get("net.listenBacklog").and_then(|n| n.parse().ok()) {
        net.backlog = backlog;
    }
    if let Some(prefix) = settings.get("net.unixDomainSocket.pathPrefix") {
        net.unix_socket_dir = Some(prefix.into());
    }
    if settings.get("net.unixDomainSocket.enabled") == Some("false") {
        net.unix_socket_dir = None;
    }
    if let Some(mode) = settings.get("net.unixDomainSocket.filePermissions") {
        // Octal digits, with or without a leading zero or `0o`.
        let digits = mode.trim_start_matches("0o");
        net.unix_socket_mode =
            u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777).ok_or_else(|| {
                format!(
                    "BadValue: bad value '{mode}' for net.unixDomainSocket.filePermissions \
                     (--filePermissions): expected octal digits from 0 to 0777, such as 0700"
                )
            })?;
    }
    Ok(net)
}
