//! The end of the server: who asks for it, and what may finish before.
//!
//! The `shutdown` command and, on a member of a replica set, a signal let reads and writes under way finish for a
//! time. While they do, the member is in quiesce mode: it serves requests, and its `hello` sends drivers elsewhere.
//! There is no other member to hand over to, so nothing waits when nothing runs.

use std::time::{Duration, Instant};

use nagi_error::Result;

use crate::clock;
use crate::core::server::Server;
use crate::settings::params;

/// Between two polls at what still runs.
const LOOK: Duration = Duration::from_millis(10);

impl Server {
    /// Lets reads and writes under way finish until then; what still runs then is interrupted when the server stops.
    ///
    /// # Errors
    /// Those of `check`, whose caller wants the server to continue: it leaves quiesce mode.
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

    /// Asks the process to end, as a signal does: a member of a replica set lets operations finish first, for at most
    /// `shutdownTimeoutMillisForSignaledShutdown`; a standalone interrupts them. Returns when
    /// [`Server::wait_for_shutdown`] does, at once if the end was requested before.
    pub fn request_shutdown_by_signal(&self) {
        const ROW: usize = params::position("shutdownTimeoutMillisForSignaledShutdown");
        if self.replica.is_some() {
            let most = Duration::from_millis(self.settings.params.number(ROW).unsigned_abs());
            // No one can take a signal back.
            let _ = self.let_finish(clock::now() + most, &mut || Ok(()));
        }
        self.request_shutdown();
    }

    /// Begins quiesce mode: operations continue until then, and a member of a replica set answers `hello` with
    /// 91, so that drivers send what is new elsewhere. The first call decides about the time.
    fn quiesce(&self, until: Instant) {
        self.upkeep.shutdown.quiesce_until.lock().get_or_insert(until);
        if self.replica.is_some() {
            self.identity.topology.advance();
        }
    }

    /// Leaves quiesce mode, because the server does not end after all.
    fn end_quiesce(&self) {
        *self.upkeep.shutdown.quiesce_until.lock() = None;
        if self.replica.is_some() {
            self.identity.topology.advance();
        }
    }

    /// What is left of quiesce mode; none outside of it and on a standalone, which has no such mode.
    pub(crate) fn quiesce_remaining(&self) -> Option<Duration> {
        let until = (*self.upkeep.shutdown.quiesce_until.lock())?;
        self.replica.as_ref()?;
        Some(until.saturating_duration_since(clock::now()))
    }
}
