//! The clock of an engine in this process: it assigns commit stamps.
//!
//! A stamp is a cluster time: seconds since 1970 in the upper half, a number within the second in the
//! lower half, as in a BSON timestamp. So the order of commits, `operationTime`, `$clusterTime`, snapshots
//! and the change log are one order:
//!
//! ```text
//!   wall clock      12:00:05                                  12:00:06        12:00:05 (set back)
//!   commits               (5,1) (5,2)                               (6,1)          (6,2)
//!   a client brings                   $clusterTime (5,9)
//!   commits                                        (5,10)
//! ```
//!
//! Invariants
//! - No stamp is assigned twice, and each is greater than all stamps assigned or observed before.
//! - A stamp is never less than the wall clock, and greater only if an earlier stamp was.
//!
//! An engine with files starts the clock at a stamp that, as far as it knows, no commit before the restart exceeds;
//! the server corrects it with `Engine::advance`. A distributed engine has no such clock: the timestamp oracle of
//! its store takes its place.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

/// See the module's header.
pub struct Clock {
    /// The greatest stamp that was assigned or observed.
    greatest: AtomicU64,
    /// Wall time when the newest commit got its stamp, in milliseconds since 1970.
    committed_ms: AtomicI64,
}

impl Clock {
    /// A clock whose stamps are greater than `newest`.
    pub fn new(newest: u64) -> Clock {
        let now_ms = wall_ms();
        Clock {
            greatest: AtomicU64::new(newest.max(second(now_ms))),
            committed_ms: AtomicI64::new(now_ms),
        }
    }

    /// The first of `count` consecutive stamps. A commit takes as many as its log entries need, and one at least.
    pub fn take(&self, count: u64) -> u64 {
        let now_ms = wall_ms();
        self.committed_ms.store(now_ms, SeqCst);
        self.take_at(count, now_ms)
    }

    /// A stamp for a purpose other than a commit.
    pub fn next(&self) -> u64 {
        self.take_at(1, wall_ms())
    }

    fn take_at(&self, count: u64, now_ms: i64) -> u64 {
        let first = |greatest: u64| (greatest + 1).max(second(now_ms) | 1);
        let take = |greatest: u64| Some(first(greatest) + count.saturating_sub(1));
        first(self.greatest.fetch_update(SeqCst, SeqCst, take).unwrap_or_else(|greatest| greatest))
    }

    /// Ensures that later stamps are greater than `stamp`.
    pub fn observe(&self, stamp: u64) {
        self.greatest.fetch_max(stamp, SeqCst);
    }

    /// The greatest stamp that was assigned or observed.
    pub fn greatest(&self) -> u64 {
        self.greatest.load(SeqCst)
    }

    /// Wall time of the newest commit, in milliseconds since 1970.
    pub fn committed_ms(&self) -> i64 {
        self.committed_ms.load(SeqCst)
    }
}

/// The least time within a second.
fn second(wall_ms: i64) -> u64 {
    u64::try_from(wall_ms / 1000).unwrap_or(0) << 32
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_grow_and_follow_the_wall_clock() {
        let clock = Clock::new(0);
        let first = clock.take(3);
        let next = clock.next();
        assert!(next >= first + 3, "three stamps were taken");
        let seconds = wall_ms() / 1000;
        assert!((first >> 32).abs_diff(seconds.unsigned_abs()) <= 1);
        clock.observe(next + (7 << 32));
        assert_eq!(clock.take(1), next + (7 << 32) + 1);
        clock.observe(5);
        assert_eq!(clock.greatest(), next + (7 << 32) + 1);
        assert!(clock.committed_ms() / 1000 - seconds <= 1);
    }

    #[test]
    fn a_clock_that_was_set_back_goes_on_from_the_newest_stamp() {
        let ahead = Clock::new(0).next() + (3_600 << 32);
        assert_eq!(Clock::new(ahead).take(1), ahead + 1);
    }
}
