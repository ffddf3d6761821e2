//! Counts writes to cache lines that cores share, in builds with the feature `count-shared`.

/// Writes that were counted at one place of the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedWrites {
    /// Times that a cache line had to come to the writing core. Writes to one line within some hundred nanoseconds
    /// count once, for example taking and releasing a lock around a lookup.
    pub lines: u64,
    /// Atomic operations that wrote these lines: taking and releasing a lock are two.
    pub operations: u64,
}

/// Records that a request writes `_lines` shared cache lines by `_operations` atomic operations at this place of the
/// code: an atomic that others write, taking or releasing a lock, copying or dropping a reference. Does nothing in
/// ordinary builds.
#[inline(always)]
pub fn note_shared(_site: &'static str, _lines: u64, _operations: u64) {
    #[cfg(feature = "count-shared")]
    counted::note(_site, SharedWrites { lines: _lines, operations: _operations });
}

/// The recorded writes since the start, by place; empty in ordinary builds.
pub fn shared_writes() -> Vec<(&'static str, SharedWrites)> {
    #[cfg(feature = "count-shared")]
    return counted::all();
    #[cfg(not(feature = "count-shared"))]
    Vec::new()
}

#[cfg(feature = "count-shared")]
mod counted {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    use super::SharedWrites;

    static SITES: Mutex<BTreeMap<&'static str, SharedWrites>> = Mutex::new(BTreeMap::new());

    pub(super) fn note(site: &'static str, writes: SharedWrites) {
        let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sites.entry(site).or_default();
        sum.lines += writes.lines;
        sum.operations += writes.operations;
    }

    pub(super) fn all() -> Vec<(&'static str, SharedWrites)> {
        let sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
        sites.iter().map(|(site, writes)| (*site, *writes)).collect()
    }
}
