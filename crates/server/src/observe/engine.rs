//! What the engine does, for the interfaces of this process that watch it.

use nagi_store::{DiskActivity, EngineEvent};

use crate::core::server::Server;

impl Server {
    /// The engine's newest events after the one with this number, at most some hundred.
    pub fn engine_events_after(&self, number: u64) -> Vec<EngineEvent> {
        self.store.engine().events_after(number)
    }

    /// Where reads and writes of files have landed since the previous call; `None` if the engine does not tell. For one
    /// caller, about once a second.
    pub fn disk_activity(&self) -> Option<DiskActivity> {
        self.store.engine().disk_activity()
    }
}
