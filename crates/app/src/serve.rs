//! `nagi serve`: from the options to a running server, and to its shutdown.
//!
//! ```text
//!   run         options, umask, checks of paths, --fork, log
//!    serve        key file, lock and engine of the data directory, process id file, --repair
//!     serve_data    memory budget, engine, store
//!      serve_store    server, warnings, signals, listeners; waits for the shutdown; stop
//! ```
//!
//! Each step cleans up after the next one, so the lock of the data directory is released last.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nagi_bson::{DocBuf, doc, json};
use nagi_budget::Budget;
use nagi_console::Console;
use nagi_error::Code;
use nagi_host::{EngineKind, EngineSettings, Watched, Watcher};
use nagi_net::NetConfig;
use nagi_otlp::Exporter;
use nagi_proc::{Process, machine};
use nagi_server::{Log, LogDestination, Server, ServerBuilder, ServerConfig, Stamp};
use nagi_store::{Oplog, Store, StoreOptions};

use crate::failure::{Failure, TERMINATING, exit, not_opened};
use crate::notify::Notifier;
use crate::options::{self, Options, Request};
use crate::pid_file::PidFile;
use crate::takeover::Takeover;
use crate::{
    allocator, build, connections, console, encryption, engine, exposure, folder, fork, help,
    key_file, ldap, local_zone, memory, paths, print, record, repair, say, server_config, signals,
    telemetry, transport, umask, warnings,
};

/// The time that replies in progress have once the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// The most memory of what a router shows of its cluster: databases, sharded collections.
const ROUTER_VIEWS_BYTES_MAX: u64 = 64 << 20;

/// Runs `nagi serve ARGS...`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let mut options = match options::read(args) {
        Ok(Request::Serve(options)) => options,
        Ok(Request::Shutdown(options)) => return shutdown_other(&options),
        Ok(Request::Help) => return help::command("serve"),
        Ok(Request::Version) => {
            build::print_version();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            say(&error);
            return ExitCode::from(exit::BAD_OPTIONS);
        }
    };
    let umask = match umask::Wanted::from_parameters(&options.parameters) {
        Ok(umask) => umask,
        Err(error) => {
            say(&options.at_parameter("processUmask", &error));
            return ExitCode::from(exit::BAD_OPTIONS);
        }
    };
    if let Err((text, code)) = check(&mut options) {
        say(&text);
        return ExitCode::from(code);
    }
    if options.fork && !fork::is_child() {
        return fork::start(args);
    }
    if options.fork {
        fork::detach();
    }
    umask.set();
    if let Err(error) = encryption::take_variables(&mut options) {
        say(&error);
        return ExitCode::from(exit::FAILURE);
    }
    let log = match Log::open(options.log.clone()) {
        Ok(log) => log,
        Err(error) => {
            let what = match options.log {
                LogDestination::Syslog { .. } => "the system's log (--syslog)",
                _ => "rotatable log file",
            };
            say(&format!(
                "Error during global initialization: Can't initialize {what} :: caused by :: {error}"
            ));
            return ExitCode::from(exit::FAILURE);
        }
    };
    log.install();
    configure_log(&log, &options);
    nagi_server::set_log_context("initandlisten");
    let notifier = Notifier::start(options.fork);
    let code = match serve(&options, args, umask, &log, &notifier) {
        Ok(()) => 0,
        Err(failure) => {
            notifier.failed(&format!("{}: {}", failure.message, failure.error));
            log::error!(target: "CONTROL", id = failure.id, error = failure.error;
                "{}", failure.message);
            if options.fork {
                // The parent process passes it on.
                say(&format!("{}: {}", failure.message, failure.error));
            }
            failure.code
        }
    };
    exiting(&log, code)
}

/// Checks what the options name, and reads the rules of alerts. An error has the exit status.
fn check(options: &mut Options) -> Result<(), (String, u8)> {
    let checked = options::check_parameters(options).and_then(|()| exposure::check(options));
    let loaded = checked.and_then(|()| options.alerts.load());
    loaded.map_err(|text| (text, exit::BAD_OPTIONS))?;
    paths::check(options).map_err(|refused| (refused.text, refused.code))
}

/// Logs the end of the process.
fn exiting(log: &Log, code: u8) -> ExitCode {
    log::info!(target: "CONTROL", id = 20565; "Now exiting");
    log::info!(target: "CONTROL", id = 23138, exitCode = code; "Shutting down");
    log.flush();
    ExitCode::from(code)
}

