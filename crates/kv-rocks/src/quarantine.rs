//! Compactions that met damage: told, counted, and not tried again.
//!
//! A compaction that reads a damaged block fails and leaves everything as it was. RocksDB would try it
//! again each second, for ever, since the same files are always the best choice. So the space's automatic
//! compactions rest until the next start; its writes continue. Files of level 0 gather meanwhile, and reads of
//! the space have more of them to ask. `--repair` repairs it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use nagi_kv::Space;
use parking_lot::Mutex;

use crate::{damage, db::Db};

/// What compactions of an open database have met, and how many flushes it has finished.
#[derive(Default)]
pub(crate) struct Damaged {
    failures: AtomicU64,
    flushes: AtomicU64,
    /// A bit a space, by number.
    met: AtomicU32,
    resting: AtomicU32,
    last: Mutex<String>,
}

fn bit(space: Space) -> u32 {
    1 << space as u32
}

impl Damaged {
    /// A compaction of the space has failed.
    pub(crate) fn met(&self, space: Space, text: &str) {
        let text = damage::explained(text.to_owned());
        damage::note(&text);
        *self.last.lock() = text;
        self.met.fetch_or(bit(space), Relaxed);
        self.failures.fetch_add(1, Relaxed);
    }

    /// Compactions that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// A memtable has become a file.
    pub(crate) fn flushed(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Memtables that became files since the database was opened.
    pub(crate) fn flushes_finished(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// What the last one said.
    pub(crate) fn last(&self) -> String {
        self.last.lock().clone()
    }

    pub(crate) fn rests(&self, space: Space) -> bool {
        self.resting.load(Relaxed) & bit(space) != 0
    }

    pub(crate) fn resting_count(&self) -> u64 {
        self.resting.load(Relaxed).count_ones().into()
    }

    /// Lets the spaces rest in which damage was met since the last call.
    pub(crate) fn settle(&self, db: &Db) {
        let fresh = self.met.load(Relaxed) & !self.resting.load(Relaxed);
        for space in Space::ALL.into_iter().filter(|space| fresh & bit(*space) != 0) {
            match db.rest(space) {
                Ok(()) => {
                    self.resting.fetch_or(bit(space), Relaxed);
                    log::error!(target: "STORAGE", id = 7_702_061, space = space.name(),
                        error = self.last().as_str(); "A compaction met damage. Writes go on; this \
                        space is not compacted any more until --repair has mended it");
                }
                Err(error) => {
                    log::warn!(target: "STORAGE", id = 7_702_062, space = space.name(),
                        error:% = error; "The compactions of a damaged space cannot be stopped");
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
