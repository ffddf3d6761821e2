//! Lock statistics under MongoDB's names.
//!
//! Reads take no locks: they see a snapshot. A writing command takes the global lock in mode `w`, so that `fsync:
//! {lock: true}` (mode `W`) can block writes. Each of its store transactions passes the collection's gate, so that a
//! drop or rename waits for it.

use nagi_bson::DocWriter;

use crate::metrics::Counter;

/// The locks that one request took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockUse {
    /// The number of times it took the global lock in mode `w`.
    pub(crate) global_count: u64,
    /// The number of times it had to wait for that lock, and the time in total.
    pub(crate) wait_count: u64,
    pub(crate) wait_micros: u64,
    /// The number of times it passed a collection's gate.
    pub(crate) collection_count: u64,
}

/// The sums over all requests.
#[derive(Default)]
pub(crate) struct LockCounters {
    pub(crate) global_count: Counter,
    pub(crate) wait_count: Counter,
    pub(crate) wait_micros: Counter,
    pub(crate) collection_count: Counter,
    /// The number of times that all writes were blocked.
    pub(crate) exclusive_count: Counter,
}

impl LockCounters {
    pub(crate) fn add(&self, locks: &LockUse) {
        if *locks == LockUse::default() {
            return;
        }
        self.global_count.add(locks.global_count);
        self.collection_count.add(locks.collection_count);
        if locks.wait_count > 0 {
            self.wait_count.add(locks.wait_count);
            self.wait_micros.add(locks.wait_micros);
        }
    }

    /// Appends the fields of `serverStatus.locks`. The global lock is always there: mongostat takes a server without
    /// one for a server of MongoDB 2, and shows a column of its locks.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        let used = LockUse {
            global_count: self.global_count.get() as u64,
            wait_count: self.wait_count.get() as u64,
            wait_micros: self.wait_micros.get() as u64,
            collection_count: self.collection_count.get() as u64,
        };
        let exclusive_count = self.exclusive_count.get() as u64;
        if used.global_count == 0 && exclusive_count == 0 {
            out.doc("Global", |lock| lock.doc("acquireCount", |counts| counts.put("w", 0_i64)));
        }
        used.write_with(exclusive_count, out);
    }
}

/// Appends a lock: how often it was taken by mode, and the number and the time of waits.
fn write_lock(name: &str, counts: &[(&str, u64)], waits: (u64, u64), out: &mut DocWriter<'_>) {
    let used = || counts.iter().filter(|(_, count)| *count > 0);
    if used().next().is_none() {
        return;
    }
    out.doc(name, |lock| {
        lock.doc("acquireCount", |w| used().for_each(|(mode, count)| w.put(mode, *count as i64)));
        if waits.0 > 0 {
            lock.doc("acquireWaitCount", |w| w.put("w", waits.0 as i64));
            lock.doc("timeAcquiringMicros", |w| w.put("w", waits.1 as i64));
        }
    });
}

impl LockUse {
    /// Appends the fields of `locks` in the log and in profiles.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        self.write_with(0, out);
    }

    /// Appends the fields of `locks` in currentOp: the modes of the locks.
    pub(crate) fn write_held(&self, out: &mut DocWriter<'_>) {
        for (name, count) in [("Global", self.global_count), ("Collection", self.collection_count)]
        {
            if count > 0 {
                out.put(name, "w");
            }
        }
    }

    fn write_with(&self, exclusive_count: u64, out: &mut DocWriter<'_>) {
        let counts = [("w", self.global_count), ("W", exclusive_count)];
        write_lock("Global", &counts, (self.wait_count, self.wait_micros), out);
        write_lock("Collection", &[("w", self.collection_count)], (0, 0), out);
    }
}
