//! The latency governor: spreads flushes and compactions over time, and slows commits down before RocksDB would
//! stop them.
//!
//! RocksDB lets writes run until a limit is near, then delays each of them by milliseconds and finally stops them;
//! its flushes and compactions write as fast as the disk accepts. Both appear to clients as stalls. The governor
//! keeps the engine away from those limits by controlling three numbers, twenty times a second:
//!
//! ```text
//!   debt        how near the nearest limit is: memtables waiting to be flushed, their memory, files at level 0,
//!               bytes that compaction is behind
//!
//!   0 %             50 %                         100 %
//!    |---------------|-----------------------------|
//!     no pause        pause of each commit grows     RocksDB's own slow-down begins here and is never reached
//!                     with the square of the debt
//! ```
//!
//! - rate: bytes per second that flushes and compactions may write. It is unlimited while no client writes,
//!   otherwise a multiple of what clients write that grows with the debt.
//! - removal: bytes per second of obsolete files that are removed, as many as are written, so that a burst of
//!   removals does not block the disk.
//! - pause: microseconds that each commit waits before it begins; usually zero, at most 2 ms.
//!
//! Compaction threads run at a lower CPU priority and are served last by the disk (`db/setup`). Flushes are not,
//! because commits wait for them in the end. The idle I/O class is not used: with schedulers that honour it,
//! compaction could starve until writes stop. Reasons and figures: docs/decisions/018.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nagi_kv::Result;
use parking_lot::{Condvar, Mutex};

use crate::db::{Db, Ticker};

const LOOK_EACH: Duration = Duration::from_millis(50);
/// Weight of the newest sample in the present load.
const NEWEST: f64 = 0.3;
/// No limit for present disks.
const UNLIMITED: u64 = 4 << 30;
/// Below this load of clients, background work is not slowed down.
const IDLE_WRITES: f64 = 64.0 * 1024.0;
const IDLE_READS: f64 = 200.0;
/// Bytes per second for background work while clients only read.
const BESIDE_READS: f64 = 48.0 * (1 << 20) as f64;
/// Long-run write amplification of flushes and compactions, with a margin.
const PER_BYTE: f64 = 6.0;
/// Longest pause of a load, which polls its interrupt between pauses.
const SPREAD_MAX: Duration = Duration::from_millis(8);
/// Longest pause of a commit.
const PAUSE_MAX_US: f64 = 2000.0;

/// With more files at level 0, compactions do not wait for memory any more.
const PRESSING_FILES: u64 = 24;

/// The values at which debt begins and at which it reaches 100 %; RocksDB's own limits are beyond (`db/setup`).
mod debt {
    /// Memtables of one space that wait to be flushed; RocksDB slows down at 7, stops at 8.
    pub(super) const MEMTABLES: (f64, f64) = (3.0, 7.0);
    /// Bytes of all memtables relative to their limit.
    pub(super) const MEMORY: (f64, f64) = (1.0, 1.5);
    /// Files at level 0; RocksDB slows down at 40, stops at 80.
    pub(super) const LEVEL_0: (f64, f64) = (16.0, 40.0);
    /// Bytes that compaction is behind; RocksDB slows down at 256 GiB, and stops at 1 TiB.
    pub(super) const PENDING: (f64, f64) =
        (32.0 * (1_u64 << 30) as f64, 256.0 * (1_u64 << 30) as f64);
}

/// The values that `serverStatus` shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) debt_percent: u64,
    pub(crate) pause_us: u64,
    pub(crate) paused_us: u64,
    pub(crate) rate_bytes: u64,
}

/// See the module's header.
#[derive(Default)]
pub(crate) struct Governor {
    written: AtomicU64,
    debt_percent: AtomicU64,
    pause_us: AtomicU64,
    /// Total microseconds for which commits were paused.
    paused_us: AtomicU64,
    rate_bytes: AtomicU64,
    /// Those that wait for background work.
    hurries: AtomicU64,
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// A sample of the load and the debts.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// Bytes written and reads by clients since the previous sample.
    written: u64,
    reads: u64,
    seconds: f64,
    memtables_waiting: u64,
    memtable_bytes: u64,
    level_0_files: u64,
    pending_bytes: u64,
}

/// The governor's decision.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Decision {
    debt: f64,
    pause_us: u64,
    rate_bytes: u64,
}

