//! What the engine and the requests do, for the interfaces of this process that watch them.

use nagi_store::{DiskActivity, EngineEvent};

use crate::core::server::Server;
use crate::metrics::long_operations::LongOperation;

impl Server {
    /// The engine's newest events after the one with this number, at most some hundred.
    pub fn engine_events_after(&self, number: u64) -> Vec<EngineEvent> {
        self.store.engine().events_after(number)
    }

    /// The newest operations that took 98 ms or more, after the one with this number, at most some hundred.
    pub fn long_operations_after(&self, number: u64) -> Vec<LongOperation> {
        self.metrics.long_operations.after(number)
    }

    /// Where reads and writes of files have landed since the previous call; `None` if the engine does not tell. For one
    /// caller, about once a second.
    pub fn disk_activity(&self) -> Option<DiskActivity> {
        self.store.engine().disk_activity()
    }
}
