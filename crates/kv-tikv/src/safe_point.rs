//! What this process knows of the safe point for garbage collection, and what it has done for it.

use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Instant,
};

use parking_lot::Mutex;

use crate::{driver::Tidb, options::Options};

/// See the module's header.
pub(crate) struct Garbage {
    /// The service of this prefix.
    pub(crate) service: String,
    safe_point: AtomicU64,
    /// One thread at a time.
    pub(crate) work: Mutex<Work>,
}

/// When things were done.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) looked: Option<Instant>,
    pub(crate) protected: Option<Instant>,
    pub(crate) tried: Option<Instant>,
    pub(crate) said: Option<Said>,
}

/// What was said in the log; not again until it changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Collects,
    LeftTo(Tidb),
    HeldBy(String),
}

impl Garbage {
    pub(crate) fn new(options: &Options) -> Garbage {
        let service = format!("nagi-{}", options.address.prefix);
        Garbage { service, safe_point: AtomicU64::new(0), work: Mutex::default() }
    }

    /// Versions that are needed to read at older timestamps may be gone, as far as this process knows.
    pub(crate) fn safe_point(&self) -> u64 {
        self.safe_point.load(SeqCst)
    }

    /// The cluster has this one, or a later one. Returns the latest that is known.
    pub(crate) fn advance(&self, safe_point: u64) -> u64 {
        self.safe_point.fetch_max(safe_point, SeqCst).max(safe_point)
    }
}