/// The recent load.
#[derive(Default)]
struct Load {
    written_per_s: f64,
    reads_per_s: f64,
}

fn share(value: f64, (begins, whole): (f64, f64)) -> f64 {
    ((value - begins) / (whole - begins)).clamp(0.0, 1.0)
}

impl Load {
    fn decide(&mut self, look: &Look, memtables_max: u64) -> Decision {
        let seconds = look.seconds.max(1e-3);
        let blend = |old: f64, new: u64| old + NEWEST * (new as f64 / seconds - old);
        self.written_per_s = blend(self.written_per_s, look.written);
        self.reads_per_s = blend(self.reads_per_s, look.reads);
        let debt = [
            share(look.memtables_waiting as f64, debt::MEMTABLES),
            share(look.memtable_bytes as f64 / memtables_max.max(1) as f64, debt::MEMORY),
            share(look.level_0_files as f64, debt::LEVEL_0),
            share(look.pending_bytes as f64, debt::PENDING),
        ];
        let debt = debt.into_iter().fold(0.0, f64::max);
        let idle = self.written_per_s < IDLE_WRITES && self.reads_per_s < IDLE_READS;
        let rate = match idle {
            true => UNLIMITED as f64,
            false => (BESIDE_READS + PER_BYTE * self.written_per_s) * (1.0 + 8.0 * debt),
        };
        // A memtable is still flushed quickly when clients have just become active.
        Decision {
            debt,
            pause_us: (debt * debt * PAUSE_MAX_US) as u64,
            rate_bytes: (rate as u64).min(UNLIMITED),
        }
    }
}

impl Governor {
    /// Counts a commit of `bytes` bytes.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
    }

    /// Called by each commit before it begins.
    pub(crate) fn pause(&self) {
        let pause_us = self.pause_us.load(Relaxed);
        if pause_us > 0 {
            std::thread::sleep(Duration::from_micros(pause_us));
            self.paused_us.fetch_add(pause_us, Relaxed);
        }
    }

    /// Called by bulk loads after each piece: they write no faster than flushes and compactions.
    pub(crate) fn spread(&self, bytes: usize) {
        let rate = self.rate_bytes.load(Relaxed);
        if (1..UNLIMITED).contains(&rate) {
            let due = Duration::from_secs_f64(bytes as f64 / rate as f64);
            std::thread::sleep(due.min(SPREAD_MAX));
        }
    }

    pub(crate) fn gauges(&self) -> Gauges {
        Gauges {
            debt_percent: self.debt_percent.load(Relaxed),
            pause_us: self.pause_us.load(Relaxed),
            paused_us: self.paused_us.load(Relaxed),
            rate_bytes: self.rate_bytes.load(Relaxed),
        }
    }

    /// Stops the thread, and removes the limits of background work.
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.wake.notify_all();
    }

    /// Lets background work and the removal of files run as fast as they can while `work` waits for them.
    pub(crate) fn hurry<T>(&self, db: &Db, work: impl FnOnce() -> T) -> T {
        self.hurries.fetch_add(1, Relaxed);
        self.set_rate(db, UNLIMITED);
        let done = work();
        // The next look at the load limits them again.
        self.hurries.fetch_sub(1, Relaxed);
        done
    }

    fn set_rate(&self, db: &Db, rate_bytes: u64) {
        if self.rate_bytes.swap(rate_bytes, Relaxed) != rate_bytes {
            db.set_background_rate(rate_bytes);
            db.set_removal_rate(removal(rate_bytes));
        }
    }

    fn apply(&self, db: &Db, decision: &Decision) {
        let debt = (decision.debt * 100.0) as u64;
        let before = self.debt_percent.swap(debt, Relaxed);
        if before == 0 && debt > 0 {
            log::info!(target: "STORAGE", id = 7_702_020, pauseMicros = decision.pause_us;
                "Commits slow down: flushes and compactions are behind");
        }
        self.pause_us.store(decision.pause_us, Relaxed);
        let hurries = self.hurries.load(Relaxed) > 0;
        self.set_rate(db, if hurries { UNLIMITED } else { decision.rate_bytes });
    }

    fn run(&self, db: &Weak<Db>, memtables_max: u64) {
        let mut load = Load::default();
        let mut counted = (self.written.load(Relaxed), 0, Instant::now());
        let mut stopped = self.stopped.lock();
        while !*stopped {
            self.wake.wait_for(&mut stopped, LOOK_EACH);
            let Some(db) = db.upgrade() else { return };
            let now = (self.written.load(Relaxed), reads(&db), Instant::now());
            let look = Look {
                written: now.0 - counted.0,
                reads: now.1.saturating_sub(counted.1),
                seconds: now.2.duration_since(counted.2).as_secs_f64(),
                ..debts(&db)
            };
            counted = now;
            self.apply(&db, &load.decide(&look, memtables_max));
            if let Some(memory) = &db.damaged().work_memory {
                memory.press(look.level_0_files > PRESSING_FILES);
            }
            if *stopped {
                db.set_background_rate(UNLIMITED);
                db.set_removal_rate(None);
            }
        }
    }
}

