//! What the engine and the requests do, for the interfaces of this process that watch them.

use nagi_store::{DiskActivity, EngineEvent};

use crate::core::server::Server;
use crate::metrics::long_operations::{Blocked, BlockedNow, LongOperation};

impl Server {
    /// The engine's newest events after the one with this number, at most some hundred.
    pub fn engine_events_after(&self, number: u64) -> Vec<EngineEvent> {
        self.store.engine().events_after(number)
    }

    /// The newest operations that took 98 ms or more, after the one with this number, at most some hundred.
    pub fn long_operations_after(&self, number: u64) -> Vec<LongOperation> {
        self.metrics.long_operations.after(number)
    }

    /// The operations that have been waiting for `least_us` or longer, by [`Blocked`]. Looks at each connection.
    pub fn blocked_now(&self, least_us: u64) -> [BlockedNow; Blocked::COUNT] {
        let mut all = [BlockedNow::default(); Blocked::COUNT];
        self.clients.ops.each(|op| {
            if let Some((what, micros)) = op.blocked().filter(|(_, micros)| *micros >= least_us) {
                let now = &mut all[what as usize];
                now.operations += 1;
                now.longest_us = now.longest_us.max(micros);
            }
        });
        all
    }

    /// Where reads and writes of files have landed since the previous call; `None` if the engine does not tell. For one
    /// caller, about once a second.
    pub fn disk_activity(&self) -> Option<DiskActivity> {
        self.store.engine().disk_activity()
    }
}
