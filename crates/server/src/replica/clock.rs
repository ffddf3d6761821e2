//! The logical clock of a replica set member: what `$clusterTime` and `operationTime` say.
//!
//! A time is a Timestamp: seconds since 1970 in the upper half, a counter in the lower. Every commit
//! of the store takes the next one, whatever command, job or stage has made it. Clients hand around the
//! greatest one they have seen (`$clusterTime`); it is taken over, within limits, so that time never runs
//! backwards for a client.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use nagi_error::{Code, Result, bail};

use crate::clock;
use crate::limits::CLUSTER_TIME_DRIFT_SECONDS_MAX;

/// See the module's header.
pub(crate) struct ClusterClock {
    /// The greatest time seen.
    cluster: AtomicU64,
    /// The time of the newest write.
    operation: AtomicU64,
    /// When that was.
    written_ms: AtomicI64,
}

impl Default for ClusterClock {
    fn default() -> ClusterClock {
        // One second ahead: times given out by the process before, within this second, are past.
        let start = (u64::from(clock::wall_seconds()) + 1) << 32 | 1;
        ClusterClock {
            cluster: AtomicU64::new(start),
            operation: AtomicU64::new(start),
            written_ms: AtomicI64::new(clock::wall_ms()),
        }
    }
}

impl ClusterClock {
    /// Goes on from a time that an earlier process has kept.
    pub(super) fn start_at(&self, time: u64) {
        self.cluster.fetch_max(time, SeqCst);
        self.operation.fetch_max(time, SeqCst);
    }

    /// `$clusterTime`.
    pub(crate) fn cluster(&self) -> u64 {
        self.cluster.load(SeqCst)
    }

    /// `operationTime`: of the newest write.
    pub(crate) fn operation(&self) -> u64 {
        self.operation.load(SeqCst)
    }

    /// When the newest write was, milliseconds since 1970.
    pub(crate) fn written_ms(&self) -> i64 {
        self.written_ms.load(SeqCst)
    }

    /// A write has happened, or a state was taken: the next time.
    pub(crate) fn tick(&self) -> u64 {
        let now_ms = clock::wall_ms();
        let least = (now_ms / 1000).max(0) as u64;
        let next = |last: u64| Some((last + 1).max(least << 32 | 1));
        let last = self.cluster.try_update(SeqCst, SeqCst, next).unwrap_or_else(|last| last);
        let now = next(last).unwrap_or(last);
        self.operation.fetch_max(now, SeqCst);
        self.written_ms.fetch_max(now_ms, SeqCst);
        now
    }

    /// A client has seen `time`. Code 205 if it is too far ahead.
    pub(super) fn observe(&self, time: u64) -> Result<()> {
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
        self.cluster.fetch_max(time, SeqCst);
        Ok(())
    }

    /// `afterClusterTime`: everything up to `time` is here. We are all there is, so nothing is to be
    /// waited for; a time that nobody was given yet is taken as one that a write takes now.
    pub(super) fn advance_to(&self, time: u64) -> Result<()> {
        self.observe(time)?;
        self.operation.fetch_max(time, SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_only_grows_and_stays_near_the_wall() {
        let clock = ClusterClock::default();
        let (a, b) = (clock.tick(), clock.tick());
        assert!(b > a && clock.operation() == b && clock.cluster() == b);
        clock.observe(b + 5).unwrap();
        assert_eq!((clock.cluster(), clock.operation()), (b + 5, b));
        assert!(clock.tick() > b + 5);
        assert_eq!(clock.observe(u64::MAX).unwrap_err().code(), Code(205));
        let ahead = clock.cluster() + (10 << 32);
        clock.advance_to(ahead).unwrap();
        assert_eq!(clock.operation(), ahead);
    }
}