/// The rate at which obsolete files are removed: the rate at which files are written.
fn removal(rate_bytes: u64) -> Option<u64> {
    (rate_bytes < UNLIMITED).then_some(rate_bytes)
}

/// Reads of clients so far.
pub(crate) fn reads(db: &Db) -> u64 {
    db.ticker(Ticker::KeysRead) + db.ticker(Ticker::Seeks)
}

fn debts(db: &Db) -> Look {
    let mut look = Look::default();
    for space in db.spaces() {
        let of = |name| db.property(space, name);
        look.memtables_waiting = look.memtables_waiting.max(of(c"rocksdb.num-immutable-mem-table"));
        look.memtable_bytes += of(c"rocksdb.cur-size-all-mem-tables");
        look.level_0_files = look.level_0_files.max(db.level_0_files(space));
        look.pending_bytes += of(c"rocksdb.estimate-pending-compaction-bytes");
    }
    look
}

/// Starts the thread. `memtables_max`: limit of the bytes of all memtables.
pub(crate) fn start(
    governor: &Arc<Governor>,
    db: Weak<Db>,
    memtables_max: u64,
) -> Result<JoinHandle<()>> {
    let governor = Arc::clone(governor);
    let thread = std::thread::Builder::new().name("governor".to_owned());
    Ok(thread.spawn(move || governor.run(&db, memtables_max))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMTABLES_MAX: u64 = 256 << 20;

    /// The decision after the load has lasted for a while.
    fn settled(look: Look) -> Decision {
        let mut load = Load::default();
        let look = Look { seconds: 0.05, ..look };
        (0..100).map(|_| load.decide(&look, MEMTABLES_MAX)).last().unwrap()
    }

    #[test]
    fn background_work_is_free_while_nobody_works_and_follows_those_who_do() {
        assert_eq!(settled(Look::default()).rate_bytes, UNLIMITED);
        let reading = settled(Look { reads: 1000, ..Look::default() });
        assert_eq!(reading.rate_bytes, BESIDE_READS as u64);
        let per_look = (20 << 20) / 20;
        let writing = settled(Look { written: per_look, ..Look::default() });
        let six_times = BESIDE_READS + 6.0 * f64::from(20 << 20);
        assert!((writing.rate_bytes as f64 / six_times - 1.0).abs() < 0.01, "{writing:?}");
        assert_eq!((writing.pause_us, reading.pause_us), (0, 0));
    }

    #[test]
    fn each_debt_slows_commits_long_before_rocksdb_would_stop_them() {
        let looks: [fn(f64) -> Look; 4] = [
            |part| Look { memtables_waiting: (3.0 + 4.0 * part) as u64, ..Look::default() },
            |part| Look {
                memtable_bytes: (MEMTABLES_MAX as f64 * (1.0 + part / 2.0)) as u64,
                ..Look::default()
            },
            |part| Look { level_0_files: (16.0 + 24.0 * part) as u64, ..Look::default() },
            |part| Look {
                pending_bytes: ((32.0 + 224.0 * part) * (1_u64 << 30) as f64) as u64,
                ..Look::default()
            },
        ];
        for look in looks {
            let written = 1 << 20;
            let at = |part| settled(Look { written, ..look(part) });
            assert_eq!((at(0.0).pause_us, at(0.0).debt), (0, 0.0));
            let (half, whole, beyond) = (at(0.5), at(1.0), at(9.0));
            assert!((400..=600).contains(&half.pause_us), "{half:?}");
            assert_eq!((whole.pause_us, beyond.pause_us), (2000, 2000));
            assert!(whole.rate_bytes > half.rate_bytes && half.rate_bytes > at(0.0).rate_bytes);
        }
    }
}
