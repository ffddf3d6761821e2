//! Signals: clean shutdown (SIGINT, SIGTERM), log rotation (SIGUSR1), and SIGHUP, by which a server with TLS reads its
//! certificates again and others shut down; and the end of standard input.

use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nagi_server::{Log, Server};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// True if SIGUSR1 arrived before [`watch`].
static ROTATION: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Notes SIGUSR1 from now on. By default it ends a process: logrotate sends it also to a server that still recovers
/// its data, and without a service manager to all processes of this program.
pub(crate) fn note_rotation() {
    let noted = ROTATION.get_or_init(Arc::default);
    // This fails for signals that cannot be handled, of which this is none.
    let _ = signal_hook::flag::register(SIGUSR1, Arc::clone(noted));
}

/// Handles signals on a thread of their own until the process exits.
pub(crate) fn watch(server: Arc<Server>, log: Arc<Log>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1])?;
    let body = move || {
        nagi_server::set_log_context("SignalHandler");
        if ROTATION.get().is_some_and(|noted| noted.load(Ordering::Relaxed)) {
            rotate(&server, &log);
        }
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                rotate(&server, &log);
                continue;
            }
            if signal == SIGHUP && server.has_tls() {
                // An error is logged, and the old certificates stay.
                let _ = server.rotate_certificates("SIGHUP");
                continue;
            }
            log::info!(target: "CONTROL", id = 23377, signal = signal, error = name(signal);
                "Received signal");
            if let Err(error) = end(&server) {
                log::error!(target: "CONTROL", id = 8_200_051, error = error.to_string();
                    "No thread could be started to wait for operations; they are interrupted");
                server.request_shutdown();
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(body)?;
    Ok(())
}

fn rotate(server: &Server, log: &Log) {
    let audit = server.rotate_audit_log();
    if let Err(error) = log.rotate().and(audit) {
        log::error!(target: "CONTROL", id = 23168, error = error.to_string();
            "Log rotation failed");
    }
}

/// Shuts down when standard input ends, on a thread of its own.
///
/// A program that starts a server keeps the other end of a pipe open. The kernel closes it with the program, also if it
/// is killed. (`PR_SET_PDEATHSIG` would signal the end of the program's thread that started the server.)
pub(crate) fn watch_input(server: Arc<Server>) -> std::io::Result<()> {
    let body = move || {
        nagi_server::set_log_context("StandardInput");
        let (mut input, mut unused) = (std::io::stdin().lock(), [0; 512]);
        loop {
            match input.read(&mut unused) {
                Ok(count) if count > 0 => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        log::info!(target: "CONTROL", id = 8_200_056; "Standard input ended; shutting down");
        // The program whose operations would be waited for has ended.
        server.request_shutdown();
    };
    std::thread::Builder::new().name("input".into()).spawn(body).map(drop)
}

/// Shuts down on a separate thread, so that further signals are handled while operations finish.
fn end(server: &Arc<Server>) -> std::io::Result<()> {
    let server = server.clone();
    let body = move || {
        nagi_server::set_log_context("SignalHandler");
        server.request_shutdown_by_signal();
    };
    std::thread::Builder::new().name("ending".into()).spawn(body).map(drop)
}

fn name(signal: i32) -> &'static str {
    match signal {
        SIGINT => "Interrupt",
        SIGTERM => "Terminated",
        _ => "Hangup",
    }
}
