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
//!
//! A fence remembers the parts of counters that its commits have written, because no other commit adds to them. So the
//! next one need not read them. A transaction that deletes counters writes the parts of all fences: while it commits
//! ([`Slots::forget_parts`]) nothing is remembered.

use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeInclusive,
};

use nagi_kv::sync::Mutex;

/// Fences of a node: so many transactions that write may overlap; more conflict. All of them are written by a node that
/// takes over, or that declares this one dead. A part of the stored format.
pub(super) const COUNT: u16 = 512;

/// Counters that a fence remembers, at most: some 5 KiB.
const PARTS_MAX: usize = 64;

/// The values of parts of counters, by the keys of the counters.
pub(super) type Parts = HashMap<Vec<u8>, Vec<u8>>;

/// A fence, for one commit.
#[must_use]
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) number: u16,
    /// Its parts of counters as of its last commit, as far as they are known.
    pub(super) parts: Parts,
    /// The stamp of its last commit.
    last: u64,
    /// The number of the calls that have forgotten all parts, when it was taken; none during one.
    forgotten: Option<u64>,
}

/// The numbers of the fences of a seat.
pub(super) fn of_seat(seat: u16) -> RangeInclusive<u16> {
    seat * COUNT..=seat * COUNT + (COUNT - 1)
}

pub(super) struct Slots(Mutex<State>);

struct State {
    /// By the stamp of the last commit.
    free: BTreeSet<(u64, u16)>,
    unknown: Unknown,
    /// Of free fences.
    parts: HashMap<u16, Parts>,
    /// Transactions that are deleting counters.
    deleting: usize,
    /// The number of such transactions so far.
    forgotten: u64,
}

/// What waits for the end of commits whose outcome is not known.
#[derive(Default)]
pub(super) struct Unknown {
    fences: Vec<u16>,
    /// Transactions that have perhaps deleted counters.
    deleting: usize,
}

/// Parts are not remembered until it is dropped.
#[must_use]
pub(super) struct Forgotten<'s>(&'s Slots);

impl Forgotten<'_> {
    /// The commit may take effect later: they are not remembered until [`Slots::settle`].
    pub(super) fn last(self) {
        self.0.0.lock().unknown.deleting += 1;
        std::mem::forget(self);
    }
}

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        self.0.0.lock().deleting -= 1;
    }
}

impl Slots {
    /// All fences of a seat, with a last commit at this stamp.
    pub(super) fn new(stamp: u64, seat: u16) -> Slots {
        let free = of_seat(seat).map(|number| (stamp, number)).collect();
        let (unknown, parts) = (Unknown::default(), HashMap::new());
        Slots(Mutex::new(State { free, unknown, parts, deleting: 0, forgotten: 0 }))
    }

    /// A fence for a transaction with this snapshot; none if there are too many transactions.
    pub(super) fn take(&self, read_stamp: u64) -> Option<Slot> {
        let mut state = self.0.lock();
        let found = state.free.range(..=(read_stamp, u16::MAX)).next_back().copied();
        let (last, number) = found?;
        state.free.remove(&(last, number));
        let parts = state.parts.remove(&number).unwrap_or_default();
        let forgotten = (state.deleting == 0).then_some(state.forgotten);
        Some(Slot { number, parts, last, forgotten })
    }

    /// Gives a fence back after a commit at `committed`, with its parts; after none if it was refused.
    pub(super) fn give_back(&self, slot: Slot, committed: Option<u64>) {
        let mut state = self.0.lock();
        let is_known = state.deleting == 0 && slot.forgotten == Some(state.forgotten);
        if committed.is_some() && is_known && slot.parts.len() <= PARTS_MAX {
            state.parts.insert(slot.number, slot.parts);
        }
        state.free.insert((committed.unwrap_or(slot.last), slot.number));
    }

    /// Before the commit of a transaction that deletes counters: what is remembered now, and what is learned until the
    /// end of that commit, is not used.
    pub(super) fn forget_parts(&self) -> Forgotten<'_> {
        let mut state = self.0.lock();
        state.parts.clear();
        state.deleting += 1;
        state.forgotten += 1;
        Forgotten(self)
    }

    /// Gives a fence back after a commit whose outcome is not known.
    pub(super) fn give_up(&self, slot: Slot) {
        self.0.lock().unknown.fences.push(slot.number);
    }

    /// Commits with an unknown outcome, for [`Slots::settle`].
    pub(super) fn unknown(&self) -> Unknown {
        std::mem::take(&mut self.0.lock().unknown)
    }

    /// Puts the fences back: in use again, if it is known that their commits are before `stamp`.
    pub(super) fn settle(&self, unknown: Unknown, stamp: Option<u64>) {
        let mut state = self.0.lock();
        match stamp {
            Some(stamp) => {
                state.free.extend(unknown.fences.into_iter().map(|number| (stamp, number)));
                state.deleting -= unknown.deleting;
            }
            None => {
                state.unknown.fences.extend(unknown.fences);
                state.unknown.deleting += unknown.deleting;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_used_as_transactions_overlap() {
        let slots = Slots::new(0, 0);
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

    /// A fence's parts are those of its last successful commit.
    #[test]
    fn parts_are_remembered_from_one_commit_to_the_next() {
        let slots = Slots::new(0, 0);
        let take = |expected: &[(&str, &str)]| {
            let slot = slots.take(u64::MAX).expect("free");
            let part =
                |(key, value): &(&str, &str)| (key.as_bytes().into(), value.as_bytes().into());
            assert_eq!(slot.parts, expected.iter().map(part).collect::<Parts>());
            slot
        };
        let learn = |mut slot: Slot, key: &str| {
            slot.parts.insert(key.into(), b"1".into());
            slot
        };
        slots.give_back(learn(take(&[]), "a"), Some(1));
        slots.give_back(learn(take(&[("a", "1")]), "b"), Some(2));
        // It was refused: perhaps another node has written them.
        slots.give_back(take(&[("a", "1"), ("b", "1")]), None);
        slots.give_back(learn(take(&[]), "a"), Some(3));
        // Taken before, during and after the commit of a transaction that deletes counters.
        let before = take(&[("a", "1")]);
        let deleting = slots.forget_parts();
        slots.give_back(before, Some(4));
        slots.give_back(learn(take(&[]), "a"), Some(5));
        let during = learn(take(&[]), "a");
        drop(deleting);
        slots.give_back(during, Some(6));
        let mut many = take(&[]);
        many.parts.extend((0..=PARTS_MAX).map(|n| (vec![n as u8], Vec::new())));
        slots.give_back(many, Some(7));
        slots.give_back(learn(take(&[]), "a"), Some(8));
        slots.give_back(take(&[("a", "1")]), Some(9));
        // A commit that deletes counters, perhaps later.
        slots.forget_parts().last();
        slots.give_back(learn(take(&[]), "a"), Some(10));
        let during = learn(take(&[]), "a");
        let unknown = slots.unknown();
        slots.settle(unknown, None);
        slots.give_back(during, Some(11));
        let unknown = slots.unknown();
        slots.settle(unknown, Some(12));
        slots.give_back(learn(take(&[]), "a"), Some(13));
        slots.give_back(take(&[("a", "1")]), Some(14));
    }

    #[test]
    fn those_with_unknown_commits_are_used_again_after_a_later_stamp() {
        let slots = Slots::new(0, 0);
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
