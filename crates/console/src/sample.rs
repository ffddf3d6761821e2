//! What is read each second.

use nagi_server::wall_ms;
use rustix::time::{ClockId, clock_gettime};

use crate::latencies::Ended;

/// The time between two samples.
pub(crate) const EVERY_MS: i64 = 1000;

/// Milliseconds of a clock that is never set.
pub(crate) fn steady_ms() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// A point in time by two clocks. Times between two of them are those of the steady clock; the other one, which may be
/// set, is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Milliseconds since 1970.
    pub(crate) wall_ms: i64,
    pub(crate) steady_ms: i64,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment { wall_ms: wall_ms(), steady_ms: steady_ms() }
    }

    /// Milliseconds from an earlier moment to this one.
    pub(crate) fn since(self, earlier: Moment) -> i64 {
        self.steady_ms - earlier.steady_ms
    }
}

/// What was read at one time.
pub(crate) struct Sample {
    pub(crate) at_ms: i64,
    /// The same by a clock that is never set and also counts while the machine is suspended.
    pub(crate) steady_ms: i64,
    /// In the order of [`crate::figures::FIGURES`].
    pub(crate) values: Box<[f64]>,
    /// For how long the process did not run since the previous sample.
    pub(crate) paused_ms: i64,
    /// Operations that ended since the previous sample.
    pub(crate) ended: Ended,
}

impl Sample {
    pub(crate) fn moment(&self) -> Moment {
        Moment { wall_ms: self.at_ms, steady_ms: self.steady_ms }
    }
}
