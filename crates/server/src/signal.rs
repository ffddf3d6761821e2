//! Stops background threads.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The signal for background threads that the server is shutting down.
#[derive(Default)]
pub(crate) struct Signal {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Stops the background threads.
    pub(crate) fn end(&self) {
        *self.over.lock() = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.over.lock()
    }

    /// Waits up to `time`. Returns true if the threads must stop.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut over = self.over.lock();
        if !*over {
            self.changed.wait_for(&mut over, time);
        }
        *over
    }
}
