//! Background work: cursors and sessions that nobody uses any more.
//!
//! One thread a server. It holds the server only while it works, so a server that is dropped ends it.

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
