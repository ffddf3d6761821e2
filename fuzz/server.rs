//! A server with TLS and logins in memory, built with address sanitizer, for the mutated connections of
//! `tests/drivers/tls/hostile.py`: sockets, handshakes, records, frames, commands and logins are those of the program;
//! its storage engines and its allocator are not in it. `fuzz/run --server` builds it.
//!
//! It takes the options of `nagi serve` that the suite uses, and ignores others.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nagi_bson::DocBuf;
use nagi_net::NetConfig;
use nagi_server::{
    Log, LogDestination, LogRotate, OplogLimits, Server, ServerBuilder, ServerConfig, TlsMode,
};
use nagi_store::{Store, StoreOptions};
use nagi_tls::{Tls, TlsOptions};
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// The number of connections.
const CONNECTIONS_MAX: i64 = 10_000;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hostile-server: {why}");
            ExitCode::FAILURE
        }
    }
}

fn option(name: &str) -> Result<String, String> {
    let mut all = std::env::args().skip_while(|argument| argument != name);
    all.nth(1).ok_or_else(|| format!("the option {name} is missing"))
}

fn parameters() -> Vec<(String, String)> {
    let arguments: Vec<String> = std::env::args().collect();
    let set = arguments.windows(2).filter(|pair| pair[0] == "--setParameter");
    set.filter_map(|pair| pair[1].split_once('='))
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .collect()
}

fn serve() -> Result<(), String> {
    let port: u16 = option("--port")?.parse().map_err(|_| "the port is no number")?;
    let tls = Tls::open(TlsOptions {
        certificate_key_file: Some(PathBuf::from(option("--tlsCertificateKeyFile")?)),
        ca_file: Some(PathBuf::from(option("--tlsCAFile")?)),
        allow_connections_without_certificates: true,
        ..TlsOptions::new(TlsMode::Require)
    })?;
    let log = Log::open(LogDestination::File {
        path: PathBuf::from(option("--logpath")?),
        append: true,
        rotate: LogRotate::Rename,
    });
    let log = log.map_err(|error| error.to_string())?;
    log.install();
    let mut signals = Signals::new([SIGTERM]).map_err(|error| error.to_string())?;
    let server = server(log, port, tls.clone())?;
    let net = NetConfig {
        port,
        bind_ip: vec!["127.0.0.1".to_owned()],
        unix_socket_dir: None,
        tls: Some(tls),
        ..NetConfig::default()
    };
    let listeners = nagi_net::bind(net).and_then(|addresses| nagi_net::serve(&server, addresses));
    let listeners = listeners.map_err(|error| error.to_string())?;
    signals.forever().next();
    server.stop();
    listeners.stop(Duration::from_secs(5));
    Ok(())
}

fn server(log: Arc<Log>, port: u16, tls: Arc<Tls>) -> Result<Arc<Server>, String> {
    let engine = Arc::new(nagi_kv::Memory::new());
    let store = Store::open(engine, StoreOptions::default());
    let config = ServerConfig {
        store: store.map_err(|error| error.to_string())?,
        log,
        storage_engine: "inMemory".to_owned(),
        persistent: false,
        argv: Vec::new(),
        parsed_options: DocBuf::new(),
        port,
        replica_set: None,
        oplog: OplogLimits::default(),
        memory_limit_bytes: None,
        connection_count_max: CONNECTIONS_MAX,
        authorization: true,
        tls: Some(tls),
        directory: None,
        tokens: Some(nagi_oidc::Trust::new()),
        javascript: false,
        own_threads: true,
        parameters: parameters(),
        restores: false,
        nagi_version: "0.0.0",
        git_version: "fuzz",
    };
    let builder = ServerBuilder::new(config).map_err(|error| error.to_string())?;
    builder.start().map_err(|error| error.to_string())
}
