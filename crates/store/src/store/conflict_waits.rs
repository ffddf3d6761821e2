//! The time for which the writes of a client wait for transactions that hold the records they need.

use std::time::Instant;

use nagi_kv::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The waits of one client. Only the thread that runs its request changes them; any thread may read.
pub struct ConflictWaits {
    created: Instant,
    /// When the present wait began, in microseconds after `created`, at least 1; 0 without a wait.
    since: AtomicU64,
    ended_micros: AtomicU64,
}

impl Default for ConflictWaits {
    fn default() -> ConflictWaits {
        ConflictWaits {
            created: Instant::now(),
            since: AtomicU64::new(0),
            ended_micros: AtomicU64::new(0),
        }
    }
}

impl ConflictWaits {
    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    /// A wait begins, or continues with another attempt.
    pub(crate) fn begin(&self) {
        if self.since.load(Relaxed) == 0 {
            self.since.store(self.now(), Relaxed);
        }
    }

    /// The wait is over, if there was one.
    pub(crate) fn end(&self) {
        let since = self.since.swap(0, Relaxed);
        if since > 0 {
            self.ended_micros.fetch_add(self.now().saturating_sub(since), Relaxed);
        }
    }

    /// For how long it has been waiting, in microseconds; `None` if it does not wait.
    pub fn present_micros(&self) -> Option<u64> {
        let since = self.since.load(Relaxed);
        (since > 0).then(|| self.now().saturating_sub(since))
    }

    /// The time of all waits that have ended, in microseconds.
    pub fn ended_micros(&self) -> u64 {
        self.ended_micros.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_several_attempts_is_one() {
        let waits = ConflictWaits::default();
        waits.end();
        assert_eq!((waits.present_micros(), waits.ended_micros()), (None, 0));
        waits.begin();
        let since = waits.since.load(Relaxed);
        while waits.present_micros().unwrap() < 1000 {
            std::thread::yield_now();
        }
        waits.begin();
        assert_eq!(waits.since.load(Relaxed), since);
        waits.end();
        assert!(waits.present_micros().is_none() && waits.ended_micros() >= 1000);
    }
}
