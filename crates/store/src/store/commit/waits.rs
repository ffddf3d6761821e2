//! The time for which the commits of a client wait for the engine: its disk is slow, or stands still.
//!
//! A commit has work of its own, which is more the more it writes, so only what it takes beyond that is a wait.

use std::time::Instant;

use nagi_kv::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A commit that takes no longer, beside the time for its bytes, does not wait.
const USUAL_MICROS: u64 = 100_000;
/// What an engine writes in a microsecond at least, if its disk accepts it: 16 MB in a second.
const BYTES_PER_MICRO: u64 = 16;

/// The waits of one client. Only the thread that runs its request changes them; any thread may read.
pub struct CommitWaits {
    created: Instant,
    /// When the commit in progress should have been done, in microseconds after `created`, at least 1; 0 without one.
    due: AtomicU64,
    ended_micros: AtomicU64,
}

impl Default for CommitWaits {
    fn default() -> CommitWaits {
        CommitWaits {
            created: Instant::now(),
            due: AtomicU64::new(0),
            ended_micros: AtomicU64::new(0),
        }
    }
}

/// A commit in progress; it ends when this is dropped.
pub(crate) struct Committing<'w>(&'w CommitWaits);

impl CommitWaits {
    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A commit of so many bytes begins. Costs a look at the clock, and another one at its end.
    pub(crate) fn begin(&self, bytes: usize) -> Committing<'_> {
        let due = self.now().saturating_add(bytes as u64 / BYTES_PER_MICRO);
        self.due.store(due.max(1), Relaxed);
        Committing(self)
    }

    /// The microseconds after `due`, if they are more than usual.
    fn late(&self, due: u64) -> Option<u64> {
        Some(self.now().saturating_sub(due)).filter(|late| due > 0 && *late >= USUAL_MICROS)
    }

    /// For how long the commit in progress has been waiting, in microseconds; `None` if it does not wait.
    pub fn present_micros(&self) -> Option<u64> {
        self.late(self.due.load(Relaxed))
    }

    /// The time of all waits that have ended, in microseconds.
    pub fn ended_micros(&self) -> u64 {
        self.ended_micros.load(Relaxed)
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        let due = self.0.due.swap(0, Relaxed);
        if let Some(late) = self.0.late(due) {
            self.0.ended_micros.fetch_add(late, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(done: impl Fn() -> bool) {
        while !done() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn only_a_commit_that_takes_longer_than_its_bytes_waits() {
        let waits = CommitWaits::default();
        drop(waits.begin(1000));
        assert_eq!((waits.present_micros(), waits.ended_micros()), (None, 0));
        let commit = waits.begin(0);
        until(|| waits.present_micros().is_some());
        let present = waits.present_micros().unwrap();
        assert!(present >= USUAL_MICROS, "{present}");
        // While that one waited, one of 1.6 GB would have had a hundred seconds.
        let large = CommitWaits::default();
        let other = large.begin(1_600_000_000);
        let begun = Instant::now();
        until(|| begun.elapsed().as_micros() as u64 > USUAL_MICROS);
        assert_eq!(large.present_micros(), None);
        drop((commit, other));
        assert!(waits.ended_micros() >= present && waits.present_micros().is_none());
        assert_eq!(large.ended_micros(), 0);
    }
}
