//! How many bytes of the cache belong to each table file.

mod ffi;

pub(super) use ffi::Census;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use nagi_kv::{Result, Space};
use parking_lot::Mutex;

use super::Db;

/// A census is used again for this many times its duration, so that requests for many collections in a row take a
/// twentieth of one processor for it at most.
const REUSE: u32 = 20;

/// The newest census.
#[derive(Default)]
pub(super) struct LastCensus(Mutex<Option<Kept>>);

struct Kept {
    census: Arc<Census>,
    made: Instant,
    took: Duration,
}

impl Db {
    /// Counts the cache's uncompressed blocks by file, unless that was done a moment ago. Visits every block: about ten
    /// milliseconds for a gigabyte.
    fn census(&self) -> Arc<Census> {
        let mut last = self.last_census.0.lock();
        if let Some(kept) = last.as_ref().filter(|kept| kept.made.elapsed() < kept.took * REUSE) {
            return Arc::clone(&kept.census);
        }
        let begin = Instant::now();
        let census = Arc::new(Census::take(self));
        let took = begin.elapsed();
        *last = Some(Kept { census: Arc::clone(&census), made: Instant::now(), took });
        census
    }

    /// The bytes in the cache of each table that has keys of the range, by its name.
    ///
    /// # Errors
    /// `Io` if the properties of a table cannot be read.
    pub(crate) fn cached_tables(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Result<HashMap<String, u64>> {
        self.census().tables(self, space, start, end)
    }
}
