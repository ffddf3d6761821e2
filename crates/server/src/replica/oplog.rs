//! The limits of the oplog: its size, and how long its entries are kept at least.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nagi_store::CommitStamp;

use crate::clock;

/// The limits that the server was started with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OplogLimits {
    /// The size of a new oplog.
    pub bytes_max: i64,
    /// Entries that are not older stay, also beyond the size; 0 sets no such limit.
    pub hours_min: f64,
}

/// MongoDB's least size.
pub(crate) const OPLOG_BYTES_MIN: i64 = 990 << 20;

impl Default for OplogLimits {
    fn default() -> OplogLimits {
        OplogLimits { bytes_max: OPLOG_BYTES_MIN, hours_min: 0.0 }
    }
}

/// The present limits.
pub(crate) struct Retention {
    pub(super) bytes_max: i64,
    /// The bits of the number of hours.
    hours_min: AtomicU64,
}

impl Retention {
    pub(super) fn new(limits: OplogLimits) -> Retention {
        let hours_min = AtomicU64::new(limits.hours_min.to_bits());
        Retention { bytes_max: limits.bytes_max, hours_min }
    }

    /// Sets how long entries are kept at least.
    pub(crate) fn keep_hours(&self, hours: f64) {
        self.hours_min.store(hours.to_bits(), Relaxed);
    }

    pub(crate) fn hours_min(&self) -> f64 {
        f64::from_bits(self.hours_min.load(Relaxed))
    }

    /// Entries since this stamp are kept.
    pub(crate) fn kept_since(&self) -> CommitStamp {
        let hours = self.hours_min();
        if hours <= 0.0 {
            return CommitStamp(u64::MAX);
        }
        let seconds = f64::from(clock::wall_seconds()) - hours * 3600.0;
        CommitStamp((seconds.max(0.0) as u64) << 32)
    }
}
