//! Waiting for writers that still use an old version of a collection.
//!
//! A writer enters the gate before it looks up the collection's version, and leaves when its
//! transaction has ended. DDL publishes a new version, then waits until everybody who entered before
//! has left: from then on all writers use the new version. Writers never wait.

use std::{sync::Arc, time::Duration};

use nagi_kv::sync::{
    Condvar, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// Counts who is inside, by the parity of the epoch in which they came.
#[derive(Default)]
pub(crate) struct Gate {
    epoch: AtomicUsize,
    inside: [AtomicUsize; 2],
    /// One barrier at a time.
    barrier: Mutex<()>,
    waiting: Mutex<()>,
    left: Condvar,
}

/// Somebody inside; leaves when dropped.
pub(crate) struct Pass {
    gate: Arc<Gate>,
    parity: usize,
}

impl Gate {
    pub(crate) fn enter(self: &Arc<Self>) -> Pass {
        loop {
            let epoch = self.epoch.load(SeqCst);
            let parity = epoch & 1;
            self.inside[parity].fetch_add(1, SeqCst);
            if self.epoch.load(SeqCst) == epoch {
                return Pass { gate: Arc::clone(self), parity };
            }
            self.leave(parity);
        }
    }

    fn leave(&self, parity: usize) {
        if self.inside[parity].fetch_sub(1, SeqCst) == 1 {
            self.left.notify_all();
        }
    }

    /// Returns when everybody who was inside at the call has left.
    pub(crate) fn wait_for_earlier(&self) {
        let _one = self.barrier.lock();
        let parity = self.epoch.fetch_add(1, SeqCst) & 1;
        let mut waiting = self.waiting.lock();
        while self.inside[parity].load(SeqCst) > 0 {
            // The time limit covers a notice given between the test and the wait.
            self.left.wait_for(&mut waiting, Duration::from_millis(1));
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.leave(self.parity);
    }
}
