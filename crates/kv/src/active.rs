//! Active snapshots: the newest visible stamp, and the oldest stamp in use.
//!
//! Every transaction and snapshot holds a ticket with the stamp it reads at. `oldest` is a lower bound of all
//! tickets: versions that only older readers could need may be removed.
//!
//! Tickets are slots in a fixed array, so entering and leaving are one compare-and-swap each, and slots do not
//! share cache lines. When all slots are taken, a map behind a lock holds the other tickets.
//!
//! A ticket may be handed on: a cursor takes its own while the snapshot that created it still has one. `oldest`
//! scans the slots one by one, so it could pass the new slot before it is taken, and reach the old slot when it is
//! already free. So it repeats the scan if a ticket was handed on in the meantime.
//!
//! ```text
//!   oldest scans    slot 0 (free)                      slot 1 (free)  -> would miss stamp 10: repeats
//!   snapshot        (slot 1: stamp 10)                 leaves slot 1
//!   its cursor                     enters slot 0: stamp 10
//! ```
//!
//! Invariant: a reader reads the engine's snapshot only *after* its ticket is in place. So if `oldest` did not see
//! the ticket, the reader sees every commit up to the result of `oldest`.
//! commit that `oldest` did not see a ticket for is part of what the newcomer reads.

use std::collections::BTreeMap;

use crate::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

const SLOT_COUNT: usize = 256;
const FREE: u64 = u64::MAX;
/// The increment of the count for a ticket that was handed on.
const HANDED_ON: u64 = 1 << 32;

#[repr(align(64))]
struct Slot(AtomicU64);

/// What each commit publishes, on one pair of cache lines.
#[repr(align(128))]
struct Published {
    newest: AtomicU64,
    writing: Writing,
}

/// The batch that an engine is writing, or has written last. Changed under the engine's commit lock only.
#[derive(Default)]
pub struct Writing {
    /// Its last stamp.
    last: AtomicU64,
    /// The engine's own position before it, for example a sequence number.
    before: AtomicU64,
    /// How many loads beside the commit lock, which change that position too, had ended before it.
    loads: AtomicU64,
}

impl Writing {
    /// A batch whose last stamp is `last` begins to be written; `before` is the engine's position, and `loads` the
    /// number of loads that had ended before that was read.
    pub fn begin(&self, last: u64, before: u64, loads: u64) {
        self.loads.store(loads, SeqCst);
        self.before.store(before, SeqCst);
        self.last.store(last, SeqCst);
    }

    /// The batch was not written; the newest stamp is still `newest`.
    pub fn failed(&self, newest: u64) {
        self.last.store(newest, SeqCst);
    }

    /// The last stamp of the batch: the greatest that a reader may have seen.
    pub fn last(&self) -> u64 {
        self.last.load(SeqCst)
    }

    /// The engine's position before the batch.
    pub fn before(&self) -> u64 {
        self.before.load(SeqCst)
    }

    /// The number of loads that had ended before the batch. With another one meanwhile, `before` tells nothing.
    pub fn loads(&self) -> u64 {
        self.loads.load(SeqCst)
    }
}

/// The stamps in use. See the module's header.
pub struct Active {
    published: Published,
    /// Lower half: tickets that are out. Upper half: how many were handed on (`enter_at`).
    count: AtomicU64,
    slots: Box<[Slot]>,
    overflow: Mutex<BTreeMap<u64, usize>>,
}

/// A slot in `Active`; it is released with `leave`.
#[derive(Debug)]
pub struct Ticket {
    stamp: u64,
    slot: usize,
}

impl Ticket {
    /// The stamp this ticket keeps alive.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }
}

impl Active {
    /// `newest`: the last stamp of the store being opened.
    pub fn new(newest: u64) -> Active {
        Active {
            published: Published {
                newest: AtomicU64::new(newest),
                writing: Writing { last: AtomicU64::new(newest), ..Writing::default() },
            },
            count: AtomicU64::new(0),
            slots: (0..SLOT_COUNT).map(|_| Slot(AtomicU64::new(FREE))).collect(),
            overflow: Mutex::default(),
        }
    }

    /// The newest visible commit.
    pub fn newest(&self) -> u64 {
        self.published.newest.load(SeqCst)
    }

    /// The batch that is being written, for engines whose snapshots may be taken meanwhile.
    pub fn writing(&self) -> &Writing {
        &self.published.writing
    }

