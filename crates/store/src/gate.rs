//! Waiting for writers that still use an old version of a collection.
//!
//! A writer enters the gate before it looks up the collection's version, and leaves when its
//! transaction has ended. DDL publishes a new version, then waits until everybody who entered before
//! has left: from then on all writers use the new version. Writers never wait.

use std::{sync::OnceLock, time::Duration};

use nagi_kv::sync::{
    Condvar, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use nagi_percore::{PerCore, core};

/// Copies of a gate's counts: a kibibyte for each collection that is written.
const COPIES_MAX: usize = 8;

/// Counts who is inside, by the core on which they came and the parity of the epoch.
///
/// ```text
///   core 0  inside: even 2, odd 0        writers change their core's counts only
///   core 1  inside: even 1, odd 0
///   DDL     epoch 6 -> 7, waits until every core's even count is 0; new writers count as odd
/// ```
#[derive(Default)]
pub(crate) struct Gate {
    epoch: AtomicUsize,
    /// None before the first writer: most collections of a large catalog have none.
    inside: OnceLock<PerCore<[AtomicUsize; 2]>>,
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
    pub(crate) fn enter(&self) -> Pass {
        let (core, inside) = (core(), self.inside());
        loop {
            let epoch = self.epoch.load(SeqCst);
            let parity = epoch & 1;
            inside.of(core)[parity].fetch_add(1, SeqCst);
            if self.epoch.load(SeqCst) == epoch {
                return Pass { core, parity };
            }
            self.leave(&Pass { core, parity });
        }
    }

    fn inside(&self) -> &PerCore<[AtomicUsize; 2]> {
        self.inside.get_or_init(|| PerCore::at_most(COPIES_MAX, |_| Default::default()))
    }

    /// A writer has ended. Each pass is given back once.
    pub(crate) fn leave(&self, pass: &Pass) {
        if self.inside().of(pass.core)[pass.parity].fetch_sub(1, SeqCst) == 1 {
            self.left.notify_all();
        }
    }

    /// Returns when everybody who was inside at the call has left.
    pub(crate) fn wait_for_earlier(&self) {
        let _one = self.barrier.lock();
        let parity = self.epoch.fetch_add(1, SeqCst) & 1;
        let mut waiting = self.waiting.lock();
        while self.inside().iter().any(|inside| inside[parity].load(SeqCst) > 0) {
            // The time limit covers a notice given between the test and the wait.
            self.left.wait_for(&mut waiting, Duration::from_millis(1));
        }
    }
}
