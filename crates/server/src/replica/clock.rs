//! The cluster time of a replica set member: `$clusterTime` and `operationTime`.
//!
//! A time is a Timestamp: seconds since 1970 in the upper half, a counter in the lower. The clock is that of the store
//! (`nagi_kv::Clock`): each commit has its own time, in the order in which commits become visible, no matter which
//! command, job or stage made it.
//!
//! Clients gossip the greatest time they have seen (`$clusterTime`). The server adopts it, within limits, so that time
//! never goes backwards for a client that talks to several servers.

use std::sync::Arc;

use nagi_error::{Code, Result, bail};
use nagi_store::{CommitStamp, Store};

use crate::clock;
use crate::limits::CLUSTER_TIME_DRIFT_SECONDS_MAX;

/// See the module's header.
pub(crate) struct ClusterClock {
    store: Arc<Store>,
}

impl ClusterClock {
    pub(super) fn new(store: Arc<Store>) -> ClusterClock {
        ClusterClock { store }
    }

    /// `$clusterTime`: the greatest time that was seen.
    pub(crate) fn cluster(&self) -> u64 {
        self.store.greatest_stamp().0
    }

    /// `operationTime` of a read: no commit visible to the read is later.
    pub(crate) fn operation(&self) -> u64 {
        self.store.last_stamp().0
    }

    /// The wall-clock time of the newest write, in milliseconds since 1970.
    pub(crate) fn written_ms(&self) -> i64 {
        self.store.committed_ms()
    }

    /// Adopts the time that a client has seen. Code 205 if it is too far ahead.
    pub(crate) fn observe(&self, time: u64) -> Result<()> {
        self.check_drift(time)?;
        self.store.observe_stamp(CommitStamp(time))
    }

    /// Waits for `afterClusterTime`: on return every commit up to `time` is visible, and all later commits have greater
    /// times. Code 205 if it is too far ahead.
    pub(crate) fn advance_to(&self, time: u64) -> Result<()> {
        self.check_drift(time)?;
        self.store.advance_to(CommitStamp(time))
    }

    fn check_drift(&self, time: u64) -> Result<()> {
        if time <= self.cluster() {
            return Ok(());
        }
        let seconds = i64::try_from(time >> 32).unwrap_or(i64::MAX);
        let ahead = seconds - i64::from(clock::wall_seconds());
        if ahead > CLUSTER_TIME_DRIFT_SECONDS_MAX || seconds > i64::from(i32::MAX) {
            bail!(
                Code::CLUSTER_TIME_FAILS_RATE_LIMITER,
                "New cluster time, {seconds}, is too far from this node's wall clock time, {}.",
                clock::wall_seconds()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nagi_kv::Memory;
    use nagi_store::StoreOptions;

    use super::*;

    #[test]
    fn time_only_grows_and_stays_near_the_wall() {
        let store = Store::open(Arc::new(Memory::new()), StoreOptions::default()).unwrap();
        let clock = ClusterClock::new(store);
        let b = clock.cluster() + 1;
        clock.advance_to(b).unwrap();
        assert!(clock.operation() == b && clock.cluster() == b);
        clock.observe(b + 5).unwrap();
        assert!(clock.cluster() == b + 5 && clock.operation() < b + 5);
        assert_eq!(clock.observe(u64::MAX).unwrap_err().code(), Code(205));
        let ahead = clock.cluster() + (10 << 32);
        clock.advance_to(ahead).unwrap();
        assert_eq!(clock.operation(), ahead);
    }
}
