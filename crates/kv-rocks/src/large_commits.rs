//! A commit of many bytes first lets flushes catch up.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{db::Db, stats, upkeep::Upkeep};

/// Smaller commits do not wait.
const LARGE_BYTES: usize = 1 << 20;
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Waits before a commit of so many bytes until what is to be flushed does not exceed `memtables_max` with them,
/// because memtables that wait for a flush cannot be evicted. If flushes do not catch up in time, the disk is too slow,
/// and the commit proceeds.
pub(crate) fn wait(bytes: usize, memtables_max: u64, db: &Db, upkeep: &Upkeep) {
    if bytes < LARGE_BYTES {
        return;
    }
    if db.damaged().large_flushes.is_due() {
        upkeep.wake();
    }
    let until = Instant::now() + WAIT_MAX;
    let most = memtables_max.saturating_sub(bytes as u64);
    loop {
        let flushing = stats::flushing_bytes(db);
        if flushing == 0 || flushing <= most || Instant::now() >= until {
            return;
        }
        sleep(LOOK);
    }
}