/// Runs a server while the data directory is locked.
fn serve(
    options: &Options,
    args: &[String],
    umask: umask::Wanted,
    log: &Arc<Log>,
    notifier: &Notifier,
) -> Result<(), Failure> {
    announce(options, log);
    raise_descriptor_limit();
    exposure::without_core_dumps(options);
    if let Some(path) = &options.key_file {
        key_file::check(path).map_err(|error| Failure {
            code: exit::FAILURE,
            id: 20254,
            message: "Unable to acquire security key[s]",
            error,
        })?;
    }
    let refused =
        |error| Failure { code: exit::DATA_FOLDER, id: 20557, message: TERMINATING, error };
    if options.engine == EngineKind::Memory {
        let _pid_file = PidFile::write(options.pid_file.as_deref())?;
        // An operator who specifies a data directory with data expects to see them.
        return serve_data(&engine::settle(options).map_err(refused)?, args, log, notifier);
    }
    let folder_lock = folder::take(options)?;
    // Written under the lock, so that the file of a running server is not overwritten.
    let served = PidFile::write(options.pid_file.as_deref()).and_then(|_pid_file| {
        let folder = Path::new(&options.db_path);
        let is_own = nagi_kv_disk::marker::engine_of(folder).is_ok_and(|engine| engine.is_some());
        let mut options = engine::settle(options).map_err(refused)?;
        options.keys = encryption::open(&options)?;
        if encryption::ends_after_rotation(&options) {
            return Ok(());
        }
        if is_own {
            close_to_others(umask, folder);
        }
        match options.repair {
            true => {
                notifier.step("Repairing the data directory");
                repair::run(&options).map_err(|refused| {
                    not_opened(paths::named(refused.error, &options), refused.code)
                })
            }
            false => serve_data(&options, args, log, notifier),
        }
    });
    log::info!(target: "STORAGE", id = 22279; "shutdown: removing fs lock...");
    let released = folder_lock.release().map_err(|error| not_written(&error));
    served.and(released)
}

/// Opens engine and store, and serves until the shutdown.
fn serve_data(
    options: &Options,
    args: &[String],
    log: &Arc<Log>,
    notifier: &Notifier,
) -> Result<(), Failure> {
    let budget = Budget::new(memory::budget_bytes(options));
    let (blocks, records) = memory::cache_bytes(options);
    log::info!(target: "STORAGE", id = 8200045, budgetBytes = memory::budget_bytes(options),
        blockCacheBytes = blocks, recordCacheBytes = records; "Memory budget");
    let engine = engine::open_charged(options, blocks, &budget).map_err(|error| match &error {
        nagi_kv::Error::Corrupt(_) => not_opened(damaged(&error), exit::UNRECOVERABLE),
        nagi_kv::Error::Full => not_opened(format!("OutOfDiskSpace: {error}"), exit::DATA_FOLDER),
        nagi_kv::Error::Unreachable(_) => {
            not_opened(format!("HostUnreachable: {error}"), exit::CLUSTER)
        }
        _ => not_opened(paths::named(error.to_string(), options), exit::DATA_FOLDER),
    })?;
    let record_cache_bytes = usize::try_from(records).unwrap_or(usize::MAX);
    let takeover = Arc::<Takeover>::default();
    let store_options = StoreOptions {
        node: Takeover::node(&takeover, options),
        record_cache_bytes,
        budget,
        zstd_level: options.compression.zstd_level.unwrap_or(StoreOptions::default().zstd_level),
        change_log: logs_changes(options).then(|| Arc::new(Oplog::default()) as _),
        change_log_lasts: change_log_lasts(options),
        ..StoreOptions::default()
    };
    let store = Store::open(engine, store_options).map_err(|error| match is_damage(&error) {
        true => not_opened(damaged(&error.message()), exit::UNRECOVERABLE),
        false => Failure {
            code: exit::of_store(&error),
            id: 20557,
            message: TERMINATING,
            error: paths::named(error.to_string(), options),
        },
    })?;
    let served = serve_store(options, args, &store, &takeover, (log, notifier));
    if served.is_err() {
        // Nothing was served: close the data directory as after a clean shutdown.
        let _ = store.close();
    }
    served
}

