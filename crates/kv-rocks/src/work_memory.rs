//! The memory of flushes and compactions that rewrite large values.
//!
//! RocksDB holds whole values while it rewrites them, outside of the cache. For a value of n bytes:
//!
//! ```text
//!   flush        the block that is built, in a buffer that grows by doubling                             2n
//!   compaction   the buffer of the file and the block that were read                                     2n
//!                the block that is built, and its compressed form                                        3n
//! ```
//!
//! It is the same for any number of files, because a compaction reads a large value when it comes to it
//! (native/late_reads.cc).
//!
//! The process attaches an account ([`WorkMemory`]): a compaction waits for the memory before it reads its first large
//! value, and what it holds is taken from caches and requests. A flush never waits, because commits wait for it.
//!
//! RocksDB runs each job on one thread from its begin to its end, and tells both to the listener (native/damage.cc). In
//! between, this thread reports large values: those of its reads (native/read_back.cc) and those that it adds to a
//! table (native/blocks.cc). Jobs of small values are never counted.

use std::{cell::RefCell, fmt, sync::Arc};

/// Smaller values are not counted.
const LARGE_BYTES: usize = 1 << 20;
/// A compaction reads this much more than the block that it needs.
pub(crate) const READ_AHEAD_BYTES: usize = 2 << 20;
/// What a job holds of a value, in times its size.
const FLUSH_COPIES: u64 = 2;
const COMPACTION_COPIES: u64 = 5;

/// An account of the memory of flushes and compactions. Called by their threads.
pub trait WorkMemory: Send + Sync + fmt::Debug {
    /// Begins the account of a job.
    fn begin(&self) -> Box<dyn WorkCharge>;

    /// The database is about to be closed: jobs that wait, and later ones, do not wait any more. RocksDB ends them at
    /// their next step.
    fn stop(&self);

    /// Tells whether there are so many files that commits will soon wait for compactions. Jobs do not wait meanwhile.
    fn press(&self, presses: bool);
}

/// The account of one job, which ends when it is dropped. It may be dropped late, when the thread's next job begins, if
/// the job failed.
pub trait WorkCharge {
    /// The job holds up to `bytes` in total. With `waits`, it waits for them for a limited time.
    fn cover(&mut self, bytes: u64, waits: bool);

    /// The job has rewritten one large value.
    fn step(&mut self);
}

/// The job of this thread.
struct Job {
    charge: Box<dyn WorkCharge>,
    /// The bytes that it holds for a value, in times the value's size.
    copies: u64,
    waits: bool,
    /// The largest value so far.
    value_bytes: usize,
}

thread_local! {
    static JOB: RefCell<Option<Job>> = const { RefCell::new(None) };
}

/// A flush begins on this thread.
pub(crate) fn begin_flush(memory: Option<&Arc<dyn WorkMemory>>) {
    begin(memory, FLUSH_COPIES, false);
}

/// A compaction begins on this thread.
pub(crate) fn begin_compaction(memory: Option<&Arc<dyn WorkMemory>>) {
    begin(memory, COMPACTION_COPIES, true);
}

fn begin(memory: Option<&Arc<dyn WorkMemory>>, copies: u64, waits: bool) {
    // Drops that of a failed job, whose end is not told.
    JOB.set(memory.map(|memory| Job { charge: memory.begin(), copies, waits, value_bytes: 0 }));
}

/// The job of this thread has ended and holds no value any more. Returns true if it had a large one.
pub(crate) fn end() -> bool {
    JOB.take().is_some_and(|job| job.value_bytes > 0)
}

/// Counts a read of `bytes` from a file, before it. Returns false if this thread has no job.
pub(crate) fn reads(bytes: usize) -> bool {
    with_job(|job| job.hold(bytes.saturating_sub(READ_AHEAD_BYTES)))
}

/// The job of this thread is about to write a value.
pub(crate) fn writes(value_bytes: usize) {
    with_job(|job| {
        job.hold(value_bytes);
        job.charge.step();
    });
}

fn with_job(work: impl FnOnce(&mut Job)) -> bool {
    // Taken out meanwhile, because it may wait.
    let Some(mut job) = JOB.take() else { return false };
    work(&mut job);
    JOB.set(Some(job));
    true
}

impl Job {
    fn hold(&mut self, value_bytes: usize) {
        if value_bytes < LARGE_BYTES || value_bytes <= self.value_bytes {
            return;
        }
        // It does not wait once it holds values.
        let waits = self.waits && self.value_bytes == 0;
        self.value_bytes = value_bytes;
        self.charge.cover(self.copies.saturating_mul(value_bytes as u64), waits);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    type Calls = Arc<Mutex<Vec<String>>>;

    #[derive(Debug, Default)]
    struct Account(Calls);

    struct Noted(Calls);

    impl WorkMemory for Account {
        fn begin(&self) -> Box<dyn WorkCharge> {
            Box::new(Noted(Arc::clone(&self.0)))
        }

        fn stop(&self) {}

        fn press(&self, _presses: bool) {}
    }

    impl WorkCharge for Noted {
        fn cover(&mut self, bytes: u64, waits: bool) {
            self.0.lock().push(format!("{} MB{}", bytes >> 20, if waits { ", waits" } else { "" }));
        }

        fn step(&mut self) {
            self.0.lock().push("step".to_owned());
        }
    }

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.lock().push("end".to_owned());
        }
    }

    #[test]
    fn a_job_counts_its_largest_value_once_and_waits_once() {
        const MIB: usize = 1 << 20;
        let calls = Calls::default();
        let memory: Arc<dyn WorkMemory> = Arc::new(Account(Arc::clone(&calls)));
        let seen = || std::mem::take(&mut *calls.lock());
        assert!(!reads(100 * MIB), "no job");
        writes(100 * MIB);
        begin_compaction(Some(&memory));
        assert!(reads(2 * MIB + 16384));
        assert!(reads(4 * MIB) && reads(4 * MIB) && reads(3 * MIB));
        assert_eq!(seen(), ["10 MB, waits"]);
        writes(3 * MIB);
        writes(3 * MIB);
        assert_eq!(seen(), ["15 MB", "step", "step"]);
        begin_flush(Some(&memory));
        writes(5 * MIB);
        assert!(end() && !end());
        assert_eq!(seen(), ["end", "10 MB", "step", "end"]);
        begin_flush(None);
        assert!(!reads(5 * MIB));
        assert!(seen().is_empty());
    }
}
