//! From a path to a running database, and back.
//!
//! ```text
//!   open:   folder checked -> locked -> engine -> store -> memory watcher -> server core -> background jobs
//!   close:  commands interrupted and awaited -> jobs joined -> watcher joined -> store flushed -> lock released
//! ```

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use nagi_budget::{Budget, Division};
use nagi_error::Code;
use nagi_host::{
    EngineKind, EngineSettings, Lock, MappedOptions, OnFatal, Problem, RocksOptions, Watched,
    Watcher,
};
use nagi_server::{
    Log, LogDestination, OplogLimits, Server, ServerBuilder, ServerConfig, check_parameters,
};
use nagi_store::{Oplog, Store, StoreOptions};

use crate::options::{CACHE_MB_MIN, Options};
use crate::{Error, ErrorKind, Result};

/// The port in the configuration of a replica set: that of a server, so that a server finds itself in it.
const PORT: u16 = 27017;
/// Parameters that differ from a server's: connections are of no interest, and a cursor is closed when it is dropped,
/// not when it has been unused for ten minutes.
const PARAMETERS: [(&str, &str); 2] = [("quiet", "1"), ("cursorTimeoutMillis", "604800000")];

/// An open database.
pub(crate) struct Opened {
    pub(crate) server: Arc<Server>,
    store: Arc<Store>,
    watcher: Watcher,
    lock: Option<Lock>,
}

impl Opened {
    /// Opens the folder.
    pub(crate) fn folder(folder: &Path, options: &Options) -> Result<Opened> {
        check_options(options)?;
        if options.create && !folder.exists() {
            let mut builder = std::fs::DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(folder);
            made.map_err(|error| Error::io(&format!("cannot create {}", folder.display()), error))?;
        }
        nagi_host::check(folder).map_err(|problem| unusable(folder, problem))?;
        let lock =
            Lock::take(folder).map_err(|error| unusable(folder, nagi_host::lock_problem(error)))?;
        let opened = engine_of(folder, options).and_then(|kind| serve(Some(folder), kind, options));
        match opened {
            Ok(opened) => Ok(Opened { lock: Some(lock), ..opened }),
            Err(error) => {
                // Nothing was written that a clean shutdown would have to finish.
                let _ = lock.release();
                Err(error)
            }
        }
    }

    /// Opens an empty database in memory.
    pub(crate) fn in_memory(options: &Options) -> Result<Opened> {
        check_options(options)?;
        serve(None, EngineKind::Memory, options)
    }

    /// Makes running commands end soon, and new ones fail.
    pub(crate) fn stop(&self) {
        self.server.stop();
    }

    /// Ends everything. No command runs any more.
    pub(crate) fn close(self) -> Result<()> {
        let Opened { server, store, watcher, lock } = self;
        server.join_jobs();
        drop(watcher);
        let closed = store.close().map_err(|error| Error::core("close", &error));
        // The engine's own locks are released when its last owner is gone.
        drop(server);
        debug_assert_eq!(
            Arc::strong_count(&store),
            1,
            "an owner of the store outlives the database"
        );
        drop(store);
        let released = match lock {
            Some(lock) => lock.release().map_err(|error| Error::io("close", error)),
            None => Ok(()),
        };
        closed.and(released)
    }
}

fn check_options(options: &Options) -> Result<()> {
    let bad = |text: String| Err(Error::new(ErrorKind::Options, Code::BAD_VALUE, text));
    if options.cache_mb < CACHE_MB_MIN {
        return bad(format!(
            "cache_mb is {}, but at least {CACHE_MB_MIN} is needed",
            options.cache_mb
        ));
    }
    if options.in_memory_mb == Some(0) || options.commit_interval_ms == Some(0) {
        return bad("in_memory_mb and commit_interval_ms must be positive".to_owned());
    }
    if options.replica_set.as_ref().is_some_and(String::is_empty) {
        return bad("the name of the replica set is empty".to_owned());
    }
    match check_parameters(&options.parameters) {
        Ok(()) => Ok(()),
        Err(error) => Err(Error::core("parameter", &error)),
    }
}

/// The engine to open a folder with.
fn engine_of(folder: &Path, options: &Options) -> Result<EngineKind> {
    let path = folder.display().to_string();
    let found = nagi_host::found_in(folder).map_err(|error| Error::engine(&path, error))?;
    let chosen = options.engine.map(crate::Engine::kind);
    match (found, chosen) {
        (Some(found), Some(chosen)) if found != chosen => Err(Error::new(
            ErrorKind::Options,
            Code::Location(28662),
            format!(
                "{path} holds data of the storage engine {}, not of {}",
                found.name(),
                chosen.name()
            ),
        )),
        (Some(found), _) => Ok(found),
        (None, chosen) => Ok(chosen.unwrap_or(EngineKind::Embedded)),
    }
}

/// Opens engine and store, and starts the core of the server on them.
fn serve(folder: Option<&Path>, kind: EngineKind, options: &Options) -> Result<Opened> {
    let path = folder.map_or_else(String::new, |folder| folder.display().to_string());
    let budget_bytes = budget_bytes(kind, options);
    let (blocks, records) = match kind {
        EngineKind::Embedded => nagi_store::first_partition(Division::of(budget_bytes).caches),
        EngineKind::Mapped | EngineKind::Memory | EngineKind::Distributed => (0, 0),
    };
    let budget = Budget::new(budget_bytes);
    let settings =
        settings(kind, blocks, options).ok_or_else(|| elsewhere(&path))?.charged_to(&budget);
    let engine = nagi_host::open(folder.unwrap_or(Path::new("")), &settings)
        .map_err(|error| Error::engine(&path, error))?;
    let store_options = StoreOptions {
        record_cache_bytes: usize::try_from(records).unwrap_or(usize::MAX),
        budget,
        change_log: options.replica_set.as_ref().map(|_| Arc::new(Oplog::default()) as _),
        ..StoreOptions::default()
    };
    let opened = Store::open(engine, store_options).map_err(|error| Error::core(&path, &error))?;
    let watcher = Watcher::start(&opened, kind, Watched::Account);
    match build(folder, kind, options, &opened) {
        Ok(server) => Ok(Opened { server, store: opened, watcher, lock: None }),
        Err(error) => {
            drop(watcher);
            // Closed as after a clean shutdown, because nothing was written.
            let _ = opened.close();
            Err(error)
        }
    }
}