    /// Makes a commit visible. Called in stamp order.
    pub fn publish(&self, stamp: u64) {
        self.published.newest.store(stamp, SeqCst);
    }

    /// Takes a ticket at the newest stamp.
    pub fn enter(&self) -> Ticket {
        nagi_percore::note_shared("number of open snapshots", 1, 1);
        self.count.fetch_add(1, SeqCst);
        let mut ticket = self.place(self.newest());
        // A commit may have been published between the read of `newest` and the ticket. If `newest` is unchanged
        // after the ticket is in place, `oldest` cannot pass it.
        while ticket.stamp != self.newest() {
            let stamp = self.newest();
            match self.slots.get(ticket.slot) {
                Some(slot) => slot.0.store(stamp, SeqCst),
                None => {
                    let mut overflow = self.overflow.lock();
                    *overflow.entry(stamp).or_insert(0) += 1;
                    release(&mut overflow, ticket.stamp);
                }
            }
            ticket.stamp = stamp;
        }
        ticket
    }

    /// Takes a ticket at a stamp that another ticket holds at this moment.
    pub fn enter_at(&self, stamp: u64) -> Ticket {
        nagi_percore::note_shared("number of open snapshots", 1, 1);
        let ticket = self.place(stamp);
        // After the slot is taken, and before the caller releases the other ticket: see `oldest`.
        self.count.fetch_add(HANDED_ON + 1, SeqCst);
        ticket
    }

    fn place(&self, stamp: u64) -> Ticket {
        let first = thread_slot();
        for offset in 0..SLOT_COUNT {
            let slot = (first + offset) % SLOT_COUNT;
            let place = &self.slots[slot].0;
            if place.load(SeqCst) == FREE
                && place.compare_exchange(FREE, stamp, SeqCst, SeqCst).is_ok()
            {
                return Ticket { stamp, slot };
            }
        }
        let mut overflow = self.overflow.lock();
        *overflow.entry(stamp).or_insert(0) += 1;
        Ticket { stamp, slot: SLOT_COUNT }
    }

    /// Releases a ticket.
    pub fn leave(&self, ticket: &Ticket) {
        match self.slots.get(ticket.slot) {
            Some(slot) => slot.0.store(FREE, SeqCst),
            None => release(&mut self.overflow.lock(), ticket.stamp),
        }
        nagi_percore::note_shared("number of open snapshots", 1, 1);
        self.count.fetch_sub(1, SeqCst);
    }

    /// Number of tickets.
    pub fn ticket_count(&self) -> usize {
        (self.count.load(SeqCst) % HANDED_ON) as usize
    }

    /// A lower bound of the stamps of all present and future tickets.
    pub fn oldest(&self) -> u64 {
        let mut handed_on = self.count.load(SeqCst) / HANDED_ON;
        loop {
            let oldest = self.oldest_seen();
            let now = self.count.load(SeqCst) / HANDED_ON;
            if now == handed_on {
                return oldest;
            }
            handed_on = now;
        }
    }

    fn oldest_seen(&self) -> u64 {
        let newest = self.newest();
        let slots = self.slots.iter().map(|slot| slot.0.load(SeqCst)).min().unwrap_or(FREE);
        let overflow = self.overflow.lock().first_key_value().map_or(FREE, |(stamp, _)| *stamp);
        newest.min(slots).min(overflow)
    }
}

fn release(overflow: &mut BTreeMap<u64, usize>, stamp: u64) {
    if let Some(count) = overflow.get_mut(&stamp) {
        *count -= 1;
        if *count == 0 {
            overflow.remove(&stamp);
        }
    }
}

/// The slot at which a thread starts its search; it differs between threads.
fn thread_slot() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static SLOT: usize = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % SLOT_COUNT;
    }
    SLOT.with(|slot| *slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_is_the_oldest_ticket_also_when_slots_run_out() {
        let active = Active::new(5);
        let tickets: Vec<Ticket> = (0..SLOT_COUNT + 10).map(|_| active.enter()).collect();
        active.publish(9);
        let late = active.enter();
        assert_eq!((active.oldest(), active.ticket_count()), (5, SLOT_COUNT + 11));
        tickets.iter().for_each(|ticket| active.leave(ticket));
        assert_eq!((active.oldest(), late.stamp()), (9, 9));
        active.publish(12);
        assert_eq!(active.oldest(), 9);
        active.leave(&late);
        assert_eq!((active.oldest(), active.ticket_count()), (12, 0));
    }
}
