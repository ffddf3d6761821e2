//! What is read each second.

use rustix::time::{ClockId, clock_gettime};

use crate::latencies::Ended;

/// The time between two samples.
pub(crate) const EVERY_MS: i64 = 1000;

/// Milliseconds of a clock that is never set.
pub(crate) fn steady_ms() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// What was read at one time.
pub(crate) struct Sample {
    pub(crate) at_ms: i64,
    /// The same by a clock that is never set and also counts while the machine is suspended.
    pub(crate) steady_ms: i64,
    /// In the order of [`crate::figures::FIGURES`].
    pub(crate) values: Box<[f64]>,
    /// Operations that ended since the previous sample.
    pub(crate) ended: Ended,
}
