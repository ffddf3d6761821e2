//! What is known of the amount of data, which determines what is put into the cache and how much fits into it.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Release},
};

#[derive(Default)]
pub(crate) struct Data {
    bytes: AtomicU64,
    fits: AtomicBool,
    density_permille: AtomicU64,
}

impl Data {
    /// `bytes`: uncompressed, of the data that clients read repeatedly. `fits`: all of it fits into the cache. Then
    /// scans may add their blocks to it, whatever their size.
    pub(crate) fn set(&self, bytes: u64, fits: bool) {
        self.bytes.store(bytes, Release);
        self.fits.store(fits, Release);
    }

    /// Uncompressed bytes of blocks in each byte of the cache: more than 1 with a compressed tier.
    pub(crate) fn set_density(&self, density: f64) {
        self.density_permille.store((density * 1000.0) as u64, Release);
    }

    pub(crate) fn density(&self) -> f64 {
        match self.density_permille.load(Acquire) {
            0 => 1.0,
            permille => permille as f64 / 1000.0,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Acquire)
    }

    pub(crate) fn fits(&self) -> bool {
        self.fits.load(Acquire)
    }
}
