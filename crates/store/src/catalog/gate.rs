//! Waiting for writers that still use an old version of a collection.
//!
//! A writer enters the gate before it looks up the collection's version, and leaves when its transaction has ended.
//! DDL publishes a new version, then waits until every writer that entered earlier has left: from then on all
//! writers use the new version. Writers never wait.
//!
//! ```text
//!   core 0  inside: even 2, odd 0        writers change the counts of their core only
//!   core 1  inside: even 1, odd 0
//!   DDL     epoch 6 -> 7, waits until every core's even count is 0; new writers count as odd
//! ```

use std::time::Duration;

use nagi_kv::sync::{
    Condvar, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use nagi_percore::core;

use super::cells::{Cell, Cells};

/// Counts the writers of a collection, by core and by the parity of the epoch. The counts are in the collection's
/// [`Cells`].
#[derive(Default)]
pub(crate) struct Gate {
    epoch: AtomicUsize,
    /// One barrier at a time.
    barrier: Mutex<()>,
    waiting: Mutex<()>,
    left: Condvar,
}

/// A writer inside; it has to leave with it.
#[must_use]
pub(crate) struct Pass {
    core: usize,
    parity: usize,
}

impl Gate {
    pub(crate) fn enter(&self, cells: &Cells) -> Pass {
        let core = core();
        loop {
            let epoch = self.epoch.load(SeqCst);
            let parity = epoch & 1;
            cells.of(core).inside[parity].fetch_add(1, SeqCst);
            if self.epoch.load(SeqCst) == epoch {
                return Pass { core, parity };
            }
            self.leave(cells, &Pass { core, parity });
        }
    }

    /// A writer has ended. Each pass is given back once.
    pub(crate) fn leave(&self, cells: &Cells, pass: &Pass) {
        if cells.of(pass.core).inside[pass.parity].fetch_sub(1, SeqCst) == 1 {
            self.left.notify_all();
        }
    }

    /// True if no writer is inside.
    pub(crate) fn is_left(&self, cells: &Cells) -> bool {
        let counts = |cell: &Cell| cell.inside.iter().all(|inside| inside.load(SeqCst) == 0);
        cells.iter().all(counts)
    }

    /// Returns when every writer that was inside at the call has left.
    pub(crate) fn wait_for_earlier(&self, cells: &Cells) {
        let _one = self.barrier.lock();
        let parity = self.epoch.fetch_add(1, SeqCst) & 1;
        let mut waiting = self.waiting.lock();
        while cells.iter().any(|cell| cell.inside[parity].load(SeqCst) > 0) {
            // The time limit covers a notification between the test and the wait.
            self.left.wait_for(&mut waiting, Duration::from_millis(1));
        }
    }
}
