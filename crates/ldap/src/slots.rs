//! The limit of requests that run at the same time.
//!
//! Each login that waits for a directory occupies the thread of its connection. The limit keeps a slow directory from
//! getting more and more connections; logins beyond it wait, and fail when their time is over.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The limit, and how much of it is used.
pub(crate) struct Slots {
    limit: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    used: usize,
    waiting: usize,
    crowded_out: u64,
}

/// The right to run a request, until it is dropped.
pub(crate) struct Slot<'s>(&'s Slots);

impl Slots {
    pub(crate) fn new(limit: usize) -> Slots {
        Slots { limit: limit.max(1), state: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits for a slot; `None` if there is none before the deadline.
    pub(crate) fn take(&self, deadline: Instant) -> Option<Slot<'_>> {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.used >= self.limit {
            if self.freed.wait_until(&mut state, deadline).timed_out() && state.used >= self.limit {
                state.waiting -= 1;
                state.crowded_out += 1;
                return None;
            }
        }
        state.waiting -= 1;
        state.used += 1;
        Some(Slot(self))
    }

    /// The numbers of requests that run, that wait, and that were given up.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        (state.used as u64, state.waiting as u64, state.crowded_out)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.state.lock().used -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_beyond_the_limit_wait_and_give_up() {
        let slots = Slots::new(2);
        let soon = || Instant::now() + Duration::from_millis(20);
        let (first, second) = (slots.take(soon()), slots.take(soon()));
        assert!(first.is_some() && second.is_some() && slots.take(soon()).is_none());
        assert_eq!(slots.counts(), (2, 0, 1));
        std::thread::scope(|scope| {
            let waits =
                scope.spawn(|| slots.take(Instant::now() + Duration::from_secs(60)).is_some());
            drop(first);
            assert!(waits.join().unwrap());
        });
        drop(second);
        assert_eq!(slots.counts(), (0, 0, 1));
    }
}
