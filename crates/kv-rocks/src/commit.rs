//! What one commit at a time does: hand out the stamp, sum up counters, write the batch.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_kv::{
    Result, Space, log_key,
    overlay::{Op, Overlay, Write, add_counters},
};

use crate::db::{Batch, Db};

const COUNTERS_MAX: usize = 100_000;

/// The state behind the commit lock.
#[derive(Default)]
pub(crate) struct Committer {
    /// Newest sum of every counter added to lately; the database has the same.
    counters: HashMap<Vec<u8>, Vec<u8>, RandomState>,
    /// The name of a counter here: space and key.
    name: Vec<u8>,
    /// The log could not be written. RocksDB flushes everything to a new log once there is room,
    /// and takes writes again; to sync the old log meanwhile would make the error final.
    log_failed: bool,
}

/// Puts the writes into the batch whose content does not depend on the order of commits; says
/// whether there are others.
pub(crate) fn stage(db: &Db, batch: &mut Batch, overlay: &Overlay) -> bool {
    let mut ordered = false;
    for Write { space, key, op } in overlay.writes() {
        match op {
            Op::Put(value) => db.put_batch(batch, space, key, value),
            Op::Delete => db.delete_batch(batch, space, key),
            Op::Add(_) | Op::Append(_) => ordered = true,
        }
        ordered |= space == Space::Counters;
    }
    ordered
}

impl Committer {
    /// Adds counters and log entries, whose content is known only in commit order.
    pub(crate) fn stage_ordered(
        &mut self,
        db: &Db,
        batch: &mut Batch,
        overlay: &Overlay,
        stamp: u64,
    ) -> Result<()> {
        let mut position = 0;
        for Write { space, key, op } in overlay.writes() {
            match op {
                Op::Add(deltas) => self.add(db, batch, (space, key), deltas)?,
                Op::Append(value) => {
                    db.put_batch(batch, space, &log_key(stamp, position), value);
                    position += 1;
                }
                Op::Put(_) | Op::Delete if space == Space::Counters => self.forget(space, key),
                Op::Put(_) | Op::Delete => {}
            }
        }
        Ok(())
    }

    /// Writes the batch. If that fails, the sums kept here are no longer the database's.
    pub(crate) fn write(&mut self, db: &Db, batch: &mut Batch) -> Result<()> {
        let result = db.write(batch);
        self.log_failed = result.is_err();
        if result.is_err() {
            self.forget_all();
        }
        result
    }

    /// Says whether the log may be synced: not after it failed, until writes succeed again.
    pub(crate) fn check_log(&mut self, db: &Db) -> Result<()> {
        if self.log_failed {
            let mut probe = Batch::new();
            db.put_batch(&mut probe, Space::Spill, b"probe", b"");
            self.write(db, &mut probe)?;
        }
        Ok(())
    }

    pub(crate) fn set_log_failed(&mut self) {
        self.log_failed = true;
    }

    pub(crate) fn forget_all(&mut self) {
        self.counters.clear();
    }

    fn add(
        &mut self,
        db: &Db,
        batch: &mut Batch,
        (space, key): (Space, &[u8]),
        deltas: &[u8],
    ) -> Result<()> {
        self.set_name(space, key);
        if let Some(sum) = self.counters.get_mut(self.name.as_slice()) {
            add_counters(sum, deltas);
            db.put_batch(batch, space, key, sum);
            return Ok(());
        }
        let mut sum = Vec::new();
        db.get(None, space, key, &mut sum)?;
        add_counters(&mut sum, deltas);
        db.put_batch(batch, space, key, &sum);
        if self.counters.len() >= COUNTERS_MAX {
            // Sums staged in this very batch are lost here too, but each key is added to only
            // once a batch, and after it the database has them.
            self.counters.clear();
        }
        self.counters.insert(self.name.clone(), sum);
        Ok(())
    }

    fn forget(&mut self, space: Space, key: &[u8]) {
        self.set_name(space, key);
        self.counters.remove(self.name.as_slice());
    }

    fn set_name(&mut self, space: Space, key: &[u8]) {
        self.name.clear();
        self.name.push(space as u8);
        self.name.extend_from_slice(key);
    }
}
