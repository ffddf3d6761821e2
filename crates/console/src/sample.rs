//! What is read each second.

use crate::latencies::Ended;

/// The time between two samples.
pub(crate) const EVERY_MS: i64 = 1000;

/// What was read at one time.
pub(crate) struct Sample {
    pub(crate) at_ms: i64,
    /// In the order of [`crate::figures::FIGURES`].
    pub(crate) values: Box<[f64]>,
    /// Operations that ended since the previous sample.
    pub(crate) ended: Ended,
}
