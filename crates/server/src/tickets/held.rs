//! The ticket of a running operation.
//!
//! While requests wait, each of them looks now and then for operations that have held their ticket for [`HELD_MAX`],
//! and takes it from them for the first of the queue. Those continue without one. Otherwise as many long operations as
//! there are tickets would stop all short ones until the first of them ends. They do not take another ticket later: a
//! long operation may hold a lock for which ticket holders wait.
//!
//! The waiting request does it, not the long operation, because that one may itself wait: for a lock, or behind
//! hundreds of others for a processor.
//!
//! At most [`WITHOUT_MAX`] operations of each kind run without a ticket. When that many do, the others keep theirs.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::clock;

/// Much longer than most operations take, and than one waits for a processor while tickets are few.
pub(super) const HELD_MAX: Duration = Duration::from_millis(50);
/// Operations of each kind that run although their ticket was taken.
pub(super) const WITHOUT_MAX: i64 = 2_000;

/// The kind of the ticket that an operation holds, and since when.
pub(crate) struct Held {
    state: AtomicU8,
    /// Microseconds after `base` at which it took the ticket.
    since: AtomicU64,
    base: Instant,
}

const NONE: u8 = 0;
/// Kinds of pools, which are states as well.
pub(super) const READ: u8 = 1;
pub(super) const WRITE: u8 = 2;
const WITHOUT: u8 = 3;

impl Held {
    pub(crate) fn new() -> Held {
        let (state, since) = (AtomicU8::new(NONE), AtomicU64::new(0));
        Held { state, since, base: clock::now() }
    }

    /// The operation has taken a ticket of this kind.
    pub(super) fn begin(&self, kind: u8) {
        self.since.store(clock::micros_since(self.base), SeqCst);
        self.state.store(kind, SeqCst);
    }

    /// The operation ends. Returns true if it still has its ticket.
    pub(super) fn end(&self) -> bool {
        self.state.swap(NONE, SeqCst) != WITHOUT
    }

    /// Takes the ticket from the operation if it is of this kind and was held for long. The operation may end and begin
    /// again meanwhile; then a new one runs without a ticket, which is only unusual.
    pub(super) fn take_over(&self, kind: u8) -> bool {
        let held = || clock::micros_since(self.base).saturating_sub(self.since.load(SeqCst));
        self.state.load(SeqCst) == kind
            && held() >= HELD_MAX.as_micros() as u64
            && self.state.compare_exchange(kind, WITHOUT, SeqCst, SeqCst).is_ok()
    }
}
