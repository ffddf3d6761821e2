//! The steps of a commit under the commit lock: counters are summed and the batch is written.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use nagi_kv::{
    Error, LogKeys, Result, Space,
    overlay::{Op, Overlay, Write, add_counters},
};
use nagi_kv_disk::fatal::{self, Trust};

use crate::{
    db::{Batch, Db},
    wal::Mark,
};

const COUNTERS_MAX: usize = 100_000;

/// The state behind the commit lock.
#[derive(Default)]
pub(crate) struct Committer {
    /// Newest sums of recently changed counters; equal to those in the database.
    counters: HashMap<Vec<u8>, Vec<u8>, RandomState>,
    /// The key of a counter in `counters`: space and key.
    name: Vec<u8>,
    /// True if the log could not be written. Once there is disk space, RocksDB flushes everything, switches to a
    /// new log and accepts writes again. A sync of the old log before that would make the error permanent.
    log_failed: bool,
    /// Number of failures of the ring buffer when the log was last known to be good.
    failures: u64,
    /// The synced position that is not recorded in the log yet.
    mark: Option<Mark>,
    /// The newest log when the last mark was written.
    marked_log: u64,
    trust: Arc<Trust>,
}

impl Committer {
    pub(crate) fn new(trust: &Arc<Trust>) -> Committer {
        Committer { trust: Arc::clone(trust), ..Committer::default() }
    }

    /// Called before the first transaction of a batch. Sums are dropped only here, because those staged in a batch
    /// are not yet in the database.
    pub(crate) fn begin(&mut self) {
        if self.counters.len() >= COUNTERS_MAX {
            self.forget_all();
        }
    }

    /// Records that the log was synced up to this position.
    pub(crate) fn set_mark(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    /// The mark to be written with the next batch; none if nothing has changed since the last one. `newest`: the
    /// newest log; `now`: the current end of the log.
    pub(crate) fn take_mark(&mut self, newest: u64, now: impl FnOnce() -> Mark) -> Option<Mark> {
        let synced = self.mark.take();
        if std::mem::replace(&mut self.marked_log, newest) != newest {
            // A log is synced before the first byte of the next one is written.
            let offset = synced.filter(|mark| mark.log == newest).map_or(0, |mark| mark.offset);
            return Some(Mark { log: newest, offset, ..now() });
        }
        synced
    }

    /// Stages the writes of a transaction that depend on its place in the order of commits, behind those that
    /// [`stage_plain`] has staged. `first`: its first stamp. After an error the batch must not be written.
    pub(crate) fn stage(
        &mut self,
        db: &Db,
        batch: &mut Batch,
        overlay: &Overlay,
        first: u64,
    ) -> Result<()> {
        let staged = self.stage_ordered(db, batch, overlay, first);
        if staged.is_err() {
            self.forget_all();
        }
        staged
    }

    fn stage_ordered(
        &mut self,
        db: &Db,
        batch: &mut Batch,
        overlay: &Overlay,
        first: u64,
    ) -> Result<()> {
        let mut log_keys = LogKeys::new(first);
        for Write { space, key, op, .. } in overlay.writes() {
            match op {
                Op::Add(deltas) => self.add(db, batch, (space, key), deltas)?,
                Op::Append { value, joined } => {
                    db.put_batch(batch, space, &log_keys.key(joined), value);
                }
                Op::Put(_) | Op::Delete if space == Space::Counters => self.set(space, key, op),
                Op::Put(_) | Op::Delete => {}
            }
        }
        Ok(())
    }

    /// Writes the batch. If that fails, the cached sums differ from the database and are dropped.
    pub(crate) fn write(&mut self, db: &Db, batch: &mut Batch) -> Result<()> {
        self.trust.check()?;
        let mut result = db.write(batch);
        match &result {
            // The disk is still full, even if RocksDB's error text differs.
            Err(error) if self.log_failed && fatal::is_fatal(error) => result = Err(Error::Full),
            Err(error) if fatal::is_fatal(error) => {
                let lost = self.trust.lose("write", error);
                result = Err(lost);
            }
            _ => {}
        }
        self.log_failed = matches!(result, Err(Error::Full));
        if result.is_err() {
            self.forget_all();
        }
        result
    }

    /// Returns an error if the log must not be synced: after it failed, until writes succeed again, which they do
    /// when the memtables have been flushed. `failures`: number of failures of the ring buffer so far.
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

    /// A counter was put or deleted; another transaction of the same batch may add to it.
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

/// Stages the writes of a transaction that are the same whenever it commits. Needs no lock: each commit does it in
/// its own thread, before it waits for the commit path.
pub(crate) fn stage_plain(db: &Db, batch: &mut Batch, overlay: &Overlay) {
    // Sorted keys are inserted into memtables in a fraction of the time.
    for Write { space, key, op, difference } in overlay.writes_by_key() {
        match op {
            Op::Put(_) if !difference.is_empty() => db.merge_batch(batch, space, key, difference),
            Op::Put(value) => db.put_batch(batch, space, key, value),
            Op::Delete => db.delete_batch(batch, space, key),
            Op::Add(_) | Op::Append { .. } => {}
        }
    }
}
