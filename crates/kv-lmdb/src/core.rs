//! The commit path: one thread at a time takes stamps, writes the log record of a group and applies it to the
//! active layer.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use nagi_kv::{
    Error, Result, Space,
    overlay::{Base as Seam, Ledger, Op, Overlay, SharedOverlay, Write, add_counters},
};
use nagi_kv_disk::{
    capacity::{Capacity, Kind},
    fatal::OnFatal,
    group::{Group, Waiter},
    journal::{self, Journal},
};
use parking_lot::Mutex;

use crate::{
    allocator::Allocator,
    apply::Applier,
    db::Env,
    hook::{Hook, Moment},
    log::{Change, Log, Record},
    view::{Layer, State, View},
};

const KEPT_RECORD_BYTES_MAX: usize = 4 << 20;
/// Keys of a dropped range that are removed from memory under one hold of the commit lock.
const SLICE_ENTRIES: usize = 1024;

/// The engine without its threads.
pub(crate) struct Core {
    pub(crate) ledger: Ledger,
    pub(crate) views: ArcSwap<View>,
    pub(crate) commit: Group<Writer, SharedOverlay>,
    pub(crate) data: Arc<Env>,
    pub(crate) spill: Arc<Env>,
    /// Held while the data file is written.
    pub(crate) files: Mutex<()>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) applier: Arc<Applier>,
    pub(crate) allocator: Arc<Allocator>,
    pub(crate) capacity: Capacity,
    pub(crate) layer_bytes: usize,
    pub(crate) hook: Hook,
}

/// State of the commit that is being written; behind the commit lock.
pub(crate) struct Writer {
    pub(crate) log: Log,
    record: Record,
    /// Sums of counters within the current record, by space and key.
    sums: HashMap<(Space, Vec<u8>), Vec<u8>, RandomState>,
    /// The log has all commits up to this stamp. The first stamp of the next record is this one plus 1, even if its
    /// first commit is later: so records form a chain, and a missing record is detected.
    pub(crate) covered: u64,
    /// True if the log could not be synced: records since the last sync count as durable only once they are in the
    /// file.
    pub(crate) sync_failed: bool,
}

impl Core {
    /// Creates everything but the threads. `parts` are the files and settings that `open` prepared.
    pub(crate) fn new(parts: Parts) -> Core {
        let writer = Writer {
            log: parts.log,
            record: Record::default(),
            sums: HashMap::default(),
            covered: parts.newest,
            sync_failed: false,
        };
        Core {
            ledger: Ledger::new(parts.newest),
            views: ArcSwap::from_pointee(parts.view),
            commit: Group::new(writer),
            data: parts.data,
            spill: parts.spill,
            files: Mutex::new(()),
            journal: Arc::new(Journal::new(parts.newest, parts.on_fatal)),
            applier: Arc::new(Applier::default()),
            allocator: parts.allocator,
            capacity: parts.capacity,
            layer_bytes: parts.layer_bytes,
            hook: parts.hook,
        }
    }

    pub(crate) fn newest(&self) -> u64 {
        self.ledger.active.newest()
    }

    fn check_capacity(&self, overlay: &Overlay) -> Result<()> {
        let bytes = overlay.staged_bytes() as u64;
        let grows = || overlay.writes().any(|w| w.space.is_records() && matches!(w.op, Op::Put(_)));
        let pending = || self.unwritten_bytes();
        match self.capacity.check(bytes, Kind::Grows, pending) {
            Err(Error::Full) if !grows() => self.capacity.check(0, Kind::Shrinks, pending),
            result => result,
        }
    }

    /// Bytes that the data file will need beyond its allocated size.
    pub(crate) fn unwritten_bytes(&self) -> u64 {
        let layers: usize =
            self.views.load().layers.iter().map(|layer| layer.table.byte_count()).sum();
        (layers as u64 * 2).saturating_sub(self.allocator.ahead_bytes())
    }

