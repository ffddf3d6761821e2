//! Background work: cursors and sessions that nobody uses any more, documents that have expired.
//!
//! Two threads a server. They hold the server only while they work, so a server that is dropped ends
//! them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock;
use crate::logging::set_log_context;
use crate::server::Server;

/// Tells background threads that the server is gone.
#[derive(Default)]
pub(crate) struct Signal {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Ends the background threads.
    pub(crate) fn end(&self) {
        *self.over.lock() = true;
        self.changed.notify_all();
    }

    /// Whether the threads shall end.
    fn is_over(&self) -> bool {
        *self.over.lock()
    }

    /// Waits; whether the threads shall end.
    fn wait(&self, time: Duration) -> bool {
        let mut over = self.over.lock();
        if !*over {
            self.changed.wait_for(&mut over, time);
        }
        *over
    }
}

/// Starts the background threads of a server.
pub(crate) fn spawn(server: &Arc<Server>) {
    spawn_ttl_monitor(server);
    let reaper = Weak::clone(&Arc::downgrade(server));
    let signal = server.signal.clone();
    let spawned = std::thread::Builder::new()
        .name("clientcursormon".into())
        .stack_size(256 << 10)
        .spawn(move || {
            set_log_context("clientcursormon");
            let mut pause = Duration::from_secs(1);
            while !signal.wait(pause) {
                let Some(server) = reaper.upgrade() else { return };
                reap(&server);
                let seconds = server.params.int("clientCursorMonitorFrequencySecs");
                pause = Duration::from_secs(seconds.max(1) as u64);
            }
        });
    if let Err(error) = spawned {
        log::warn!(target: "CONTROL", id = 9_000_010, error = error.to_string();
            "Cannot start a background thread");
    }
}

/// Starts the thread that deletes expired documents.
fn spawn_ttl_monitor(server: &Arc<Server>) {
    let weak = Arc::downgrade(server);
    let signal = server.signal.clone();
    let pause = |server: &Server| {
        Duration::from_secs(server.params.int("ttlMonitorSleepSecs").max(1) as u64)
    };
    let mut sleep = pause(server);
    let spawned = std::thread::Builder::new().name("TTLMonitor".into()).stack_size(1 << 20).spawn(
        move || {
            set_log_context("TTLMonitor");
            while !signal.wait(sleep) {
                let Some(server) = weak.upgrade() else { return };
                sleep = pause(&server);
                if server.params.bool("ttlMonitorEnabled") {
                    expire(&server);
                }
            }
        },
    );
    if let Err(error) = spawned {
        log::warn!(target: "CONTROL", id = 9_000_010, error = error.to_string();
            "Cannot start a background thread");
    }
}

/// One pass over the TTL indexes.
fn expire(server: &Server) {
    let signal = &server.signal;
    let stop = || match signal.is_over() {
        true => {
            nagi_error::bail!(nagi_error::Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown")
        }
        false => Ok(()),
    };
    server.metrics.ttl_passes.add(1);
    match server.store.expire(clock::wall_ms(), &stop) {
        Ok(deleted) => server.metrics.ttl_deleted.add(deleted),
        Err(error) => {
            log::warn!(target: "INDEX", id = 22540, error:% = error; "Error in TTL pass");
        }
    }
}

/// Ends what was not used for too long.
fn reap(server: &Server) {
    let now = clock::wall_ms();
    let timeout = server.params.int("cursorTimeoutMillis");
    let ended = server.cursors.expire(now - timeout);
    if ended > 0 {
        server.metrics.cursors_timed_out.add(ended as u64);
        log::info!(target: "QUERY", id = 20529, cursorCount = ended; "Cursors timed out");
    }
    let session_ms = server.params.int("localLogicalSessionTimeoutMinutes") * 60_000;
    for session in server.sessions.expire(now - session_ms) {
        server.cursors.end_session(&session);
    }
}
