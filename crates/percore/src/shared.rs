//! Counts writes to cache lines that cores share, in builds with the feature `count-shared`.

/// Records that a request writes `_writes` shared cache lines at this place of the code: an atomic that others
/// write, taking or releasing a lock, copying or dropping a reference. Does nothing in ordinary builds.
#[inline(always)]
pub fn note_shared(_site: &'static str, _writes: u64) {
    #[cfg(feature = "count-shared")]
    counted::note(_site, _writes);
}

/// The recorded writes since the start, by place; empty in ordinary builds.
pub fn shared_writes() -> Vec<(&'static str, u64)> {
    #[cfg(feature = "count-shared")]
    return counted::all();
    #[cfg(not(feature = "count-shared"))]
    Vec::new()
}

#[cfg(feature = "count-shared")]
mod counted {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    static SITES: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

    pub(super) fn note(site: &'static str, writes: u64) {
        *SITES.lock().unwrap_or_else(PoisonError::into_inner).entry(site).or_default() += writes;
    }

    pub(super) fn all() -> Vec<(&'static str, u64)> {
        let sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
        sites.iter().map(|(site, writes)| (*site, *writes)).collect()
    }
}
