//! The cluster time of a member of a replica set, or of a router: `$clusterTime` and `operationTime`.
//!
//! A time is a Timestamp: seconds since 1970 in the upper half, a counter in the lower. The clock of a member is that
//! of the store (`nagi_kv::Clock`): each commit has its own time, in the order in which commits become visible, no
//! matter which command, job or stage made it.
//!
//! Clients gossip the greatest time they have seen (`$clusterTime`). A member adopts it, within limits, so that time
//! never goes backwards for a client that talks to several servers.
//!
//! The clock of a router is the oracle of its store, which all routers share: a time that a client brings has been read
//! from it, so each later commit has a greater one anyway. Nothing is adopted, and no client can set the clock forward.

use std::sync::Arc;

use nagi_error::{Code, Result, bail};
use nagi_store::{CommitStamp, Store};

use nagi_bson::{Binary, DocWriter, Value};

use crate::clock;
use crate::limits::{CLUSTER_TIME_DRIFT_SECONDS_MAX, ORACLE_WAIT_SECONDS_MAX};

/// See the module's header.
pub(crate) struct ClusterClock {
    store: Arc<Store>,
    /// The stamps of the store are an oracle's.
    is_of_oracle: bool,
}

impl ClusterClock {
    /// The clock of a member of a replica set.
    pub(super) fn new(store: Arc<Store>) -> ClusterClock {
        ClusterClock { store, is_of_oracle: false }
    }

    /// The clock of a router.
    pub(crate) fn of_oracle(store: Arc<Store>) -> ClusterClock {
        ClusterClock { store, is_of_oracle: true }
    }

    /// `$clusterTime`: the greatest time that was seen. A router's is never ahead of the oracle.
    pub(crate) fn cluster(&self) -> u64 {
        match self.is_of_oracle {
            true => self.operation(),
            false => self.store.greatest_stamp().0,
        }
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
        if self.is_of_oracle {
            return Ok(());
        }
        self.check_drift(time)?;
        self.store.observe_stamp(CommitStamp(time))
    }

    /// Waits for `afterClusterTime`: on return every commit up to `time` is visible, and all later commits have greater
    /// times. Code 205 if it is too far ahead.
    pub(crate) fn advance_to(&self, time: u64) -> Result<()> {
        self.check_drift(time)?;
        self.store.advance_to(CommitStamp(time))
    }

    /// True if the store has snapshots at times of the past, whichever node has told them.
    pub(crate) fn has_past(&self) -> bool {
        self.is_of_oracle
    }

    /// Waits until reads see every commit up to `time` (`afterClusterTime`).
    ///
    /// # Errors
    /// 72 if the cluster time, including the `$clusterTime` of the same request, has not reached it.
    pub(crate) fn read_after(&self, time: u64) -> Result<()> {
        self.reach("afterClusterTime", time)
    }

    /// Waits until no later commit has a time up to `time` (`atClusterTime`).
    ///
    /// # Errors
    /// Those of [`ClusterClock::read_after`].
    pub(crate) fn read_at(&self, time: u64) -> Result<()> {
        self.reach("atClusterTime", time)
    }

    fn reach(&self, concern: &str, time: u64) -> Result<()> {
        let current = self.cluster();
        // Another router may have answered with a time that this one has not read yet; the oracle is not behind it.
        let most = match self.is_of_oracle {
            true => current.max(clock::wall_stamp()).saturating_add(ORACLE_WAIT_SECONDS_MAX << 32),
            false => current,
        };
        if time > most {
            let text = |time: u64| format!("Timestamp({}, {})", time >> 32, time & 0xFFFF_FFFF);
            bail!(
                Code::INVALID_OPTIONS,
                "readConcern {concern} value must not be greater than the current clusterTime. Requested \
                 clusterTime: {}; current clusterTime: {}",
                text(time),
                text(current)
            );
        }
        self.advance_to(time)
    }

    /// Writes the times at the end of every reply. `written` is the newest commit of the request.
    pub(crate) fn write_times(&self, written: Option<CommitStamp>, out: &mut DocWriter<'_>) {
        out.doc("$clusterTime", |w| {
            w.put("clusterTime", Value::Timestamp(self.cluster()));
            w.doc("signature", |w| {
                w.put("hash", Value::Binary(Binary { subtype: 0, bytes: &[0; 20] }));
                w.put("keyId", 0_i64);
            });
        });
        let time = written.map_or_else(|| self.operation(), |stamp| stamp.0);
        out.put("operationTime", Value::Timestamp(time));
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
    fn no_client_sets_the_clock_of_an_oracle() {
        let engine = Arc::new(nagi_kv::Minimal::new());
        let store = Store::open(engine, StoreOptions::default()).unwrap();
        let clock = ClusterClock::of_oracle(store);
        let before = clock.cluster();
        clock.observe(before + (1000 << 32)).unwrap();
        assert_eq!(clock.cluster(), before);
        assert_eq!(clock.read_after(before + (1000 << 32)).unwrap_err().code(), Code(72));
        let near = before + (2 << 32);
        clock.read_after(near).unwrap();
        assert!(clock.operation() >= near);
    }

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
