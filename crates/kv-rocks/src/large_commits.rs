//! A commit of many bytes first lets the engine's background work catch up.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{Options, db::Db, stats, upkeep::Upkeep};

/// Smaller commits do not wait.
const LARGE_BYTES: usize = 1 << 20;
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// What the waits depend on.
pub(crate) struct LargeCommits {
    memtables_max: u64,
    has_small_memtables: bool,
}

impl LargeCommits {
    pub(crate) fn new(options: &Options) -> LargeCommits {
        LargeCommits {
            memtables_max: options.memtables_max(),
            has_small_memtables: options.has_small_memtables(),
        }
    }

    /// Waits before a commit of so many bytes until flushes have caught up, because memtables that wait for a flush
    /// cannot be evicted: with the commit they should not exceed the limit of all memtables. If they do not catch up in
    /// time, the disk is too slow, and the commit proceeds.
    pub(crate) fn wait(&self, bytes: usize, db: &Db, upkeep: &Upkeep) {
        if bytes < LARGE_BYTES {
            return;
        }
        if self.has_small_memtables && db.damaged().large_flushes.is_due() {
            upkeep.wake();
        }
        let until = Instant::now() + WAIT_MAX;
        let most = self.memtables_max.saturating_sub(bytes as u64);
        loop {
            let flushing = stats::flushing_bytes(db);
            if flushing == 0 || flushing <= most || Instant::now() >= until {
                return;
            }
            sleep(LOOK);
        }
    }
}