    /// Writes the transactions in one record. Returns the stamp of its own, and tells the others theirs.
    fn write_group(
        &self,
        writer: &mut Writer,
        own: Option<&SharedOverlay>,
        followers: &[Arc<Waiter<SharedOverlay>>],
    ) -> Result<u64> {
        let view = self.views.load();
        let newest = self.newest();
        let stamps = |overlay: &SharedOverlay| overlay.lock().stamps();
        let count = own.map_or(0, stamps)
            + followers.iter().map(|waiter| stamps(&waiter.payload)).sum::<u64>();
        let mut next = self.ledger.clock.take(count);
        let mut own_stamp = next;
        let all = own.map(|own| (own, None)).into_iter();
        let all = all.chain(followers.iter().map(|waiter| (&waiter.payload, Some(waiter))));
        writer.sums.clear();
        writer.record.begin(writer.covered + 1);
        for (overlay, waiter) in all {
            let overlay = overlay.lock();
            let stamp = next + overlay.stamps() - 1;
            writer.record.begin_transaction(next, stamp);
            overlay.writes().try_for_each(|write| writer.stage(&view, &write, newest))?;
            next = stamp + 1;
            match waiter {
                Some(waiter) => waiter.set_stamp(stamp),
                None => own_stamp = stamp,
            }
        }
        let last = next - 1;
        writer.log.append(&mut writer.record, last)?;
        writer.covered = last;
        let oldest = self.ledger.active.oldest();
        let table = &view.active().table;
        for (space, change) in writer.record.changes() {
            match change {
                Change::Put(key, value) => {
                    table.set(space, key, (last, Some(value.into())), oldest);
                }
                Change::Delete(key) => {
                    table.set(space, key, (last, None), oldest);
                }
                Change::DropRange(..) => unreachable!("a transaction drops no range"),
            }
        }
        self.ledger.active.publish(last);
        if writer.record.byte_count() > KEPT_RECORD_BYTES_MAX as u64 {
            writer.record = Record::default();
        }
        let log_full = writer.log.byte_count() > writer.log.segment_bytes() * 4;
        if table.byte_count() >= self.layer_bytes || log_full {
            self.applier.wake();
        }
        Ok(own_stamp)
    }

    /// Removes a range. The active layer forgets it a slice at a time, and reads and commits continue between
    /// slices. With the last slice the drop is logged, and hides the range in the layers below and in the file; the
    /// file itself follows later. After a crash in between, the caller has to request the drop again: it was not
    /// acknowledged.
    pub(crate) fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        loop {
            let mut writer = self.commit.lock();
            let view = self.views.load();
            let layer = view.active();
            let removed = layer.table.remove_some(space, start, end, SLICE_ENTRIES);
            if !removed.more {
                let result = self.note_drop(&mut writer, layer, space, (start, end));
                drop(writer);
                self.applier.wake();
                return result;
            }
            drop(writer);
            // Memory is freed without holding the lock.
            drop(removed);
            self.hook.at(Moment::Sliced)?;
        }
    }

    /// Logs the drop of a range that the active layer has no keys of any more, and hides it in the layers below.
    fn note_drop(
        &self,
        writer: &mut Writer,
        layer: &Layer,
        space: Space,
        (start, end): (&[u8], &[u8]),
    ) -> Result<()> {
        if space == Space::Spill {
            layer.drop_range(space, start, end);
            return Ok(());
        }
        let stamp = self.ledger.clock.take(1);
        writer.append_alone(stamp, Some((space, Change::DropRange(start, end))))?;
        layer.drop_range(space, start, end);
        self.ledger.active.publish(stamp);
        Ok(())
    }

    /// Implements `Engine::advance`. The log keeps the stamp in a record without changes.
    pub(crate) fn advance(&self, stamp: u64) -> Result<()> {
        if stamp > self.newest() {
            let mut writer = self.commit.lock();
            if stamp > self.newest() {
                writer.append_alone(stamp, None)?;
                self.ledger.advance(stamp);
            }
        }
        Ok(())
    }

    /// Makes every commit durable: syncs the log, or writes the data file if the log cannot be synced.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.sync_ahead()? {
            return Ok(());
        }
        // After a failed sync the operating system may have dropped the data, and reports that only once. All of it
        // is still in memory, so it is written to the data file instead.
        self.checkpoint()?;
        self.commit.lock().sync_failed = false;
        Ok(())
    }

    /// Syncs the log. Returns false, without a sync, if an earlier sync failed.
    pub(crate) fn sync_ahead(&self) -> Result<bool> {
        let (work, newest, failed) = {
            let writer = self.commit.lock();
            (writer.log.sync_work(), writer.covered, writer.sync_failed)
        };
        if failed {
            return Ok(false);
        }
        let Err(error) = work.run().and_then(|()| self.hook.at(Moment::LogSynced(&work))) else {
            self.commit.lock().log.set_synced(&work, newest);
            return Ok(true);
        };
        let mut writer = self.commit.lock();
        writer.sync_failed = true;
        let covered = writer.covered;
        writer.log.abandon_segment(covered)?;
        Err(error)
    }
}

