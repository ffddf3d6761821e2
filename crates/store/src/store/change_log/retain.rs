//! Removes the oldest entries of the log: beyond its size, and not before they have a certain age.

use std::sync::atomic::Ordering::SeqCst;

use nagi_bson::Doc;
use nagi_error::Result;
use nagi_kv::{CommitStamp, Engine, Read, Space, log_key};

use super::{
    first_of,
    read::{LogReader, stamp_of},
};
use crate::{
    Collection, Store,
    catalog::{CollectionState, load_counters},
    engine_error::engine,
    ident::{CatalogKey, Ident},
};

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
        let mut log = LogReader::open(&*snapshot, true, &shown.state)?;
        let mut passed = None;
        loop {
            let found = log.skip()?;
            // The newest entry always stays: readers continue from it. So each is removed once there is another one.
            if let Some((stamp, bytes)) = passed.filter(|_| found) {
                trimmed.documents += 1;
                trimmed.bytes += bytes;
                trimmed.up_to = CommitStamp(stamp);
            }
            let is_enough = trimmed.bytes >= excess.min(PASS_BYTES_MAX);
            if !found || is_enough || log.stamp >= kept_since.0 {
                break;
            }
            go_on()?;
            passed = Some((log.stamp, log.entry_bytes()));
        }
        if trimmed.documents == 0 {
            return Ok(None);
        }
        self.remove_up_to(&shown, trimmed, 0)?;
        Ok(Some(trimmed))
    }

    /// The stamps of the oldest and the newest entry; `None` without a log, or while it is empty.
    /// Where nodes list their commits, the stamps from which and up to which it has all. A seek, or a scan.
    pub fn change_log_window(&self) -> Result<Option<(CommitStamp, CommitStamp)>> {
        if let Some(lists) = &self.lists {
            let snapshot = self.snapshot()?;
            let status = lists.look(&snapshot.reader())?;
            let first = status.first.map(CommitStamp);
            return Ok(first.map(|first| (first, CommitStamp(status.horizon))));
        }
        let Some(shown) = self.log_shown.load_full() else { return Ok(None) };
        let mut log = LogReader::open(self.engine.latest(), true, &shown.state)?;
        if !log.skip()? {
            return Ok(None);
        }
        let (first, mut newest) = (log.stamp, self.log_newest.load(SeqCst));
        if newest == 0 {
            newest = newest_stamp(self.engine.latest(), &shown.state)?.unwrap_or(first);
            self.log_newest.fetch_max(newest, SeqCst);
        }
        Ok(Some((CommitStamp(first), CommitStamp(newest.max(first)))))
    }

    /// Removes all entries, because changes after them were not logged: readers that come from before now are told.
    pub fn cut_change_log(&self) -> Result<()> {
        let Some(shown) = self.log_shown.load_full() else { return Ok(()) };
        let unlogged = load_counters(self.engine.latest(), Ident::UNLOGGED)?.0;
        let (documents, bytes) = shown.state.counters();
        let trimmed = Trimmed { documents, bytes, up_to: self.last_stamp() };
        self.remove_up_to(&shown, trimmed, unlogged)
    }

    /// The cut is stored together with the counters, so that a crash or an error in between repeats only the removal.
    /// `unlogged`: so many changes without a log entry are no longer to be reported.
    fn remove_up_to(&self, shown: &Collection, trimmed: Trimmed, unlogged: i64) -> Result<()> {
        let first = trimmed.up_to.0 + 1;
        self.count_trimmed(shown, trimmed, (first, unlogged))?;
        shown.state.first_record.fetch_max(first as i64, SeqCst);
        remove_before(&*self.engine, first)
    }
}

fn remove_before(on: &dyn Engine, first: u64) -> Result<()> {
    on.drop_range(Space::Changes, &log_key(0, 0), &log_key(first, 0)).map_err(engine)
}

/// At the start: finishes a removal, and tells readers where the log begins.
pub(crate) fn resume(on: &dyn Engine, shown: Option<&Collection>) -> Result<()> {
    let Some(shown) = shown else { return Ok(()) };
    let key = Ident(0).catalog_key(CatalogKey::LogFirst);
    let mut buf = Vec::new();
    let kept = on.latest().get(Space::Catalog, &key, &mut buf).map_err(engine)?;
    let first = kept.and_then(|first| first.first_chunk()).map_or(0, |f| u64::from_le_bytes(*f));
    shown.state.first_record.fetch_max(first as i64, SeqCst);
    match first {
        0 => Ok(()),
        first => remove_before(on, first),
    }
}

/// The stamp of the newest entry; `None` while the log is empty. It reads that entry only, whatever the engine has.
fn newest_stamp(read: &dyn Read, shown: &CollectionState) -> Result<Option<u64>> {
    let first = first_of(shown).to_be_bytes();
    let mut cursor = read.cursor(Space::Changes, &first, &[]).map_err(engine)?;
    let found = cursor.seek_back(&[]).map_err(engine)?;
    Ok(found.then(|| stamp_of(cursor.key())))
}

/// The term of the newest entry.
pub(crate) fn newest_term(on: &dyn Engine, shown: Option<&Collection>) -> Result<i64> {
    let Some(shown) = shown else { return Ok(0) };
    let Some(newest) = newest_stamp(on.latest(), &shown.state)? else { return Ok(0) };
    let mut log = LogReader::open(on.latest(), true, &shown.state)?;
    log.resume_after(newest.saturating_sub(1));
    let mut doc = Vec::new();
    let term = |doc: &[u8]| nagi_bson::number::as_i64_exact(Doc::trusted(doc).get("t"));
    Ok(if log.advance(&mut doc)? { term(&doc).unwrap_or(0) } else { 0 })
}
