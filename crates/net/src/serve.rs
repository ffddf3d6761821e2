//! Listeners, and the threads that accept and serve connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nagi_server::{Peer, Server};

use crate::NetConfig;
use crate::connection::{self, End};
use crate::listen::{self, Door};
use crate::registry::{Member, Registry};
use crate::stream::Stream;

/// The open addresses of a running server. Dropping it does not stop them.
#[derive(Debug)]
pub struct Listeners {
    port: u16,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    doors: Vec<Door>,
    registry: Arc<Registry>,
    config: NetConfig,
    stopping: AtomicBool,
}

/// The pause after a failed accept (no file descriptors left), so that the thread does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Opens all addresses and begins to accept connections. Returns immediately. If an address cannot be opened, it fails
/// before any connection is accepted.
pub fn serve(server: &Arc<Server>, config: NetConfig) -> io::Result<Listeners> {
    let (doors, port) = listen::open(&config)?;
    let registry = Arc::new(Registry::default());
    let shared = Arc::new(Shared { doors, registry, config, stopping: AtomicBool::new(false) });
    let mut threads = Vec::new();
    for index in 0..shared.doors.len() {
        log::info!(target: "NETWORK", id = 23015, address = shared.doors[index].address();
            "Listening on");
        let (server, shared) = (server.clone(), shared.clone());
        let builder = Builder::new().name("listener".into()).stack_size(256 * 1024);
        threads.push(builder.spawn(move || accept_loop(&server, &shared, index))?);
    }
    log::info!(target: "NETWORK", id = 23016, port = port, ssl = "off"; "Waiting for connections");
    Ok(Listeners { port, shared, threads })
}

impl Listeners {
    /// The TCP port, also if the system selected it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops accepting, lets pending replies be sent and closes all connections. Returns when all have ended, or after
    /// `grace` plus a second. Running operations must be stopped by the server.
    pub fn stop(self, grace: Duration) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for door in &self.shared.doors {
            door.close();
        }
        for thread in self.threads {
            // A panic of a listener was already reported.
            let _ = thread.join();
        }
        if !self.shared.registry.drain(grace) {
            log::warn!(target: "NETWORK", id = 8200001;
                "Connections were closed during an operation");
            self.shared.registry.drain(Duration::from_secs(1));
        }
    }
}

fn accept_loop(server: &Arc<Server>, shared: &Arc<Shared>, index: usize) {
    nagi_server::set_log_context("listener");
    let door = &shared.doors[index];
    while !shared.stopping.load(Ordering::SeqCst) {
        match door.accept() {
            Ok((stream, peer)) => admit(server, shared, Arc::new(stream), peer),
            Err(_) if shared.stopping.load(Ordering::SeqCst) => return,
            Err(error) => {
                log::warn!(target: "NETWORK", id = 23018, error = error.to_string();
                    "Error accepting new connection");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// Starts the thread of a new connection. A refused connection is closed without a reply.
fn admit(server: &Arc<Server>, shared: &Arc<Shared>, stream: Arc<Stream>, peer: Peer) {
    // Refused before a thread is started, so that a flood of connections uses one file descriptor at a time.
    let is_last = stream.descriptor() >= shared.config.descriptors_max;
    if is_last || shared.registry.count() >= server.connection_count_max() {
        server.refuse(&peer);
        return;
    }
    if stream.prepare(shared.config.write_gap_max).is_err() {
        return;
    }
    let Some(member) = shared.registry.join(&stream) else { return };
    let builder = Builder::new().name("conn".into()).stack_size(shared.config.stack_bytes);
    let (server, shared) = (server.clone(), shared.clone());
    let spawned = builder.spawn(move || live(&server, &shared.config, &stream, peer, member));
    if let Err(error) = spawned {
        log::warn!(target: "NETWORK", id = 22948, error = error.to_string();
            "Thread for a new connection could not be started");
    }
}

fn live(
    server: &Arc<Server>,
    config: &NetConfig,
    stream: &Arc<Stream>,
    peer: Peer,
    member: Member,
) {
    let remote = peer.address.clone();
    let Some(mut connection) = server.connect(peer) else { return };
    let watched = stream.clone();
    connection.set_probe(move || watched.is_open());
    nagi_server::set_log_context(&format!("conn{}", connection.id()));
    let end = connection::run(server, stream, config, &mut connection);
    let reason = match end {
        End::Closed | End::Refused => None,
        End::Broken(what) => Some(what),
        End::TimedOut(doing) => Some(format!("timed out while {doing}")),
        End::Failed(error) => Some(error.to_string()),
    };
    if let Some(error) = reason {
        log::info!(target: "NETWORK", id = 22989, remote = remote, error = error;
            "Error sending or receiving a message; ending connection");
    }
    // The peer sees the connection closed before the server deregisters it.
    stream.shutdown(std::net::Shutdown::Both);
    drop(connection);
    drop(member);
}
