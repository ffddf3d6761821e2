//! A commit of many bytes first lets the engine's background work catch up.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use nagi_kv::Space;
use parking_lot::{Mutex, MutexGuard};

use crate::{Options, db::Db, stats, upkeep::Upkeep};

/// Smaller commits do not wait.
const LARGE_BYTES: usize = 1 << 20;
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);
/// Sorted runs that a space with large values has when another large commit begins, at most. A compaction holds two
/// values of each run that it merges.
const RUNS_MAX: u64 = 4;

/// What the waits depend on.
pub(crate) struct LargeCommits {
    memtables_max: u64,
    has_small_memtables: bool,
    /// Held by the commit that makes the next run.
    turn: Mutex<()>,
}

impl LargeCommits {
    pub(crate) fn new(options: &Options) -> LargeCommits {
        LargeCommits {
            memtables_max: options.memtables_max(),
            has_small_memtables: options.has_small_memtables(),
            turn: Mutex::new(()),
        }
    }

    /// Waits before a commit of so many bytes until flushes have caught up, because memtables that wait for a flush
    /// cannot be evicted: with the commit they should not exceed the limit of all memtables. With small memtables it
    /// waits for compactions, too, as one of many runs would hold more memory than there is. If they do not catch up in
    /// time, the disk is too slow, and the commit proceeds.
    ///
    /// The commit keeps what is returned until it has ended.
    pub(crate) fn wait(
        &self,
        bytes: usize,
        db: &Db,
        upkeep: &Upkeep,
    ) -> Option<MutexGuard<'_, ()>> {
        if bytes < LARGE_BYTES {
            return None;
        }
        if self.has_small_memtables && db.damaged().large_flushes.is_due() {
            upkeep.wake();
        }
        let until = Instant::now() + WAIT_MAX;
        let gets_large = |space: Space| db.damaged().large_flushes.gets_large(space);
        let is_bounded = self.has_small_memtables && db.spaces().any(gets_large);
        let turn = if is_bounded { self.turn.try_lock_until(until) } else { None };
        // The compaction is next to get the memory that this commit holds.
        let waits = || db.damaged().work_memory.as_ref().is_some_and(|memory| memory.waits());
        let most = self.memtables_max.saturating_sub(bytes as u64);
        loop {
            let flushing = stats::flushing_bytes(db);
            let is_flushed = flushing == 0 || flushing <= most;
            let is_merged = !is_bounded || run_count(db) < RUNS_MAX || waits();
            if is_flushed && is_merged || Instant::now() >= until {
                return turn;
            }
            sleep(LOOK);
        }
    }
}

/// The most sorted runs in a space that gets large values, with those in memory.
fn run_count(db: &Db) -> u64 {
    let count = |space| {
        let active = db.property(space, c"rocksdb.cur-size-active-mem-table");
        db.level_0_files(space)
            + db.property(space, c"rocksdb.num-immutable-mem-table")
            + u64::from(active >= LARGE_BYTES as u64)
    };
    let large = db.spaces().filter(|space| db.damaged().large_flushes.gets_large(*space));
    large.map(count).max().unwrap_or(0)
}