/// Builds the server on an open store, and serves until the shutdown.
fn serve_store(
    options: &Options,
    args: &[String],
    store: &Arc<Store>,
    takeover: &Takeover,
    (log, notifier): (&Arc<Log>, &Notifier),
) -> Result<(), Failure> {
    let watcher = Watcher::start(store, options.engine, Watched::Process(allocator::ALLOCATOR));
    let limits = connections::Limits::of_process(options);
    limits.log(options);
    let port_in_use = |error: std::io::Error| Failure {
        code: exit::PORT_IN_USE,
        id: 20568,
        message: "Error setting up listener",
        error: error.to_string(),
    };
    let tls = transport::open(options, log)?;
    let net =
        NetConfig { descriptors_max: limits.descriptors, tls: tls.clone(), ..options.net.clone() };
    // Bound before the replica set is initiated, whose configuration has the port also if the system selects it.
    let addresses = nagi_net::bind(net).map_err(port_in_use)?;
    exposure::check_bound(options, addresses.beyond_loopback()).map_err(|e| bad_options(&e))?;
    limits.check().map_err(port_in_use)?;
    let port = addresses.port();
    let mut config =
        server_config::of_options(options, args, store.clone(), limits.connections, port, log);
    config.tls = tls.map(|tls| tls as _);
    add_logins(&mut config, options)?;
    config.router = router_views(options, store)?;
    let server = configured(config, options)?.start().map_err(|error| not_started(&error))?;
    warnings::at_start(options, limits.connections, log);
    exposure::warn(options, args, &server, log);
    say_what_the_journal_does(options);
    let record = record::Record::start(options);
    server.record_start(&local_zone::find());
    signals::watch(server.clone(), log.clone())
        .and_then(|()| match options.stop_at_end_of_input {
            true => signals::watch_input(server.clone()),
            false => Ok(()),
        })
        .map_err(|error| Failure {
            code: exit::FAILURE,
            id: 8_200_002,
            message: "Signals cannot be watched",
            error: error.to_string(),
        })?;
    let listeners = nagi_net::serve(&server, addresses).map_err(port_in_use)?;
    let console = console::start(&server, options, port);
    let exporter = telemetry::start(&server, options).map_err(|error| bad_options(&error))?;
    if options.fork {
        fork::ready();
    }
    takeover.ends(&server);
    let local = (options.engine != EngineKind::Distributed).then_some(store);
    notifier.ready(&server, local, listeners.port());
    server.wait_for_shutdown();
    notifier.stopping();
    drop((record, watcher));
    let stopped = stop(&server, listeners, (console, exporter), store);
    takeover.failure().and(stopped)
}

/// A member of a replica set does, and all nodes over a cluster.
fn logs_changes(options: &Options) -> bool {
    options.replica_set.is_some() || options.engine == EngineKind::Distributed
}

/// How long changes are kept over a cluster, where the log has no size.
fn change_log_lasts(options: &Options) -> Duration {
    match options.oplog.hours_min {
        hours if hours > 0.0 => Duration::from_secs_f64(hours * 3600.0),
        _ => StoreOptions::default().change_log_lasts,
    }
}

/// Over a cluster the server is a router: the store in memory for what it shows of the cluster.
fn router_views(options: &Options, store: &Store) -> Result<Option<Arc<Store>>, Failure> {
    if options.engine != EngineKind::Distributed {
        return Ok(None);
    }
    let settings = EngineSettings::Memory { bytes_max: ROUTER_VIEWS_BYTES_MAX };
    let engine = nagi_host::open(Path::new(""), &settings)
        .map_err(|error| not_opened(error.to_string(), exit::FAILURE))?;
    let options = StoreOptions {
        record_cache_bytes: 0,
        budget: store.budget().clone(),
        ..StoreOptions::default()
    };
    let views = Store::open(engine, options);
    views.map(Some).map_err(|error| not_opened(error.to_string(), exit::FAILURE))
}

fn bad_options(error: &dyn std::fmt::Display) -> Failure {
    Failure {
        code: exit::BAD_OPTIONS,
        id: 20574,
        message: "Error during global initialization",
        error: error.to_string(),
    }
}

/// True if the error is that of damaged data.
fn is_damage(error: &nagi_error::Error) -> bool {
    error.code() == Code::DATA_CORRUPTION_DETECTED
}

/// The text of damaged data that was found at the start.
fn damaged(error: &dyn std::fmt::Display) -> String {
    format!("DataCorruptionDetected: {error}; start once with --repair to save what can be read")
}

/// A server that cannot be built or started: because of its options, or because data that it reads first is damaged.
fn not_started(error: &nagi_error::Error) -> Failure {
    match error.code() {
        Code::DATA_CORRUPTION_DETECTED => {
            not_opened(damaged(&error.message()), exit::UNRECOVERABLE)
        }
        Code::OUT_OF_DISK_SPACE => not_opened(error.to_string(), exit::DATA_FOLDER),
        _ if exit::is_of_cluster(error) => not_opened(error.to_string(), exit::CLUSTER),
        // The disk cannot read or write.
        Code::INTERNAL_ERROR => not_opened(error.to_string(), exit::UNRECOVERABLE),
        _ => bad_options(error),
    }
}

