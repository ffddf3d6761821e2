//! The order in which statements add to the buckets of a time series: those with the same metadata one after another,
//! because they would write the same buckets, and all but one would begin again.
//!
//! ```text
//!   metadata -> one of 64 lanes; a statement takes all of its lanes at once, before its transaction begins
//!   waiting: first come, first served, for each lane
//! ```
//!
//! Only a help: what keeps buckets right are the locks of records, so statements that pass each other do no harm.

use std::{
    collections::VecDeque,
    hash::BuildHasher,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use foldhash::fast::RandomState;
use nagi_error::Result;

/// The time between two looks at the interrupt.
const WAIT: Duration = Duration::from_millis(10);

/// A set of lanes.
pub(super) type Lanes = u64;

#[derive(Default)]
struct State {
    taken: Lanes,
    /// The numbers and lanes of those that wait, in the order of their arrival.
    waiting: VecDeque<(u64, Lanes)>,
    arrived: u64,
}

/// The lanes of one collection.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    hashes: RandomState,
}

/// Lanes that are given back when it is dropped.
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    lanes: Lanes,
}

impl Turns {
    /// The lane of some metadata.
    pub(super) fn lane(&self, meta: &[u8]) -> Lanes {
        1 << (self.hashes.hash_one(meta) % u64::from(Lanes::BITS))
    }

    /// Waits for the lanes. `check` is called every few milliseconds.
    ///
    /// # Errors
    /// Those of `check`.
    pub(super) fn take(&self, lanes: Lanes, check: &dyn Fn() -> Result<()>) -> Result<Turn<'_>> {
        let mut state = self.lock();
        let number = state.arrived;
        state.arrived += 1;
        state.waiting.push_back((number, lanes));
        loop {
            let mut before = state.waiting.iter().take_while(|(other, _)| *other != number);
            let is_free = state.taken & lanes == 0 && before.all(|(_, other)| other & lanes == 0);
            let checked = if is_free { Ok(()) } else { check() };
            if is_free || checked.is_err() {
                state.waiting.retain(|(other, _)| *other != number);
                state.taken |= if is_free { lanes } else { 0 };
                drop(state);
                // Those behind it may have waited for its place only.
                self.changed.notify_all();
                return checked.map(|()| Turn { turns: self, lanes });
            }
            let waited = self.changed.wait_timeout(state, WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().taken &= !self.lanes;
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_error::{Code, err};
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn lanes_are_taken_by_one_at_a_time() {
        let turns = Turns::default();
        let inside: [AtomicU64; 3] = Default::default();
        std::thread::scope(|scope| {
            for thread in 0..6_u64 {
                let (turns, inside) = (&turns, &inside);
                scope.spawn(move || {
                    for n in 0..200 {
                        let lanes = 1 + (thread + n) % 7;
                        let _turn = turns.take(lanes, &|| Ok(())).unwrap();
                        let mine = (0..3).filter(|lane| lanes & 1 << lane != 0);
                        for lane in mine.clone() {
                            assert_eq!(inside[lane].fetch_add(1, SeqCst), 0);
                        }
                        for lane in mine {
                            inside[lane].fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
        let state = turns.lock();
        assert!(state.taken == 0 && state.waiting.is_empty());
    }

    #[test]
    fn who_waits_can_be_interrupted() {
        let turns = Turns::default();
        let first = turns.take(0b11, &|| Ok(())).unwrap();
        let _other = turns.take(0b100, &|| unreachable!("it is free")).unwrap();
        let interrupted = turns.take(0b10, &|| Err(err!(Code::INTERRUPTED, "killed")));
        assert_eq!(interrupted.err().map(|error| error.code()), Some(Code::INTERRUPTED));
        drop(first);
        turns.take(0b11, &|| unreachable!("it is free")).unwrap();
    }
}