impl Writer {
    /// Appends a record with at most one change.
    fn append_alone(&mut self, stamp: u64, change: Option<(Space, Change<'_>)>) -> Result<()> {
        self.record.begin(self.covered + 1);
        self.record.begin_transaction(stamp, stamp);
        if let Some((space, change)) = change {
            self.record.push(space, change);
        }
        self.log.append(&mut self.record, stamp)?;
        self.covered = stamp;
        Ok(())
    }

    fn stage(&mut self, view: &View, write: &Write<'_>, newest: u64) -> Result<()> {
        let Write { space, key, op, .. } = *write;
        match op {
            Op::Put(value) => self.record.push(space, Change::Put(key, value)),
            Op::Delete => self.record.push(space, Change::Delete(key)),
            Op::Append { value, joined } => self.record.push_appended(space, joined, value),
            Op::Add(deltas) => {
                let name = (space, key.to_vec());
                if !self.sums.contains_key(&name) {
                    let mut sum = Vec::new();
                    if !view.get_copy(space, key, || newest, &mut sum)? {
                        sum.clear();
                    }
                    self.sums.insert(name.clone(), sum);
                }
                let sum = self.sums.entry(name).or_default();
                add_counters(sum, deltas);
                self.record.push(space, Change::Put(key, sum));
                return Ok(());
            }
        }
        // Another transaction of the same record may add to the same counter.
        if space == Space::Counters {
            let value = if let Op::Put(value) = op { value.to_vec() } else { Vec::new() };
            self.sums.insert((space, key.to_vec()), value);
        }
        Ok(())
    }
}

/// Arguments of `Core::new`, prepared by `open`.
pub(crate) struct Parts {
    pub(crate) newest: u64,
    pub(crate) view: View,
    pub(crate) log: Log,
    pub(crate) data: Arc<Env>,
    pub(crate) spill: Arc<Env>,
    pub(crate) allocator: Arc<Allocator>,
    pub(crate) capacity: Capacity,
    pub(crate) layer_bytes: usize,
    pub(crate) hook: Hook,
    pub(crate) on_fatal: OnFatal,
}

impl Seam for Core {
    type State = State;

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn state(self: &Arc<Core>) -> Result<State> {
        Ok(State::new(self))
    }

    fn get_newest(&self, space: Space, key: &[u8], buf: &mut Vec<u8>) -> Result<bool> {
        self.views.load().get_copy(space, key, || self.newest(), buf)
    }

    fn write(&self, overlay: &SharedOverlay) -> Result<u64> {
        let bytes = {
            let overlay = overlay.lock();
            self.journal.trust().check()?;
            self.check_capacity(&overlay)?;
            overlay.staged_bytes()
        };
        self.slow_down(bytes)?;
        self.commit.commit(Arc::clone(overlay), bytes, &mut |writer, own, others| {
            self.write_group(writer, own, others)
        })
    }

    fn sync(&self, stamp: u64) -> Result<()> {
        self.journal.wait(stamp)
    }
}

impl journal::Log for Core {
    fn newest(&self) -> u64 {
        self.newest()
    }

    fn sync_log(&self) -> Result<()> {
        self.sync()
    }

    /// Writes a record without changes, which stores the newest durable stamp. On failure a later record stores it.
    fn idle(&self) {
        let mut writer = self.commit.lock();
        let Writer { log, record, sync_failed, covered, .. } = &mut *writer;
        if *sync_failed || self.journal.trust().check().is_err() {
            return;
        }
        record.begin(*covered);
        if let Err(error) = log.append(record, *covered) {
            log::warn!(target: "STORAGE", id = 7_703_010, error:% = error;
                "The journal could not record which commits are in the data file");
        }
    }
}
