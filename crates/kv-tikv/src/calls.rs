//! Counters of what the engine asks of the cluster, by name; in `serverStatus` and in the tests of round trips.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$about:meta])* $variant:ident = $name:literal,)*) => {
        /// A counter, in the order of the names.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Count { $($(#[$about])* $variant,)* }

        const NAMES: &[&str] = &[$($name,)*];
    };
}

counters! {
    /// Requests for the values of several keys.
    BatchGet = "batch_gets",
    /// Bytes of keys and values that reads have returned.
    BytesRead = "bytes_read",
    /// Bytes of keys and values of commits.
    BytesWritten = "bytes_written",
    /// Attempts to advance the safe point that a service did not allow.
    CollectionHeld = "collections_held",
    /// Advances of the safe point of the cluster by this process.
    CollectionRun = "collections_run",
    /// Commits that were begun.
    Commit = "commits",
    /// Commits that failed because another transaction was first.
    Conflict = "conflicts",
    /// Requests for the value of one key.
    Get = "gets",
    /// Locks of transactions that began before the safe point, which were resolved before it was advanced.
    LockResolved = "locks_resolved",
    /// New connections to the placement drivers, after time-outs.
    Reconnect = "reconnects",
    /// Requests for the bounds of a region.
    Region = "region_lookups",
    /// Requests that were repeated because a store had too much to do.
    RetryBusy = "retries_busy",
    /// Requests that were repeated because of a broken connection.
    RetryConnection = "retries_connection",
    /// Requests that were repeated because of keys that an unfinished commit had locked.
    RetryLock = "retries_lock",
    /// Requests that were repeated because a region had moved, split or had no leader.
    RetryRegion = "retries_region",
    /// Requests that were repeated because there was no answer in time.
    RetryTimeout = "retries_timeout",
    /// Commits without reads that were repeated because another one was first.
    RetryWrite = "retries_write",
    /// Transactions that were rolled back because their commit failed.
    Rollback = "rollbacks",
    /// The safe point of the cluster, as far as this process knows it, in seconds since 1970 by the oracle's clock.
    SafePoint = "safe_point_seconds",
    /// Requests for a page of a range.
    Scan = "scans",
    /// Keys before which regions were to end.
    Split = "splits",
    /// Requests for a timestamp, except those between two phases of commits.
    Timestamp = "timestamps",
    /// Commits whose outcome is not known.
    Undetermined = "undetermined_commits",
}

/// All counters of an engine.
pub(crate) struct Calls([AtomicU64; NAMES.len()]);

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls([const { AtomicU64::new(0) }; NAMES.len()])
    }

    pub(crate) fn add(&self, count: Count, number: u64) {
        self.0[count as usize].fetch_add(number, Relaxed);
    }

    /// Sets one that is no sum.
    pub(crate) fn set(&self, count: Count, number: u64) {
        self.0[count as usize].store(number, Relaxed);
    }

    /// Names, sorted, and values.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        for (name, value) in NAMES.iter().zip(&self.0) {
            visit(name, i64::try_from(value.load(Relaxed)).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_counted() {
        assert!(NAMES.is_sorted());
        let calls = Calls::new();
        calls.add(Count::Timestamp, 3);
        calls.add(Count::BatchGet, 1);
        let mut seen = Vec::new();
        calls.visit(&mut |name, value| seen.extend((value > 0).then_some((name, value))));
        assert_eq!(seen, [("batch_gets", 1), ("timestamps", 3)]);
    }
}
