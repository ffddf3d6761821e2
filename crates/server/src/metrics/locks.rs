//! Lock statistics under MongoDB's names.
//!
//! Reads take no locks: they see a snapshot. A writing command takes the global lock in mode `w`, so that `fsync:
//! {lock: true}` (mode `W`) can block writes. Each of its store transactions passes the collection's gate, so that a
//! drop or rename waits for it.

use nagi_bson::DocWriter;

use crate::metrics::Counter;

/// A mode of the global lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// That of a write.
    Intent,
    /// That of `fsync: {lock: true}`.
    Exclusive,
}

impl LockMode {
    fn name(self) -> &'static str {
        match self {
            LockMode::Intent => "w",
            LockMode::Exclusive => "W",
        }
    }
}

/// How often a lock was taken in one mode, and the number and the time of waits for it.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    count: u64,
    wait_count: u64,
    wait_micros: u64,
}

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
        used.write_with(Taken { count: exclusive_count, ..Taken::default() }, out);
    }
}

/// Appends a lock: how often it was taken by mode, and the number and the time of waits.
fn write_lock(name: &str, modes: &[(&str, Taken)], out: &mut DocWriter<'_>) {
    let used = || modes.iter().filter(|(_, taken)| taken.count > 0);
    if used().next().is_none() {
        return;
    }
    let waited = || used().filter(|(_, taken)| taken.wait_count > 0);
    out.doc(name, |lock| {
        lock.doc("acquireCount", |w| used().for_each(|(mode, t)| w.put(mode, t.count as i64)));
        if waited().next().is_some() {
            lock.doc("acquireWaitCount", |w| {
                waited().for_each(|(mode, taken)| w.put(mode, taken.wait_count as i64));
            });
            lock.doc("timeAcquiringMicros", |w| {
                waited().for_each(|(mode, taken)| w.put(mode, taken.wait_micros as i64));
            });
        }
    });
}

impl LockUse {
    /// Appends the fields of `locks` in the log and in profiles.
    pub(crate) fn write(&self, out: &mut DocWriter<'_>) {
        self.write_with(Taken::default(), out);
    }

    /// Appends the same for an operation that waits for the global lock now, since `micros`. As in MongoDB, the lock
    /// counts from the beginning of the wait.
    pub(crate) fn write_awaiting(&self, mode: LockMode, micros: u64, out: &mut DocWriter<'_>) {
        match mode {
            LockMode::Exclusive => {
                self.write_with(Taken { count: 1, wait_count: 1, wait_micros: micros }, out);
            }
            LockMode::Intent => LockUse {
                global_count: self.global_count + 1,
                wait_count: self.wait_count + 1,
                wait_micros: self.wait_micros + micros,
                ..*self
            }
            .write(out),
        }
    }

    /// Appends the field of `locks` in currentOp of an operation that waits: it holds no other lock meanwhile.
    pub(crate) fn write_awaited(mode: LockMode, out: &mut DocWriter<'_>) {
        out.put("Global", mode.name());
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

    fn write_with(&self, exclusive: Taken, out: &mut DocWriter<'_>) {
        let (wait_count, wait_micros) = (self.wait_count, self.wait_micros);
        let own = Taken { count: self.global_count, wait_count, wait_micros };
        let modes = [(LockMode::Intent, own), (LockMode::Exclusive, exclusive)];
        write_lock("Global", &modes.map(|(mode, taken)| (mode.name(), taken)), out);
        let gate = Taken { count: self.collection_count, ..Taken::default() };
        write_lock("Collection", &[(LockMode::Intent.name(), gate)], out);
    }
}
