//! Quarantine of spaces whose compactions met damage: failures are logged and counted, and not retried.
//!
//! A compaction that reads a damaged block fails and changes nothing. RocksDB would retry it every second, forever,
//! because the same files stay the best choice. So automatic compactions of the space are suspended until the next
//! start, while writes continue. Meanwhile level-0 files accumulate, and reads of the space have to search more of
//! them. `--repair` repairs the space.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use nagi_kv::Space;
use parking_lot::Mutex;

use crate::{
    WorkMemory, damage, db::Db, events::Events, flushes::Flushes, large_flushes::LargeFlushes,
};

/// Damage that compactions of an open database met, and its work in the background: what its listener hears.
#[derive(Default)]
pub(crate) struct Damaged {
    failures: AtomicU64,
    pub(crate) flushes: Flushes,
    pub(crate) events: Events,
    pub(crate) large_flushes: LargeFlushes,
    /// Accounts for the memory of that work.
    pub(crate) work_memory: Option<Arc<dyn WorkMemory>>,
    /// One bit per space, by number.
    met: AtomicU32,
    resting: AtomicU32,
    last: Mutex<String>,
    /// The database is to be closed: compactions end.
    pub(crate) closing: AtomicBool,
}

fn bit(space: Space) -> u32 {
    1 << space as u32
}

impl Damaged {
    /// Records that a compaction of the space failed.
    pub(crate) fn met(&self, space: Space, text: &str) {
        let text = damage::explained(text.to_owned());
        damage::note(&text);
        *self.last.lock() = text;
        self.met.fetch_or(bit(space), Relaxed);
        self.failures.fetch_add(1, Relaxed);
    }

    /// Flushes and compactions wait for memory no more, because the database is about to be closed.
    pub(crate) fn stop_waits(&self) {
        if let Some(memory) = &self.work_memory {
            memory.stop();
        }
    }

    /// Number of failed compactions.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// The error of the last failed compaction.
    pub(crate) fn last(&self) -> String {
        self.last.lock().clone()
    }

    pub(crate) fn rests(&self, space: Space) -> bool {
        self.resting.load(Relaxed) & bit(space) != 0
    }

    pub(crate) fn resting_count(&self) -> u64 {
        self.resting.load(Relaxed).count_ones().into()
    }

    /// Suspends compactions of the spaces in which damage was met since the last call.
    pub(crate) fn settle(&self, db: &Db) {
        let fresh = self.met.load(Relaxed) & !self.resting.load(Relaxed);
        for space in Space::ALL.into_iter().filter(|space| fresh & bit(*space) != 0) {
            match db.rest(space) {
                Ok(()) => {
                    self.resting.fetch_or(bit(space), Relaxed);
                    log::error!(target: "STORAGE", id = 7_702_061, space = space.name(),
                        error = self.last().as_str(); "Compaction found damage. Writes continue; \
                        this key space is not compacted until --repair has run");
                }
                Err(error) => {
                    log::warn!(target: "STORAGE", id = 7_702_062, space = space.name(),
                        error:% = error; "The compactions of a damaged key space cannot be stopped");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_the_last_one_is_known() {
        let damaged = Damaged::default();
        assert_eq!((damaged.failures(), damaged.rests(Space::Records)), (0, false));
        damaged.met(Space::Records, "Corruption: first");
        damaged.met(Space::Index, "Corruption: second");
        assert_eq!((damaged.failures(), damaged.last().as_str()), (2, "Corruption: second"));
        assert_eq!(damaged.resting_count(), 0, "nobody has settled it");
    }
}
