//! What the collection of pre-images shows: the log, and how old its images may be.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use super::CollectionState;
use crate::clock;

/// How long pre-images are kept after their changes, in seconds; 0 for as long as the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImageAge(Arc<AtomicU64>);

impl ImageAge {
    pub(crate) fn set(&self, seconds: u64) {
        self.0.store(seconds, SeqCst);
    }

    /// True if readers are shown the image of a change of this time on the clock.
    pub(crate) fn keeps(&self, wall_ms: i64) -> bool {
        let seconds = self.0.load(SeqCst);
        let age = clock::now_ms().saturating_sub(wall_ms).max(0) as u64;
        seconds == 0 || age <= seconds.saturating_mul(1000)
    }
}

/// What the collection shows.
#[derive(Clone)]
pub(crate) struct ImageSource {
    pub(crate) log: Arc<CollectionState>,
    pub(crate) age: ImageAge,
}
