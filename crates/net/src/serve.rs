//! Listeners, and the threads that accept and serve connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nagi_server::{Peer, Server};
use parking_lot::Mutex;

use crate::NetConfig;
use crate::connection::{self, Visit};
use crate::end::End;
use crate::handshake::Handshakes;
use crate::listen::{self, Bound, Door};
use crate::parking::Parking;
use crate::registry::Registry;
use crate::stream::Stream;

/// The open addresses of a running server. Dropping it does not stop them.
pub struct Listeners {
    port: u16,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Wakes idle connections.
    waker: JoinHandle<()>,
}

struct Shared {
    doors: Vec<Door>,
    registry: Arc<Registry>,
    parking: Parking,
    handshakes: Arc<Handshakes>,
    config: NetConfig,
    stopping: AtomicBool,
}

/// The pause after a failed accept (no file descriptors left), so that the thread does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long the end of a connection with TLS waits for a peer that reads nothing.
const GOODBYE_TIME_MAX: Duration = Duration::from_millis(200);

/// The addresses of a server that is not built yet: its port is known, and no connection is possible.
#[derive(Debug)]
pub struct Addresses {
    bound: Bound,
    config: NetConfig,
}

/// Binds the TCP addresses.
///
/// # Errors
/// If a name has no address, or an address is in use or may not be used.
pub fn bind(config: NetConfig) -> io::Result<Addresses> {
    Ok(Addresses { bound: listen::bind(&config)?, config })
}

impl Addresses {
    /// The first bound address that other machines can reach.
    pub fn beyond_loopback(&self) -> Option<SocketAddr> {
        self.bound.beyond_loopback()
    }

    /// The TCP port, also if the system selected it.
    pub fn port(&self) -> u16 {
        self.bound.port
    }
}

/// Opens all addresses and begins to accept connections. Returns immediately. If an address cannot be opened, it fails
/// before any connection is accepted.
pub fn serve(server: &Arc<Server>, addresses: Addresses) -> io::Result<Listeners> {
    let Addresses { bound, config } = addresses;
    let port = bound.port;
    let doors = listen::open(bound, &config)?;
    let registry = Arc::new(Registry::default());
    let (parking, stopping) = (Parking::open()?, AtomicBool::new(false));
    let handshakes = Arc::new(Handshakes::default());
    let ssl = if config.tls.is_some() { "on" } else { "off" };
    let shared = Arc::new(Shared { doors, registry, parking, handshakes, config, stopping });
    let waker = {
        let (server, shared) = (server.clone(), shared.clone());
        let builder = Builder::new().name("parking".into()).stack_size(256 * 1024);
        builder.spawn(move || wake_loop(&server, &shared))?
    };
    let mut threads = Vec::new();
    for index in 0..shared.doors.len() {
        log::info!(target: "NETWORK", id = 23015, address = shared.doors[index].address();
            "Listening on");
        let (server, shared) = (server.clone(), shared.clone());
        let builder = Builder::new().name("listener".into()).stack_size(256 * 1024);
        threads.push(builder.spawn(move || accept_loop(&server, &shared, index))?);
    }
    log::info!(target: "NETWORK", id = 23016, port = port, ssl = ssl; "Waiting for connections");
    Ok(Listeners { port, shared, threads, waker })
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
        self.shared.parking.close();
        let _ = self.waker.join();
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
    if !shared.config.admits(&peer) {
        // Closed before anything is read, or answered in the clear or with TLS.
        server.refuse_address(&peer);
        return;
    }
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
    let newcomer = (stream, peer, member);
    if let Err((error, _)) =
        start(newcomer, server, shared, |(stream, peer, member), server, shared| {
            let Some(mut connection) = server.connect(peer) else { return };
            let watched = stream.clone();
            connection.set_probe(move || watched.is_open());
            let visit = Visit { stream, connection, member, acquainted: false, session: None };
            live(server, shared, Box::new(visit));
        })
    {
        log::warn!(target: "NETWORK", id = 22948, error = error.to_string();
            "Thread for a new connection could not be started");
    }
}

/// Starts the thread of a connection; returns what was passed if the system refuses one.
fn start<T: Send + 'static>(
    passed: T,
    server: &Arc<Server>,
    shared: &Arc<Shared>,
    run: impl FnOnce(T, &Arc<Server>, &Arc<Shared>) + Send + 'static,
) -> Result<(), (io::Error, Option<T>)> {
    // A closure whose thread does not start is dropped, with all that it owns.
    let place = Arc::new(Mutex::new(Some(passed)));
    let taken = place.clone();
    let (server, shared) = (server.clone(), shared.clone());
    let builder = Builder::new().name("conn".into()).stack_size(shared.config.stack_bytes);
    let spawned = builder.spawn(move || {
        let passed = taken.lock().take();
        drop(taken);
        if let Some(passed) = passed {
            run(passed, &server, &shared);
        }
    });
    spawned.map(|_| ()).map_err(|error| (error, place.lock().take()))
}

/// Gives threads to the idle connections that have something to read.
fn wake_loop(server: &Arc<Server>, shared: &Arc<Shared>) {
    nagi_server::set_log_context("parking");
    while let Some(ready) = shared.parking.next() {
        for visit in ready {
            let Err((error, visit)) =
                start(visit, server, shared, |v, server, shared| live(server, shared, Box::new(v)))
            else {
                continue;
            };
            log::warn!(target: "NETWORK", id = 8200047, error = error.to_string();
                "Thread for an idle connection could not be started; trying again");
            std::thread::sleep(ACCEPT_PAUSE);
            if let Some(Err(visit)) = visit.map(|visit| shared.parking.park(Box::new(visit))) {
                end(End::Failed(error), visit);
            }
        }
    }
}

/// Serves a connection until it is idle or ends.
fn live(server: &Arc<Server>, shared: &Shared, mut visit: Box<Visit>) {
    nagi_server::set_log_context(&format!("conn{}", visit.connection.id()));
    let mut stays = false;
    loop {
        match connection::run(server, &shared.config, &shared.handshakes, &mut visit, stays) {
            End::Idle => match shared.parking.park(visit) {
                Ok(()) => return,
                Err(refused) => (visit, stays) = (refused, true),
            },
            ended => return end(ended, visit),
        }
    }
}

fn end(end: End, visit: Box<Visit>) {
    let Visit { stream, connection, member, session, .. } = *visit;
    let reason = match end {
        End::Closed | End::Refused | End::Idle => None,
        End::Broken(what) => Some(what),
        End::TimedOut(doing) => Some(format!("timed out while {doing}")),
        End::Failed(error) => Some(error.to_string()),
    };
    if let Some(error) = reason {
        log::info!(target: "NETWORK", id = 22989, remote = connection.peer().address.as_str(), error = error;
            "Error sending or receiving a message; ending connection");
    }
    if let Some(mut session) = session
        && stream.set_write_timeout(GOODBYE_TIME_MAX).is_ok()
    {
        session.close(&mut &*stream);
    }
    // The peer sees the connection closed before the server deregisters it.
    stream.shutdown(std::net::Shutdown::Both);
    drop(connection);
    drop(member);
}
