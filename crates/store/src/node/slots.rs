//! The fences of a node: keys of which each commit writes one, alone.
//!
//! A write is a conflict if the key was committed after the transaction's snapshot. So a commit takes a fence whose
//! last commit it sees, and that no other commit is using. Of these it takes the one that was used last. So as many
//! fences are in use as transactions overlap, and a transaction with an old snapshot finds one that was long unused.
//!
//! ```text
//!   fence 0   used until 40          transaction with the snapshot 30: fence 1
//!   fence 1   used until 12          transaction with the snapshot 45: fence 0
//!   fence 2   used until 5
//! ```

use std::collections::BTreeSet;

use nagi_kv::sync::Mutex;

/// Fences of a node: so many transactions that write may overlap; more conflict. All of them are written by a node that
/// takes over. A part of the stored format.
pub(super) const COUNT: u16 = 512;

/// A fence, for one commit.
#[must_use]
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: u16,
    /// The stamp of its last commit.
    last: u64,
}

pub(super) struct Slots(Mutex<State>);

struct State {
    /// By the stamp of the last commit.
    free: BTreeSet<(u64, u16)>,
    /// Those with a commit whose outcome is not known.
    unknown: Vec<u16>,
}

impl Slots {
    /// All fences, with a last commit at this stamp.
    pub(super) fn new(stamp: u64) -> Slots {
        let free = (0..COUNT).map(|number| (stamp, number)).collect();
        Slots(Mutex::new(State { free, unknown: Vec::new() }))
    }

    /// A fence for a transaction with this snapshot; none if there are too many transactions.
    pub(super) fn take(&self, read_stamp: u64) -> Option<Slot> {
        let mut state = self.0.lock();
        let found = state.free.range(..=(read_stamp, u16::MAX)).next_back().copied();
        let (last, number) = found?;
        state.free.remove(&(last, number));
        Some(Slot { number, last })
    }

    /// Gives a fence back after a commit at `committed`; after none if it was refused.
    pub(super) fn give_back(&self, slot: Slot, committed: Option<u64>) {
        self.0.lock().free.insert((committed.unwrap_or(slot.last), slot.number));
    }

    /// Gives a fence back after a commit whose outcome is not known.
    pub(super) fn give_up(&self, slot: Slot) {
        self.0.lock().unknown.push(slot.number);
    }

    /// The fences with unknown commits, for [`Slots::settle`].
    pub(super) fn unknown(&self) -> Vec<u16> {
        std::mem::take(&mut self.0.lock().unknown)
    }

    /// Puts them back: in use again, if it is known that their commits are before `stamp`.
    pub(super) fn settle(&self, unknown: Vec<u16>, stamp: Option<u64>) {
        let mut state = self.0.lock();
        match stamp {
            Some(stamp) => state.free.extend(unknown.into_iter().map(|number| (stamp, number))),
            None => state.unknown.extend(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_used_as_transactions_overlap() {
        let slots = Slots::new(0);
        let old = 1;
        for stamp in 2..2000 {
            let slot = slots.take(stamp - 1).expect("free");
            assert_eq!(slot.number, COUNT - 1);
            slots.give_back(slot, Some(stamp));
        }
        // One with an old snapshot takes one that was not used since.
        let slot = slots.take(old).expect("free");
        assert_eq!(slot.number, COUNT - 2);
        slots.give_back(slot, None);
        let all: Vec<Slot> = std::iter::from_fn(|| slots.take(old)).collect();
        assert_eq!(all.len(), usize::from(COUNT) - 1, "one was used after that snapshot");
        for slot in all {
            slots.give_back(slot, Some(3000));
        }
        assert!(slots.take(old).is_none());
        assert_eq!(slots.take(2500).map(|slot| slot.last), Some(1999));
    }

    #[test]
    fn those_with_unknown_commits_are_used_again_after_a_later_stamp() {
        let slots = Slots::new(0);
        let slot = slots.take(5).expect("free");
        let number = slot.number;
        slots.give_up(slot);
        assert!(std::iter::from_fn(|| slots.take(u64::MAX)).all(|slot| slot.number != number));
        let unknown = slots.unknown();
        slots.settle(unknown, None);
        assert!(slots.take(u64::MAX).is_none());
        let unknown = slots.unknown();
        slots.settle(unknown, Some(9));
        assert!(slots.take(8).is_none());
        assert_eq!(slots.take(9).map(|slot| slot.number), Some(number));
    }
}
