//! Profiling levels by database, and the thresholds of the log of slow operations.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering::Relaxed};

use nagi_bson::DocBuf;
use nagi_lang::filter::Filter;
use parking_lot::RwLock;

/// The settings of the `profile` command.
pub(crate) struct Profiles {
    /// The level of databases that have none of their own (`operationProfiling.mode`).
    default_level: AtomicI32,
    /// Databases with a level other than the default.
    levels: RwLock<HashMap<String, i32>>,
    /// True if `levels` is not empty: the common case then costs one load.
    any: AtomicBool,
    slow_ms: AtomicI64,
    /// The fraction of slow operations that are logged, as the bits of an f64.
    sample_rate: AtomicU64,
    sample: AtomicU64,
    /// Filters that select which operations are profiled and logged instead of the thresholds, by database.
    filters: RwLock<HashMap<String, Arc<ProfileFilter>>>,
    any_filter: AtomicBool,
}

/// A filter on the documents that `system.profile` gets.
pub(crate) struct ProfileFilter {
    pub(crate) source: DocBuf,
    pub(crate) filter: Filter,
}

impl Default for Profiles {
    fn default() -> Profiles {
        Profiles {
            default_level: AtomicI32::new(0),
            levels: RwLock::default(),
            any: AtomicBool::new(false),
            slow_ms: AtomicI64::new(100),
            sample_rate: AtomicU64::new(1.0_f64.to_bits()),
            sample: AtomicU64::new(0x9E37_79B9_7F4A_7C15),
            filters: RwLock::default(),
            any_filter: AtomicBool::new(false),
        }
    }
}

impl Profiles {
    pub(crate) fn level(&self, db: &str) -> i32 {
        match self.any.load(Relaxed) {
            true => self.levels.read().get(db).copied().unwrap_or_else(|| self.default_level(db)),
            false => self.default_level(db),
        }
    }

    fn default_level(&self, db: &str) -> i32 {
        match self.default_level.load(Relaxed) {
            0 => 0,
            // The server's own databases are profiled on request only.
            _ if matches!(db, "admin" | "config" | "local") => 0,
            level => level,
        }
    }

    /// Sets the level of databases that have none of their own.
    pub(crate) fn set_default_level(&self, level: i32) {
        self.default_level.store(level, Relaxed);
    }

    pub(crate) fn set_level(&self, db: &str, level: i32) {
        let mut levels = self.levels.write();
        match level == self.default_level(db) {
            true => levels.remove(db),
            false => levels.insert(db.to_owned(), level),
        };
        self.any.store(!levels.is_empty(), Relaxed);
    }

    pub(crate) fn filter(&self, db: &str) -> Option<Arc<ProfileFilter>> {
        match self.any_filter.load(Relaxed) {
            true => self.filters.read().get(db).cloned(),
            false => None,
        }
    }

    pub(crate) fn set_filter(&self, db: &str, filter: Option<ProfileFilter>) {
        let mut filters = self.filters.write();
        match filter {
            None => filters.remove(db),
            Some(filter) => filters.insert(db.to_owned(), Arc::new(filter)),
        };
        self.any_filter.store(!filters.is_empty(), Relaxed);
    }

    pub(crate) fn slow_ms(&self) -> i64 {
        self.slow_ms.load(Relaxed)
    }

    pub(crate) fn set_slow_ms(&self, ms: i64) {
        self.slow_ms.store(ms, Relaxed);
    }

    pub(crate) fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate.load(Relaxed))
    }

    pub(crate) fn set_sample_rate(&self, rate: f64) {
        self.sample_rate.store(rate.clamp(0.0, 1.0).to_bits(), Relaxed);
    }

    /// Draws at random if this slow operation belongs to the sample.
    pub(crate) fn sampled(&self) -> bool {
        let rate = self.sample_rate();
        if rate >= 1.0 {
            return true;
        }
        let drawn = self.sample.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed);
        let mixed = (drawn ^ (drawn >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed >> 11) as f64 / (1u64 << 53) as f64) < rate
    }
}
