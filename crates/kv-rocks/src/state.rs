//! Snapshots, and the exact stamp of each.
//!
//! RocksDB numbers entries, not commits: a snapshot knows the sequence number up to which it reads. The holder of
//! the commit lock publishes numbers before and after it writes, and from these a reader derives the newest commit
//! of its snapshot:
//!
//! ```text
//!   commit lock's holder:  sequence = 70, written = 12 | RocksDB writes entries 71..=75 | newest = 12
//!   newest   11 ............................................................................... 12
//!   a snapshot at sequence 70 taken meanwhile has commits up to 11, one at sequence 75 up to 12
//! ```
//!
//! A batch becomes visible atomically, so a snapshot has none or all of it. Readers take no lock: if a number was
//! published while they took the snapshot, they take another one. Only ingested files (`Db::ingest`) advance the
//! sequence number without the commit lock. So during an ingestion readers take the lock, and also after it, until the
//! batch is written that waited for it: the sequence number is greater than before the batch, and does not have it.

use std::sync::Arc;

use nagi_kv::{Active, CommitStamp, Cursor, Read, Result, Snapshot, Space};

use crate::{
    db::{RocksCursor, SnapshotHandle},
    engine::Core,
};

/// Attempts to take a snapshot without the commit lock before one is taken with it.
const ATTEMPTS_MAX: usize = 8;

/// What a reader found published.
#[derive(PartialEq, Eq)]
struct Seen {
    newest: u64,
    /// The last stamp of the batch that is being written, or of the last one.
    written: u64,
    /// The sequence number before that batch.
    sequence: u64,
    /// Number of ingestions that had ended before that number was read.
    ingests_before: u64,
    /// Number of ingestions that have begun.
    ingests: u64,
}

impl Seen {
    fn now(active: &Active, ingests: u64) -> Seen {
        let (newest, writing) = (active.newest(), active.writing());
        Seen {
            newest,
            written: writing.last(),
            sequence: writing.before(),
            ingests_before: writing.loads(),
            ingests,
        }
    }

    /// Returns the newest stamp of a snapshot at a sequence number; none if an ingestion hides it.
    fn stamp_at(&self, sequence: u64) -> Option<u64> {
        if self.written == self.newest {
            return Some(self.written);
        }
        let has_batch = sequence > self.sequence;
        (self.ingests_before == self.ingests).then_some(if has_batch {
            self.written
        } else {
            self.newest
        })
    }
}

/// One state of the store.
pub(crate) struct State {
    core: Arc<Core>,
    snapshot: Arc<SnapshotHandle>,
    stamp: u64,
}

impl State {
    pub(crate) fn new(core: &Arc<Core>) -> State {
        let (snapshot, stamp) = taken(core);
        State { core: Arc::clone(core), snapshot: Arc::new(snapshot), stamp }
    }
}

/// Takes a snapshot and determines the stamp of its newest commit.
fn taken(core: &Core) -> (SnapshotHandle, u64) {
    for _ in 0..ATTEMPTS_MAX {
        let (begun, ended) = core.db.ingests();
        if begun != ended {
            break;
        }
        let before = Seen::now(&core.ledger.active, begun);
        let snapshot = SnapshotHandle::new(&core.db);
        let after = Seen::now(&core.ledger.active, core.db.ingests().0);
        if before != after {
            continue;
        }
        match before.stamp_at(snapshot.sequence()) {
            Some(stamp) => return (snapshot, stamp),
            None => break,
        }
    }
    let _nobody_writes = core.commit.lock();
    (SnapshotHandle::new(&core.db), core.ledger.active.newest())
}

impl Read for State {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let found = self.snapshot.db().get(Some(&self.snapshot), space, key, buf)?;
        Ok(found.then_some(buf.as_slice()))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.snapshot.db().get_many(Some(&self.snapshot), space, keys, visit)
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        Ok(Box::new(RocksCursor::new(&self.core.db, Some(&self.snapshot), space, start, end)))
    }
}

impl Snapshot for State {
    fn stamp(&self) -> CommitStamp {
        CommitStamp(self.stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ingestion_before_a_batch_is_written_does_not_count_as_the_batch() {
        // The batch waits for an ingestion, which takes the sequence number 71.
        let seen = Seen { newest: 11, written: 12, sequence: 70, ingests_before: 3, ingests: 3 };
        assert_eq!((seen.stamp_at(70), seen.stamp_at(75)), (Some(11), Some(12)));
        let seen = Seen { ingests: 4, ..seen };
        assert_eq!(seen.stamp_at(71), None);
        let written = Seen { newest: 12, ..seen };
        assert_eq!(written.stamp_at(76), Some(12));
    }
}
