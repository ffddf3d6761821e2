//! What all versions of a collection share: counters, the next record number, which version is the newest.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use nagi_kv::{
    Capabilities,
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
};

use super::bucket_facts::StoredFacts;
use super::{
    Arrivals, Collection,
    cells::Cells,
    gate::{Gate, Pass},
    images::ImageSource,
    numbers::Numbers,
};
use crate::annotations::Annotations;

/// See the module's header.
#[derive(Default)]
pub(crate) struct CollectionState {
    /// Documents and bytes of documents, without what the cells have added.
    count: AtomicI64,
    data_bytes: AtomicI64,
    /// The stored part of this node, without what the cells have added, if several nodes share the data.
    own_count: AtomicI64,
    own_bytes: AtomicI64,
    /// The next record id, if this process is the only writer; 0 until the first insert has looked for the last one in
    /// use. Always 0 over an engine to which other nodes write.
    pub(crate) next_record: AtomicI64,
    /// The record ids of this node, over such an engine.
    pub(crate) numbers: Mutex<Numbers>,
    /// The newest version; none once dropped.
    current: ArcSwapOption<Collection>,
    /// Records of a capped collection below this id are gone: where trimming begins to look.
    pub(crate) first_record: AtomicI64,
    /// For the collection of pre-images: what it shows.
    pub(crate) images: OnceLock<ImageSource>,
    /// Wakes tailable cursors.
    pub(crate) arrivals: Arc<Arrivals>,
    gate: Gate,
    cells: Cells,
    /// How many have frozen it: writers try again until none has, or the collection is gone.
    pub(crate) frozen: AtomicUsize,
    pub(crate) annotations: Annotations,
    /// The same for writes: which buckets of a time series are open.
    pub(crate) write_annotations: Annotations,
    /// For a collection of buckets.
    pub(crate) bucket_facts: StoredFacts,
}

impl CollectionState {
    /// Of a collection that was created this moment: the first insert has nothing to look for.
    pub(crate) fn of_nothing(promises: &Capabilities) -> CollectionState {
        let first = i64::from(promises.only_writer);
        CollectionState {
            next_record: AtomicI64::new(first),
            numbers: Mutex::new(Numbers::of_nothing()),
            ..CollectionState::default()
        }
    }

    /// Of a stored collection, with its number of documents and the sum of their sizes.
    pub(crate) fn stored(
        count: i64,
        data_bytes: i64,
        bucket_facts: StoredFacts,
    ) -> CollectionState {
        let (count, data_bytes) = (AtomicI64::new(count), AtomicI64::new(data_bytes));
        CollectionState { count, data_bytes, bucket_facts, ..CollectionState::default() }
    }

    /// Number of documents and sum of their sizes, exact as of the newest commit.
    pub(crate) fn counters(&self) -> (i64, i64) {
        let (count, bytes) = self.cells.sums();
        (self.count.load(Relaxed) + count, self.data_bytes.load(Relaxed) + bytes)
    }

    /// Follows a change of the stored counters.
    pub(crate) fn add_to_counters(&self, count: i64, bytes: i64) {
        self.cells.add(count, bytes);
    }

    /// Takes over counters as they are stored.
    pub(crate) fn set_counters(&self, count: i64, data_bytes: i64) {
        let (added, added_bytes) = self.cells.sums();
        self.count.store(count - added, Relaxed);
        self.data_bytes.store(data_bytes - added_bytes, Relaxed);
    }

    /// Takes over counters of which each node has a part: `own` is the stored part of this node at a moment when it
    /// wrote nothing, which is kept unless given.
    pub(crate) fn set_parts(&self, own: Option<(i64, i64)>, others: (i64, i64)) {
        if let Some(own) = own {
            let (added, added_bytes) = self.cells.sums();
            self.own_count.store(own.0 - added, Relaxed);
            self.own_bytes.store(own.1 - added_bytes, Relaxed);
        }
        self.count.store(others.0 + self.own_count.load(Relaxed), Relaxed);
        self.data_bytes.store(others.1 + self.own_bytes.load(Relaxed), Relaxed);
    }

    /// The newest version; none once dropped. Writes no cache line that cores share.
    pub(crate) fn current(&self) -> Option<Arc<Collection>> {
        let current = self.current.load();
        current.as_ref().map(|newest| self.handle(newest))
    }

    /// The core's own handle of a version of this collection.
    pub(crate) fn handle(&self, version: &Collection) -> Arc<Collection> {
        self.cells.handle(version, || self.is_current(version))
    }

    pub(crate) fn is_current(&self, version: &Collection) -> bool {
        self.current.load().as_ref().is_some_and(|newest| newest.is_same(version))
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.current.load().is_none()
    }

    /// Publishes another version, or that the collection is dropped.
    pub(crate) fn set_current(&self, newest: Option<Arc<Collection>>) {
        self.current.store(newest);
        self.cells.forget();
    }

    /// A writer enters; it leaves with the pass. See [`Gate`].
    pub(crate) fn enter(&self) -> Pass {
        self.gate.enter(&self.cells)
    }

    pub(crate) fn leave(&self, pass: &Pass) {
        self.gate.leave(&self.cells, pass);
    }

    /// True if no writer is inside. If it is frozen, none will be.
    pub(crate) fn is_left(&self) -> bool {
        self.gate.is_left(&self.cells)
    }

    /// Returns when every writer that was inside at the call has left.
    pub(crate) fn wait_for_earlier(&self) {
        self.gate.wait_for_earlier(&self.cells);
    }
}
