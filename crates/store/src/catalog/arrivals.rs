//! Notification of cursors that wait at the end of a capped collection.

use nagi_error::Result;
use nagi_kv::sync::{Condvar, Instant, Mutex};

/// Notifies waiting cursors that a capped collection was changed or dropped.
#[derive(Default)]
pub struct Arrivals {
    version: Mutex<u64>,
    changed: Condvar,
}

impl Arrivals {
    /// A number that grows with every change. A cursor takes it before it reads, and then waits for a greater one.
    pub fn version(&self) -> u64 {
        *self.version.lock()
    }

    pub(crate) fn announce(&self) {
        *self.version.lock() += 1;
        self.changed.notify_all();
    }

    /// Wakes all waiting cursors, so that each polls its interrupt.
    pub fn wake(&self) {
        let _held = self.version.lock();
        self.changed.notify_all();
    }

    /// Waits until something has changed since `seen`, or until `until`. `interrupt` is polled first and at each
    /// wake-up; its error cancels the wait. Returns true if something has changed.
    pub fn wait_beyond(
        &self,
        seen: u64,
        until: Instant,
        interrupt: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let mut version = self.version.lock();
        loop {
            interrupt()?;
            if *version != seen {
                return Ok(true);
            }
            if self.changed.wait_until(&mut version, until).timed_out() {
                return Ok(*version != seen);
            }
        }
    }
}