/// A server with all options, which is not started yet.
fn configured(config: ServerConfig, options: &Options) -> Result<ServerBuilder, Failure> {
    let mut builder = ServerBuilder::new(config)
        .map_err(|error| not_started(&error))?
        .slow_operations(options.slow_ms, options.slow_sample_rate)
        .profile_level(options.profile_level)
        .compressors(&options.compressors)
        .encryption(options.keys.clone());
    let data = (options.engine != EngineKind::Memory).then(|| Path::new(&options.db_path));
    if let Some(data) = data {
        builder = builder.data_folder(data).map_err(|error| not_written(&error))?;
    }
    builder = builder.record_diagnostic_data(data).map_err(|error| bad_options(&error))?;
    if let Some(audit) = &options.audit {
        builder = builder.audit(audit).map_err(|error| match error.code() {
            // The file or the socket: paths.rs has checked it, but it may change, or its disk be full.
            Code::OPERATION_FAILED => Failure { code: exit::FAILURE, ..bad_options(&error) },
            _ => not_started(&error),
        })?;
    }
    if options.initiate {
        let failed =
            |error| if is_damage(&error) { not_started(&error) } else { not_written(&error) };
        builder = builder.initiate_replica_set().map_err(failed)?;
        if options.net.port == 0 {
            builder = builder.follow_port().map_err(failed)?;
        }
    }
    Ok(builder)
}

/// Adds what checks the logins of users that are not stored here.
fn add_logins(config: &mut ServerConfig, options: &Options) -> Result<(), Failure> {
    config.directory = ldap::open(options)?.map(|ldap| ldap as _);
    config.tokens = Some(nagi_oidc::Trust::new());
    Ok(())
}

/// Sets the format of the log's lines and the verbosity.
fn configure_log(log: &Log, options: &Options) {
    log.set_stamp(match options.stamps_in_utc {
        true => Stamp::Utc,
        false => Stamp::Local(local_zone::find()),
    });
    for (component, level) in &options.component_verbosity {
        log.set_verbosity_of(component, *level);
    }
}

/// Logs how the configured compressor of the write-ahead log is used, if it is used differently than in MongoDB.
fn say_what_the_journal_does(options: &Options) {
    use nagi_kv::Compressor::{Snappy, Zlib};
    if let Some(compressor @ (Snappy | Zlib)) = options.compression.journal {
        log::info!(target: "STORAGE", id = 8_200_004, journalCompressor = compressor.name();
            "The journal can be compressed with zstd only, not with this compressor; large \
             documents are compressed with their collection's compressor before they are written \
             to the journal");
    }
}

/// Clean shutdown: stops accepting connections, lets replies be sent, writes everything to disk.
fn stop(
    server: &Arc<Server>,
    listeners: nagi_net::Listeners,
    (console, exporter): (Option<Console>, Option<Exporter>),
    store: &Store,
) -> Result<(), Failure> {
    log::info!(target: "NETWORK", id = 20562; "Shutdown: going to close listening sockets");
    let mut last = Instant::now();
    let mut lap = || (std::mem::replace(&mut last, Instant::now()).elapsed().as_millis()) as u64;
    server.stop();
    let interrupting = lap();
    // Both wait for requests that run.
    std::thread::scope(|scope| {
        let console = console.map(|console| scope.spawn(|| console.stop()));
        listeners.stop(GRACE);
        if let Some(console) = console {
            // A panic was already reported.
            let _ = console.join();
        }
    });
    let requests = lap();
    if let Some(exporter) = exporter {
        exporter.join();
    }
    server.close_diagnostic_data();
    server.close_audit_log();
    let recorders = lap();
    let closed = store.close().map_err(|error| not_written(&error));
    log::info!(target: "CONTROL", id = 8_200_416, interruptMillis = interrupting,
        requestsMillis = requests, recordersMillis = recorders, storeMillis = lap();
        "Shutdown: what took its time");
    closed
}

fn not_written(error: &dyn std::fmt::Display) -> Failure {
    Failure {
        code: exit::UNRECOVERABLE,
        id: 8_200_003,
        message: "The data could not be written at shutdown",
        error: error.to_string(),
    }
}

/// Every connection and every data file needs a file descriptor: raises the limit as far as allowed.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: now.maximum, maximum: now.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        log::warn!(target: "CONTROL", id = 8_200_006, error = error.to_string();
            "The limit of open files could not be raised");
    }
}

