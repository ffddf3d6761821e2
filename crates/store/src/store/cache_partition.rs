//! The cache partition at run time: the total size is set from outside; the boundary between documents and blocks
//! follows [`crate::partition_boundary`] in small steps.

use nagi_kv::reuse::CacheEstimate;
use parking_lot::Mutex;

use crate::{
    clock,
    partition_boundary::{FIRST_PERMILLE, Memory, PartitionBoundary, Seen},
    store::{Shared, Store},
};

/// Bytes moved per step: small, so that evicting them does not delay other threads.
const MOVED_BYTES_MAX: u64 = 16 << 20;

/// The initial sizes of the caches: blocks, whole documents.
pub fn first_partition(caches: u64) -> (u64, u64) {
    let records = caches / 1000 * u64::from(FIRST_PERMILLE);
    (caches - records, records)
}

pub(crate) struct CachePartition {
    state: Mutex<State>,
}

struct State {
    /// Size of both caches; 0 until it is set, and until then nothing is moved.
    bytes: u64,
    records: u64,
    boundary: PartitionBoundary,
}

impl CachePartition {
    pub(crate) fn new(records: u64) -> CachePartition {
        CachePartition {
            state: Mutex::new(State { bytes: 0, records, boundary: PartitionBoundary::new() }),
        }
    }
}

impl State {
    /// The target size of the record cache.
    fn wanted(&self) -> u64 {
        self.bytes / 1000 * u64::from(self.boundary.permille())
    }

    /// Moves the boundary towards its target.
    fn approach(&mut self, shared: &Shared) {
        let least = self.records.saturating_sub(MOVED_BYTES_MAX);
        // If the total shrinks at once, the record cache is limited too, so that blocks do not lose everything.
        let most = (self.records + MOVED_BYTES_MAX).min(self.bytes / 10 * 6);
        let records = self.wanted().max(least).min(most);
        let blocks = self.bytes - records;
        if records <= self.records {
            shared.set_record_cache(records);
            shared.engine.resize_cache(blocks);
        } else {
            shared.engine.resize_cache(blocks);
            shared.set_record_cache(records);
        }
        self.records = records;
    }
}

impl Shared {
    fn set_record_cache(&self, bytes: u64) {
        if let Some(cache) = &self.cache {
            cache.resize(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
    }
}

impl Store {
    /// Changes the total size of all caches while they are in use. Evicts the excess at once.
    pub fn resize_caches(&self, bytes: u64) {
        let mut state = self.cache_partition.state.lock();
        state.bytes = bytes;
        state.approach(&self.shared);
    }

    /// The reads by `_id` that the record cache answered, and those that went to the engine.
    pub fn record_cache_reads(&self) -> (u64, u64) {
        self.cache.as_ref().map_or((0, 0), |cache| cache.reads())
    }

    /// What a record cache of another size would do; `None` without one, or while too few reads are known.
    pub fn record_cache_estimate(&self) -> Option<CacheEstimate> {
        self.cache.as_ref()?.estimate()
    }

    /// Polls the cost of reads and moves the boundary between the caches. Called a few times per second, by a
    /// thread that may block for a few milliseconds.
    pub fn tune_caches(&self) {
        let Some(cache) = &self.cache else { return };
        let mut state = self.cache_partition.state.lock();
        if state.bytes == 0 {
            return;
        }
        let (hits, misses) = cache.reads();
        cache.reuse().set_reads(hits + misses);
        let seen = Seen { hits, misses, disk_reads: self.engine.blocks_read() };
        let memory = Memory { caches: state.bytes, data: self.engine.cached_data_bytes() };
        if state.boundary.look(seen, memory, clock::now_ms()) {
            log::debug!(target: "STORAGE", id = 7_702_019,
                documentsPermille = state.boundary.permille();
                "Changed the share of whole documents in the caches");
        }
        if state.wanted().abs_diff(state.records) > memory.caches / 1000 {
            state.approach(&self.shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole() {
        let (blocks, records) = first_partition(1 << 30);
        assert_eq!(blocks + records, 1 << 30);
        assert!(records > 100 << 20 && blocks > records);
    }
}
