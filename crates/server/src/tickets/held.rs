//! The ticket of a running operation.
//!
//! An operation that has held its ticket for [`HELD_MAX`] while others wait hands it over at its next interrupt check,
//! and continues without one. Otherwise as many long operations as there are tickets would stop all short ones until
//! the first of them ends. It does not take another ticket later: it may hold a lock for which ticket holders wait.
//!
//! At most [`HANDED_OVER_MAX`] operations of each kind run without a ticket, whatever the number of connections. When
//! that many do, the others keep theirs.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{Pool, Tickets};
use crate::clock;

/// Much longer than most operations take, and than one waits for a processor while tickets are few.
const HELD_MAX: Duration = Duration::from_millis(50);
/// Operations of each kind that run although they have handed over their ticket.
pub(super) const HANDED_OVER_MAX: i64 = 1_000;

/// Whether an operation holds a ticket, and since when. Shared with all threads that make its interrupt checks.
pub(crate) struct Held {
    state: AtomicU8,
    /// Microseconds after `base` at which it took the ticket.
    since: AtomicU64,
    base: Instant,
    tickets: OnceLock<Arc<Tickets>>,
}

const NONE: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
const HANDED_OVER: u8 = 3;

impl Held {
    pub(crate) fn new() -> Held {
        let (state, since) = (AtomicU8::new(NONE), AtomicU64::new(0));
        Held { state, since, base: clock::now(), tickets: OnceLock::new() }
    }

    /// The operation has taken a ticket of `pool`, one of `tickets`.
    pub(super) fn begin(&self, tickets: &Arc<Tickets>, pool: &Pool) {
        let tickets = self.tickets.get_or_init(|| Arc::clone(tickets));
        self.since.store(clock::micros_since(self.base), SeqCst);
        let state = if std::ptr::eq(pool, &raw const tickets.write) { WRITE } else { READ };
        self.state.store(state, SeqCst);
    }

    /// The operation ends. Returns true if it still has its ticket.
    pub(super) fn end(&self) -> bool {
        self.state.swap(NONE, SeqCst) != HANDED_OVER
    }

    /// Called by every interrupt check of the operation. Costs two loads while it holds no ticket or nobody waits.
    pub(crate) fn look(&self) {
        let state = self.state.load(SeqCst);
        let Some(tickets) = self.tickets.get() else { return };
        let pool = match state {
            READ => &tickets.read,
            WRITE => &tickets.write,
            _ => return,
        };
        if pool.waiting() == 0 {
            return;
        }
        let held = clock::micros_since(self.base).saturating_sub(self.since.load(SeqCst));
        if held >= HELD_MAX.as_micros() as u64 && pool.begin_without() {
            // A worker of the operation may have done it at the same time.
            match self.state.compare_exchange(state, HANDED_OVER, SeqCst, SeqCst) {
                Ok(_) => pool.give(),
                Err(_) => pool.end_without(),
            }
        }
    }
}
