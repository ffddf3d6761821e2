//! Tells background threads to end.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

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

    pub(crate) fn is_over(&self) -> bool {
        *self.over.lock()
    }

    /// Waits; whether the threads shall end.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut over = self.over.lock();
        if !*over {
            self.changed.wait_for(&mut over, time);
        }
        *over
    }
}
