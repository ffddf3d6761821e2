//! State of a collection that every core keeps for itself, so that requests on different cores write no common
//! cache line.
//!
//! A cell is one pair of cache lines. It has what a request changes each time: the counts of the gate, the changes
//! of the collection's counters, and the core's own handle of the newest version, whose reference count only this
//! core changes.

use std::sync::{Arc, OnceLock};

use nagi_kv::sync::{
    Mutex,
    atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed},
};
use nagi_percore::PerCore;

use super::Collection;

/// Cells of a collection at most: a kibibyte for each collection in use. Further cores share them.
const CELLS_MAX: usize = 8;

/// One core's part.
#[derive(Default)]
pub(crate) struct Cell {
    /// Writers inside the gate, by the parity of the epoch.
    pub(super) inside: [AtomicUsize; 2],
    /// Changes of the number of documents and of the sum of their sizes.
    count: AtomicI64,
    bytes: AtomicI64,
    /// A handle of the newest version; none before the first use, and after a newer version was published.
    handle: Mutex<Option<Arc<Collection>>>,
}

/// The cells; none are allocated before the first use, as most collections of a large catalog are idle.
#[derive(Default)]
pub(crate) struct Cells(OnceLock<PerCore<Cell>>);

impl Cells {
    fn all(&self) -> &PerCore<Cell> {
        self.0.get_or_init(|| PerCore::at_most(CELLS_MAX, |_| Cell::default()))
    }

    pub(super) fn of(&self, core: usize) -> &Cell {
        self.all().of(core)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.0.get().into_iter().flat_map(PerCore::iter)
    }

    /// Adds to the counters of documents and bytes.
    pub(super) fn add(&self, count: i64, bytes: i64) {
        let own = self.all().own();
        own.count.fetch_add(count, Relaxed);
        own.bytes.fetch_add(bytes, Relaxed);
    }

    /// What was added on all cores: documents and bytes.
    pub(super) fn sums(&self) -> (i64, i64) {
        let parts = self.iter().map(|cell| (cell.count.load(Relaxed), cell.bytes.load(Relaxed)));
        parts.fold((0, 0), |(count, bytes), part| (count + part.0, bytes + part.1))
    }

    /// A handle of `version` whose reference count no other core writes. `is_newest` is called under the lock that
    /// [`Cells::forget`] takes: the core keeps no handle of a version that was replaced.
    pub(super) fn handle(
        &self,
        version: &Collection,
        is_newest: impl FnOnce() -> bool,
    ) -> Arc<Collection> {
        let mut handle = self.all().own().handle.lock();
        match &*handle {
            Some(own) if own.is_same(version) => Arc::clone(own),
            _ => {
                let new = Arc::new(version.another());
                *handle = is_newest().then(|| Arc::clone(&new));
                new
            }
        }
    }

    /// Drops the cores' handles, after another version became the newest one.
    pub(super) fn forget(&self) {
        // Dropped outside of the lock: the last handle of a version frees it.
        self.iter().for_each(|cell| drop(cell.handle.lock().take()));
    }
}
