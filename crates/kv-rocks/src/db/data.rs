//! What is known of the amount of data, which determines what is put into the cache.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Release},
};

#[derive(Default)]
pub(crate) struct Data {
    bytes: AtomicU64,
    fits: AtomicBool,
}

impl Data {
    /// `bytes`: uncompressed, of the data that clients read repeatedly. `fits`: all of it fits into the cache. Then
    /// scans may add their blocks to it, whatever their size.
    pub(crate) fn set(&self, bytes: u64, fits: bool) {
        self.bytes.store(bytes, Release);
        self.fits.store(fits, Release);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Acquire)
    }

    pub(crate) fn fits(&self) -> bool {
        self.fits.load(Acquire)
    }
}
