//! Counters of bulk builds, for `serverStatus`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The counters of one store since its start.
#[derive(Default)]
pub(crate) struct BulkTotals {
    indexes: AtomicU64,
    sorted_keys: AtomicU64,
    sorted_bytes: AtomicU64,
    spills_opened: AtomicU64,
    spills_closed: AtomicU64,
    spilled_runs: AtomicU64,
    spilled_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

/// Bulk builds of indexes since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkBuildFigures {
    /// Indexes whose keys were sorted.
    pub indexes: u64,
    pub sorted_keys: u64,
    /// Memory of the sorted keys.
    pub sorted_bytes: u64,
    /// Sorts that needed space on disk, and those of them that have released it.
    pub spills_opened: u64,
    pub spills_closed: u64,
    /// Sorted runs on disk, their bytes in memory, and their bytes as they were written.
    pub spilled_runs: u64,
    pub spilled_bytes: u64,
    pub written_bytes: u64,
}

impl BulkTotals {
    pub(crate) fn add_sorted(&self, keys: u64, bytes: u64) {
        self.indexes.fetch_add(1, Relaxed);
        self.sorted_keys.fetch_add(keys, Relaxed);
        self.sorted_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a sort that needs space on disk, until the returned value is dropped.
    pub(crate) fn open_spill(self: &Arc<BulkTotals>) -> OpenSpill {
        self.spills_opened.fetch_add(1, Relaxed);
        OpenSpill(Arc::clone(self))
    }

    pub(crate) fn add_run(&self, bytes: u64, written: u64) {
        self.spilled_runs.fetch_add(1, Relaxed);
        self.spilled_bytes.fetch_add(bytes, Relaxed);
        self.written_bytes.fetch_add(written, Relaxed);
    }

    pub(crate) fn figures(&self) -> BulkBuildFigures {
        let figure = |one: &AtomicU64| one.load(Relaxed);
        BulkBuildFigures {
            indexes: figure(&self.indexes),
            sorted_keys: figure(&self.sorted_keys),
            sorted_bytes: figure(&self.sorted_bytes),
            spills_opened: figure(&self.spills_opened),
            spills_closed: figure(&self.spills_closed),
            spilled_runs: figure(&self.spilled_runs),
            spilled_bytes: figure(&self.spilled_bytes),
            written_bytes: figure(&self.written_bytes),
        }
    }
}

/// A sort that has space on disk.
pub(crate) struct OpenSpill(Arc<BulkTotals>);

impl Drop for OpenSpill {
    fn drop(&mut self) {
        self.0.spills_closed.fetch_add(1, Relaxed);
    }
}
