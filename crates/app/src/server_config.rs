//! The configuration of a server, from the options of the command line and the configuration file.

use std::sync::Arc;

use nagi_bson::{DocBuf, DocWriter};
use nagi_host::EngineKind;
use nagi_proc::machine;
use nagi_server::{Log, ServerConfig};
use nagi_store::Store;

use crate::build;
use crate::options::{HIDDEN, Options, PASSWORD_FLAGS};

/// The configuration of a server on an open store. `port` is the bound port, also if the system selected it.
pub(crate) fn of_options(
    options: &Options,
    args: &[String],
    store: Arc<Store>,
    connection_count_max: i64,
    port: u16,
    log: &Arc<Log>,
) -> ServerConfig {
    let mut argv = vec!["nagi".to_owned()];
    argv.extend(without_passwords(args));
    ServerConfig {
        store,
        log: log.clone(),
        storage_engine: options.engine.name().to_owned(),
        persistent: options.engine != EngineKind::Memory,
        argv,
        parsed_options: parsed_options(options),
        port,
        replica_set: options.replica_set.clone().map(|name| (name, own_host(options, port))),
        router: None,
        oplog: options.oplog,
        connection_count_max,
        memory_limit_bytes: nagi_proc::memory_bytes(),
        authorization: options.authorization,
        tls: None,
        directory: None,
        tokens: None,
        javascript: options.javascript,
        parameters: options.parameters.clone(),
        own_threads: true,
        restores: false,
        nagi_version: build::VERSION,
        git_version: build::GIT_VERSION,
    }
}

/// The command line, with each password replaced.
fn without_passwords(args: &[String]) -> impl Iterator<Item = String> {
    let is_password = |text: &str| {
        let flag = text.trim_start_matches('-');
        text.starts_with('-') && PASSWORD_FLAGS.contains(&flag)
    };
    let mut follows = false;
    args.iter().map(move |arg| {
        let hide = std::mem::replace(&mut follows, is_password(arg));
        match arg.split_once('=') {
            _ if hide => HIDDEN.to_owned(),
            Some((flag, _)) if is_password(flag) => format!("{flag}={HIDDEN}"),
            _ => arg.clone(),
        }
    })
}

/// The host under which a default configuration of a replica set names this server: the host's name, or the first
/// address if no other machine can reach the server.
fn own_host(options: &Options, port: u16) -> String {
    let bound = &options.net.bind_ip;
    let local = |name: &String| name == "localhost" || name == "::1" || name.starts_with("127.");
    let host = match bound.iter().find(|name| !name.starts_with('/')) {
        Some(first) if bound.iter().all(|n| n.starts_with('/') || local(n)) => first.clone(),
        _ => machine::host_name().unwrap_or_else(|| "localhost".to_owned()),
    };
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Converts dotted keys to nested documents: the `parsed` field of `getCmdLineOpts`.
pub(crate) fn parsed_options(options: &Options) -> DocBuf {
    fn level(out: &mut DocWriter<'_>, pairs: &[(&str, &str)]) {
        let mut rest = pairs;
        while let Some((key, value)) = rest.first() {
            let Some((section, _)) = key.split_once('.') else {
                put_typed(out, key, value);
                rest = &rest[1..];
                continue;
            };
            let inside = |key: &str| key.split_once('.').is_some_and(|(s, _)| s == section);
            let len = rest.iter().take_while(|(key, _)| inside(key)).count();
            let inner: Vec<_> =
                rest[..len].iter().map(|(k, v)| (&k[section.len() + 1..], *v)).collect();
            out.doc(section, |out| level(out, &inner));
            rest = &rest[len..];
        }
    }
    let mut pairs: Vec<_> = options.parsed.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    pairs.sort_unstable();
    DocBuf::build(|out| level(out, &pairs))
}

fn put_typed(out: &mut DocWriter<'_>, key: &str, value: &str) {
    match (value, value.parse::<i32>(), value.parse::<f64>()) {
        ("true" | "false", ..) => out.put(key, value == "true"),
        (_, Ok(n), _) => out.put(key, n),
        (_, _, Ok(n)) => out.put(key, n),
        _ => out.put(key, value),
    }
}
