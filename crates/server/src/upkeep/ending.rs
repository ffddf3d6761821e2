//! Shutdown: which operations may finish before the server stops.
//!
//! The `shutdown` command, and a signal to a member of a replica set, let running reads and writes finish for a time.
//! During that time the member is in quiesce mode: it serves requests, but its `hello` tells drivers to select another
//! server. There is no other member to hand over to, so a server without running operations does not wait.

use std::time::{Duration, Instant};

use nagi_error::Result;

use crate::clock;
use crate::core::server::Server;
use crate::settings::params;

/// The interval of the checks for running operations.
const LOOK: Duration = Duration::from_millis(10);

impl Server {
    /// Waits until running reads and writes have finished, at most until `until`. Operations that still run then are
    /// interrupted when the server stops.
    ///
    /// # Errors
    /// Those of `check`, through which the caller can cancel the shutdown: quiesce mode then ends.
    pub(crate) fn let_finish(
        &self,
        until: Instant,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let running = || self.metrics.active_readers.get() + self.metrics.active_writers.get() > 0;
        if !running() {
            return Ok(());
        }
        self.quiesce(until);
        while running() && clock::now() < until {
            if let Err(error) = check() {
                self.end_quiesce();
                return Err(error);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Requests a shutdown, as a signal does. A member of a replica set first lets operations finish, for at most
    /// `shutdownTimeoutMillisForSignaledShutdown`; a standalone interrupts them. Afterwards
    /// [`Server::wait_for_shutdown`] returns.
    pub fn request_shutdown_by_signal(&self) {
        const ROW: usize = params::position("shutdownTimeoutMillisForSignaledShutdown");
        if self.is_replicated() {
            let most = Duration::from_millis(self.settings.params.number(ROW).unsigned_abs());
            // A signal cannot be revoked, so there is no check.
            let _ = self.let_finish(clock::now() + most, &mut || Ok(()));
        }
        self.request_shutdown();
    }

    /// Begins quiesce mode: operations continue until `until`, and a member of a replica set answers `hello` with 91,
    /// so that drivers select another server for new requests. If it has begun already, its end does not change.
    fn quiesce(&self, until: Instant) {
        self.upkeep.shutdown.quiesce_until.lock().get_or_insert(until);
        if self.is_replicated() {
            self.identity.topology.advance();
        }
    }

    /// Leaves quiesce mode because the shutdown was cancelled.
    fn end_quiesce(&self) {
        *self.upkeep.shutdown.quiesce_until.lock() = None;
        if self.is_replicated() {
            self.identity.topology.advance();
        }
    }

    /// The remaining time of quiesce mode; `None` outside of it, and on a standalone, which has no such mode.
    pub(crate) fn quiesce_remaining(&self) -> Option<Duration> {
        let until = (*self.upkeep.shutdown.quiesce_until.lock())?;
        self.is_replicated().then_some(())?;
        Some(until.saturating_duration_since(clock::now()))
    }
}