fn budget_bytes(kind: EngineKind, options: &Options) -> u64 {
    match kind {
        EngineKind::Memory => nagi_host::in_memory_budget(in_memory_bytes(options)),
        EngineKind::Embedded | EngineKind::Mapped | EngineKind::Distributed => {
            options.cache_mb.saturating_mul(1 << 20)
        }
    }
}

fn in_memory_bytes(options: &Options) -> u64 {
    let chosen = options.in_memory_mb.map(|mb| mb.saturating_mul(1 << 20));
    chosen.unwrap_or_else(nagi_host::in_memory_bytes_default)
}

/// The error of the folder of a server whose data are in a cluster.
fn elsewhere(path: &str) -> Error {
    Error::new(
        ErrorKind::Options,
        Code::ILLEGAL_OPERATION,
        format!(
            "{path} is the folder of a server whose data are in TiKV: the library cannot open them"
        ),
    )
}

/// None for an engine that the library does not have.
fn settings(kind: EngineKind, blocks: u64, options: &Options) -> Option<EngineSettings> {
    Some(match kind {
        EngineKind::Distributed => return None,
        EngineKind::Memory => EngineSettings::Memory { bytes_max: in_memory_bytes(options) },
        EngineKind::Mapped => {
            let mut chosen =
                MappedOptions { on_fatal: OnFatal::Refuse, ..MappedOptions::default() };
            chosen.commit_interval_ms =
                options.commit_interval_ms.unwrap_or(chosen.commit_interval_ms);
            EngineSettings::Mapped(chosen)
        }
        EngineKind::Embedded => {
            let mut chosen = RocksOptions {
                cache_bytes: blocks,
                on_fatal: OnFatal::Refuse,
                ..RocksOptions::default()
            };
            chosen.commit_interval_ms =
                options.commit_interval_ms.unwrap_or(chosen.commit_interval_ms);
            EngineSettings::Embedded(chosen)
        }
    })
}

/// Builds the core of the server and starts its background jobs.
fn build(
    folder: Option<&Path>,
    kind: EngineKind,
    options: &Options,
    store: &Arc<Store>,
) -> Result<Arc<Server>> {
    let log = Log::open(LogDestination::Application).map_err(|error| Error::io("log", error))?;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let mut parameters: Vec<_> = PARAMETERS.into_iter().map(owned).collect();
    // The last value of a parameter counts.
    parameters.extend(options.parameters.iter().cloned());
    let config = ServerConfig {
        store: store.clone(),
        log,
        storage_engine: kind.name().to_owned(),
        persistent: kind != EngineKind::Memory,
        argv: Vec::new(),
        parsed_options: options.shown(),
        port: PORT,
        replica_set: options.replica_set.clone().map(|name| (name, format!("localhost:{PORT}"))),
        router: None,
        oplog: OplogLimits::default(),
        connection_count_max: i64::MAX,
        memory_limit_bytes: None,
        authorization: false,
        tls: None,
        directory: None,
        tokens: None,
        javascript: options.javascript,
        own_threads: false,
        parameters,
        restores: false,
        nagi_version: env!("CARGO_PKG_VERSION"),
        git_version: "unknown",
    };
    let failed = |error: nagi_error::Error| Error::core("open", &error);
    let mut builder = ServerBuilder::new(config).map_err(failed)?;
    if let Some(folder) = folder {
        builder = builder
            .data_folder(folder)
            .map_err(|error| Error::io(&folder.display().to_string(), error))?;
    }
    if options.replica_set.is_some() {
        builder = builder.initiate_replica_set().map_err(failed)?;
    }
    builder.start().map_err(failed)
}

fn unusable(folder: &Path, problem: Problem) -> Error {
    let path = folder.display();
    let file = |error| Error::io(&format!("cannot lock {path}/mongod.lock"), error);
    let refused = |code, text: String| Error::new(ErrorKind::Io, code, text);
    match problem {
        Problem::NotADirectory => {
            Error::io(&path.to_string(), std::io::ErrorKind::NotADirectory.into())
        }
        Problem::NotFound => Error::io(&path.to_string(), std::io::ErrorKind::NotFound.into()),
        Problem::Unreachable(error) => Error::io(&path.to_string(), error),
        Problem::UnfinishedRestore => refused(
            Code::ILLEGAL_OPERATION,
            format!("{path} holds an unfinished restore: run `nagi restore` again"),
        ),
        Problem::Foreign(text) => refused(Code::ILLEGAL_OPERATION, text),
        Problem::InUse => Error::new(
            ErrorKind::InUse,
            Code::DB_PATH_IN_USE,
            format!("{path} is open already, in this process or in another one"),
        ),
        Problem::ReadOnly => file(std::io::ErrorKind::ReadOnlyFilesystem.into()),
        Problem::Full(error) | Problem::NotLocked(error) => file(error),
    }
}