/// Logs version, host and options at the start.
fn announce(options: &Options, log: &Log) {
    use nagi_server::Severity::Info;
    let host = machine::host_name().unwrap_or_default();
    let starting = DocBuf::build(|w| {
        w.put("pid", i64::from(std::process::id()));
        w.put("port", i32::from(options.net.port));
        w.put("dbPath", options.db_path.as_str());
        w.put("architecture", if cfg!(target_pointer_width = "64") { "64-bit" } else { "32-bit" });
        w.put("host", host.as_str());
    });
    log.write(Info, "CONTROL", 4_615_611, "Nagi starting", starting.as_doc());
    let info = doc! { "buildInfo": {
        "version": (nagi_server::COMPATIBLE_VERSION),
        "nagi": (build::VERSION),
        "gitVersion": (build::GIT_VERSION),
        "environment": {
            "distarch": (std::env::consts::ARCH), "target_arch": (std::env::consts::ARCH)
        }
    } };
    log.write(Info, "CONTROL", 23_403, "Build Info", info.as_doc());
    let parsed = server_config::parsed_options(options);
    let set = DocBuf::build(|w| w.put("options", &parsed));
    log.write(Info, "CONTROL", 21_951, "Options set by command line", set.as_doc());
    debug_assert!(!json::to_relaxed(parsed.as_doc()).is_empty());
}

/// Restricts the permissions of files in the data directory that an earlier version left readable for others.
fn close_to_others(umask: umask::Wanted, folder: &Path) {
    match umask.tighten(folder) {
        Ok(0) => {}
        Ok(count) => {
            log::warn!(target: "STORAGE", id = 8_200_007, dbpath = folder.display().to_string(),
                count = count; "Files and directories of the data directory were accessible to \
                other users of this machine; the permissions of these users were removed");
        }
        Err(error) => {
            log::warn!(target: "STORAGE", id = 8_200_008, dbpath = folder.display().to_string(),
                error = error.to_string(); "The permissions of the data directory's files cannot \
                be restricted to this user");
        }
    }
}

/// `--shutdown`: terminates the server that runs on the data directory, and waits for its end.
fn shutdown_other(options: &Options) -> ExitCode {
    let folder = Path::new(&options.db_path);
    let pid = match holder(folder) {
        Ok(pid) => pid,
        Err(why) => {
            say(&why);
            return ExitCode::from(exit::FAILURE);
        }
    };
    print(&format!("killing process with pid: {}", pid.as_raw_nonzero()));
    if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM) {
        let process = std::path::PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        let owner = match error {
            rustix::io::Errno::PERM => format!(" ({})", paths::owner(&process)),
            _ => String::new(),
        };
        say(&format!("failed to terminate the process: {error}{owner}"));
        return ExitCode::from(exit::FAILURE);
    }
    // There is no time limit, as in mongod: the caller usually starts the next server immediately.
    while is_running(pid) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    ExitCode::SUCCESS
}

/// The process that holds the lock of a data directory, or why it is not known.
fn holder(folder: &Path) -> Result<rustix::process::Pid, String> {
    use std::io::ErrorKind;
    let path = folder.display();
    if let Err(error) = std::fs::metadata(folder) {
        return Err(match error.kind() {
            ErrorKind::NotFound => format!("NonExistentPath: Data directory {path} not found"),
            _ => folder::not_reached(folder, &error),
        });
    }
    let file = folder.join("mongod.lock");
    // A pipe in its place would block.
    let opened = match std::fs::symlink_metadata(&file) {
        Ok(found) if found.is_file() => std::fs::File::open(&file).map(drop),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match opened {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let denied = match error.kind() {
                ErrorKind::PermissionDenied if !file.exists() => folder,
                _ => &file,
            };
            let owner = paths::owner(denied);
            return Err(format!(
                "IllegalOperation: Unable to open the lock file: {}: {error}: {}: {owner}",
                file.display(),
                denied.display()
            ));
        }
        _ => {}
    }
    nagi_host::holder(folder)
        .and_then(rustix::process::Pid::from_raw)
        .ok_or_else(|| format!("There doesn't seem to be a server running with dbpath: {path}"))
}

/// Returns true if a process runs. A zombie, whose parent has not waited for it, does not.
fn is_running(pid: rustix::process::Pid) -> bool {
    let id = pid.as_raw_nonzero().get().unsigned_abs();
    let ended = Process::Id(id).stat().is_some_and(|stat| stat.state == 'Z');
    !ended && rustix::process::test_kill_process(pid).is_ok()
}
