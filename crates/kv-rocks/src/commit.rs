//! What one commit at a time does: hand out the stamp, sum up counters, write the batch.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nagi_kv::{
    Error, Result, Space, log_key,
    overlay::{Op, Overlay, Write, add_counters},
};
use nagi_kv_disk::fatal;

use crate::{
    db::{Batch, Db},
    wal::Mark,
};

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
    /// Failures of the spool when the log was last known to be good.
    failures: u64,
    /// What is on the disk and not yet noted in the log.
    mark: Option<Mark>,
    /// The newest log when the last note was made.
    marked_log: u64,
}

impl Committer {
    /// Before the first transaction of a batch. Sums are forgotten only here: those staged in a batch
    /// are not yet in the database.
    pub(crate) fn begin(&mut self) {
        if self.counters.len() >= COUNTERS_MAX {
            self.forget_all();
        }
    }

    /// The log was synced so far.
    pub(crate) fn set_mark(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    /// What a note in the next batch has to say; none if nothing changed since the last one. `newest`:
    /// the newest log; `now`: what has been appended.
    pub(crate) fn take_mark(&mut self, newest: u64, now: impl FnOnce() -> Mark) -> Option<Mark> {
        let synced = self.mark.take();
        if std::mem::replace(&mut self.marked_log, newest) != newest {
            // Before the first byte of a log the one before was synced.
            let offset = synced.filter(|mark| mark.log == newest).map_or(0, |mark| mark.offset);
            return Some(Mark { log: newest, offset, ..now() });
        }
        synced
    }

    /// Puts a transaction's writes into the batch. On an error the batch is not to be written.
    pub(crate) fn stage(
        &mut self,
        db: &Db,
        batch: &mut Batch,
        overlay: &Overlay,
        stamp: u64,
    ) -> Result<()> {
        let staged = self.stage_all(db, batch, overlay, stamp);
        if staged.is_err() {
            self.forget_all();
        }
        staged
    }

    fn stage_all(
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
                Op::Put(value) => db.put_batch(batch, space, key, value),
                Op::Delete => db.delete_batch(batch, space, key),
            }
            if space == Space::Counters && matches!(op, Op::Put(_) | Op::Delete) {
                self.set(space, key, op);
            }
        }
        Ok(())
    }

    /// Writes the batch. If that fails, the sums kept here are no longer the database's.
    pub(crate) fn write(&mut self, db: &Db, batch: &mut Batch) -> Result<()> {
        let mut result = db.write(batch);
        match &result {
            // Still for want of room, whatever the words.
            Err(error) if self.log_failed && fatal::is_fatal(error) => result = Err(Error::Full),
            Err(error) if fatal::is_fatal(error) => fatal::end("write", error),
            _ => {}
        }
        self.log_failed = matches!(result, Err(Error::Full));
        if result.is_err() {
            self.forget_all();
        }
        result
    }

    /// Says whether the log may be synced: not after it failed, until writes succeed again, which they do when
    /// the memtables are written out. `failures`: of the spool until now.
    pub(crate) fn check_log(&mut self, db: &Db, failures: u64) -> Result<()> {
        if self.log_failed || self.failures != failures {
            let mut probe = Batch::new();
            db.put_batch(&mut probe, Space::Spill, b"probe", b"");
            self.write(db, &mut probe)?;
            self.failures = failures;
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
        self.counters.insert(self.name.clone(), sum);
        Ok(())
    }

    /// A counter was put or removed: another transaction of the same batch may add to it.
    fn set(&mut self, space: Space, key: &[u8], op: Op<'_>) {
        self.set_name(space, key);
        let value = if let Op::Put(value) = op { value.to_vec() } else { Vec::new() };
        self.counters.insert(self.name.clone(), value);
    }

    fn set_name(&mut self, space: Space, key: &[u8]) {
        self.name.clear();
        self.name.push(space as u8);
        self.name.extend_from_slice(key);
    }
}
