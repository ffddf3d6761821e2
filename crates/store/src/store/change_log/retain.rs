//! Removes the oldest entries of the log: beyond its size, and not before they have a certain age.

use std::sync::atomic::Ordering::Relaxed;

use nagi_error::Result;
use nagi_kv::{CommitStamp, Space, log_key};

use super::{first_of, read::LogReader};
use crate::{Collection, Store, engine_error::engine};

/// A pass removes at most so many bytes, so that it takes milliseconds.
const PASS_BYTES_MAX: i64 = 64 << 20;
/// The log may exceed its size by this part before a pass begins: ranges that are removed should not be tiny.
const EXCESS_PART: i64 = 64;

/// What a pass has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trimmed {
    pub documents: i64,
    pub bytes: i64,
    /// All entries up to this stamp are gone.
    pub up_to: CommitStamp,
}

impl Store {
    /// Removes the oldest entries if the log exceeds the size of the collection that shows it. Entries since
    /// `kept_since` stay. Returns `None` if there is nothing to remove. `go_on` is called for each document read.
    pub fn trim_change_log(
        &self,
        kept_since: CommitStamp,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<Trimmed>> {
        let Some(shown) = self.log_shown.load_full() else { return Ok(None) };
        let most = shown.options.capped_bytes_max();
        let excess = shown.state.counters().1 - most;
        if excess <= most / EXCESS_PART {
            return Ok(None);
        }
        let mut trimmed = Trimmed { documents: 0, bytes: 0, up_to: CommitStamp(0) };
        let snapshot = self.engine.snapshot().map_err(engine)?;
        let mut doc = Vec::new();
        let mut log = LogReader::open(&*snapshot, false, first_of(&shown))?;
        // The newest entry always stays: readers continue from it.
        let newest = if log.advance(&mut doc)? { log.stamp } else { 0 };
        let mut log = LogReader::open(&*snapshot, true, first_of(&shown))?;
        while trimmed.bytes < excess.min(PASS_BYTES_MAX) && log.advance(&mut doc)? {
            go_on()?;
            if log.stamp >= kept_since.0.min(newest) {
                break;
            }
            trimmed.documents += 1;
            trimmed.bytes += log.entry_bytes();
            trimmed.up_to = CommitStamp(log.stamp);
        }
        if trimmed.documents == 0 {
            return Ok(None);
        }
        self.remove_up_to(&shown, trimmed)?;
        Ok(Some(trimmed))
    }

    fn remove_up_to(&self, shown: &Collection, trimmed: Trimmed) -> Result<()> {
        let first = trimmed.up_to.0 + 1;
        let (start, end) = (log_key(0, 0), log_key(first, 0));
        // Readers that begin do not step over what is removed.
        let begin = &shown.state.first_record;
        begin.fetch_max(first as i64, Relaxed);
        self.engine.drop_range(Space::Changes, &start, &end).map_err(engine)?;
        self.count_trimmed(shown, trimmed)
    }
}
