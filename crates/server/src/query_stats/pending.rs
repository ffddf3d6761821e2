//! The record of a query whose cursor is open: it is entered when the cursor is gone, whatever ended it.
//!
//! A change stream never ends, so each of its batches is an execution; its end is one, too, in no time.

use std::sync::Arc;

use super::{Observed, QueryStats};

/// The record; dropping it enters it.
pub(crate) struct Pending {
    stats: Arc<QueryStats>,
    key: Box<[u8]>,
    observed: Observed,
    is_change_stream: bool,
}

impl Pending {
    pub(super) fn new(
        stats: Arc<QueryStats>,
        key: Box<[u8]>,
        first: Observed,
        is_change_stream: bool,
    ) -> Box<Pending> {
        let mut pending = Box::new(Pending { stats, key, observed: first, is_change_stream });
        if is_change_stream {
            pending.enter();
        }
        pending
    }

    fn enter(&mut self) {
        let observed = std::mem::take(&mut self.observed);
        self.stats.observe(&self.key, &observed);
    }

    /// Adds a batch.
    pub(crate) fn add(&mut self, batch: &Observed) {
        if self.is_change_stream {
            self.observed = *batch;
            self.enter();
        } else {
            self.observed.add(batch);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.enter();
    }
}
