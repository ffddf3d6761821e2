//! The engine: what it promises, and operations on ranges.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use nagi_kv::{
    Capabilities, Clock, CommitStamp, Cursor, Engine, Error, KeyRange, Limits, Maintenance, Next,
    Read, Result, Scratch, Snapshot, Space, Tuning, Txn, TxnOptions, Watch, overlay::Overlay,
};
use nagi_kv_disk::scratch::ScratchFile;

use crate::{
    changes::{Keys, Known},
    client::{Change, Page, Pair},
    core::Core,
    cut, format, garbage,
    layout::{PIECE_BYTES, Range, VALUE_BYTES_MAX, value_bytes_max},
    limits::KEY_BYTES_MAX,
    options::Options,
    stamps::version_of,
    txn::{TXN_BYTES_MAX, Transaction, commit_blind},
    view::{BATCH_KEYS, View},
};

/// Entries and bytes of one transaction of a load or a removal.
const BATCH_ENTRIES: u32 = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// How long a load or a removal is repeated at conflicts.
const BATCH_WAIT: Duration = Duration::from_secs(60);
/// How far in the future a stamp may be that `advance` waits for.
const ADVANCE_MAX: Duration = Duration::from_secs(10);
/// Pages of an estimate of a range's size.
const SIZE_PAGES: usize = 4;
const SIZE_PAGE_ENTRIES: u32 = 256;
/// The size of regions that are estimated by their number: the default of a cluster.
const REGION_BYTES: u64 = 96 << 20;
const REGIONS_COUNTED_MAX: usize = 1000;

/// The distributed engine. See the crate's documentation.
pub struct Tikv {
    core: Arc<Core>,
    scratch_files: AtomicU64,
}

/// Connects to a cluster and checks the format of the data.
///
/// # Errors
/// If the cluster cannot be reached, or the data under the prefix are not of this program.
pub fn open(options: &Options) -> Result<Arc<Tikv>> {
    let core = Core::connect(options)?;
    format::check(&core)?;
    Ok(Arc::new(Tikv { core, scratch_files: AtomicU64::new(0) }))
}

impl Tikv {
    fn view(&self) -> Result<View> {
        View::now(&self.core)
    }

    /// Removes the stored keys of a range, in transactions of bounded size. Returns false if `watch` cancelled it.
    fn remove(&self, (mut from, to): Range, watch: &mut Watch<'_>) -> Result<bool> {
        while from < to {
            if !watch(0, 0) {
                return Ok(false);
            }
            let begun = self.core.client.begin()?;
            let bounds = self.core.client.bounds(&from, false)?;
            let end = bounds.end.filter(|end| *end < to);
            let (page_to, limit) = (end.clone().unwrap_or_else(|| to.clone()), BATCH_ENTRIES);
            let page = Page { from, to: page_to, limit, reverse: false, keys_only: true };
            let found = self.core.client.scan(begun.version(), page)?;
            let is_full = found.len() >= limit as usize;
            from = match found.last() {
                Some((last, _)) if is_full => [last, &[0][..]].concat(),
                _ => end.unwrap_or_else(|| to.clone()),
            };
            let changes: Vec<Change> =
                found.into_iter().map(|(key, _)| Change::Delete(key)).collect();
            if !changes.is_empty() {
                self.core.client.commit(begun, changes)?;
            }
        }
        Ok(true)
    }

    /// The bytes of the first entries of a range, and where the rest begins, if there is one.
    /// Values are not read if each has `each` bytes.
    fn measure(
        &self,
        (mut from, to): Range,
        each: Option<usize>,
    ) -> Result<(u64, Option<Vec<u8>>)> {
        let version = self.core.client.timestamp()?;
        let mut bytes = 0;
        for _ in 0..SIZE_PAGES {
            if from >= to {
                return Ok((bytes, None));
            }
            let bounds = self.core.client.bounds(&from, false)?;
            let end = bounds.end.filter(|end| *end < to);
            let (page_to, limit) = (end.clone().unwrap_or_else(|| to.clone()), SIZE_PAGE_ENTRIES);
            let keys_only = each.is_some();
            let page = Page { from, to: page_to, limit, reverse: false, keys_only };
            let found = self.core.client.scan(version, page)?;
            let size = |(key, value): &Pair| (key.len() + each.unwrap_or(value.len())) as u64;
            bytes += found.iter().map(size).sum::<u64>();
            from = match found.last() {
                Some((last, _)) if found.len() >= limit as usize => [last, &[0][..]].concat(),
                _ => end.unwrap_or_else(|| to.clone()),
            };
        }
        Ok((bytes, (from < to).then_some(from)))
    }

    /// An estimate: exact for some hundred entries, a lower bound in regions for more.
    fn estimate(&self, range: Range, each: Option<usize>) -> Result<u64> {
        let to = range.1.clone();
        let (mut bytes, mut rest) = self.measure(range, each)?;
        for _ in 0..REGIONS_COUNTED_MAX {
            let Some(from) = rest else { break };
            rest = self.core.client.bounds(&from, false)?.end.filter(|end| *end < to);
            bytes += if rest.is_some() { REGION_BYTES } else { 0 };
        }
        Ok(bytes)
    }
}

/// Reads of the newest data: each takes a timestamp.
impl Read for Tikv {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let found = self.view()?.get(space, key, buf)?.is_some();
        Ok(found.then_some(buf.as_slice()))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.view()?.get_many(space, keys, visit)
    }

    fn keys_at_once(&self) -> usize {
        BATCH_KEYS
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        self.view()?.cursor(space, start, end)
    }
}

impl Engine for Tikv {
    fn name(&self) -> &'static str {
        "tikv"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { splits_ranges: true, ..Capabilities::NONE }
    }

    fn limits(&self) -> Limits {
        let age = self.core.options.snapshot_age_max.as_millis();
        Limits {
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: VALUE_BYTES_MAX,
            txn_bytes_max: TXN_BYTES_MAX,
            snapshot_age_ms_max: u64::try_from(age).ok(),
        }
    }

    fn latest(&self) -> &(dyn Read + Sync) {
        self
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(self.view()?))
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        Ok(Box::new(Transaction::new(&self.core, options)))
    }

    fn begin_at(&self, stamp: CommitStamp) -> Result<Box<dyn Txn>> {
        let (version, now) = (version_of(stamp), self.core.client.timestamp()?);
        if version > now {
            return Err(Error::other("a stamp of the future"));
        }
        let view = View::of_past(&self.core, version, self.core.ages.at_most(version, now))?;
        view.check()?;
        Ok(Box::new(Transaction::of_past(&self.core, view)))
    }

    fn clock(&self) -> &Clock {
        &self.core.clock
    }

    fn last_stamp(&self) -> CommitStamp {
        self.core.newest()
    }

    /// Waits until the oracle has passed the stamp. It cannot be set.
    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        if stamp <= self.core.newest() {
            return Ok(());
        }
        self.core.client.wait_until(version_of(stamp), ADVANCE_MAX)?;
        self.core.saw(stamp);
        Ok(())
    }

    /// A commit is replicated and durable when it returns.
    fn sync(&self, _: CommitStamp) -> Result<()> {
        Ok(())
    }
}

impl Maintenance for Tikv {
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        self.core.writes(space);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut overlay = Overlay::new();
        loop {
            let more = next(&mut key, &mut value)?;
            if more {
                if value.len() > value_bytes_max(space) {
                    return Err(Error::other("an entry of a load is too large for TiKV"));
                }
                cut::check(space, &key, value.len())?;
                overlay.put(space, &key, &value);
            }
            let is_full = overlay.write_count() >= BATCH_ENTRIES as usize
                || overlay.staged_bytes() >= BATCH_BYTES;
            if !overlay.is_empty() && (!more || is_full) {
                let (locked, known) = (Keys::new(), Known::default());
                commit_blind(&self.core, (&overlay, &locked, &known), None, BATCH_WAIT)?;
                overlay.clear();
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        let folder = &self.core.options.scratch;
        fs::create_dir_all(folder)?;
        let number = self.scratch_files.fetch_add(1, Relaxed);
        ScratchFile::create(&folder.join(format!("scratch-{number}")), Box::new(|_| Ok(())), None)
    }

    /// Takes time in proportion to the number of keys: see `Capabilities::drops_at_once`.
    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let range = KeyRange { space, start, end, live_count: None };
        self.drop_range_watched(range, &mut |_, _| true).map(drop)
    }

    fn drop_range_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        let KeyRange { space, start, end, .. } = range;
        // Ranges of indexes are bounded by their idents. A bound in a group would remove all of it.
        let long = [start, end].into_iter().find(|key| cut::group(key).is_some());
        if let Some(long) = long.filter(|_| cut::is_cut_in(space)) {
            return Err(Error::KeyTooLong(long.len(), cut::KEPT_BYTES));
        }
        // Pieces last: a head without its pieces would be damage.
        Ok(self.remove(self.core.layout.heads(space, start, end), watch)?
            && self.remove(self.core.layout.pieces(space, start, end), watch)?)
    }

    /// Ends regions, see `split.rs`. Keys that are longer than what is stored of them are refused.
    fn split_at(&self, space: Space, keys: &[&[u8]]) -> Result<usize> {
        if let Some(long) = keys.iter().find(|key| key.len() > cut::KEPT_BYTES) {
            return Err(Error::KeyTooLong(long.len(), cut::KEPT_BYTES));
        }
        self.core
            .client
            .split_at(keys.iter().map(|key| self.core.layout.head(space, key)).collect())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Asks the cluster for nothing unless there is something to remove: it may not answer.
    fn close(&self) -> Result<()> {
        match self.core.has_spills() {
            true => self.drop_range(Space::Spill, &[], &[]),
            false => Ok(()),
        }
    }

    fn checkpoint(&self, _: &Path) -> Result<()> {
        Err(Error::Io(io::Error::new(
            io::ErrorKind::Unsupported,
            "the data are in TiKV, which has backups of its own",
        )))
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        let heads = self.estimate(self.core.layout.heads(space, start, end), None)?;
        let pieces = self.core.layout.pieces(space, start, end);
        Ok(heads + self.estimate(pieces, Some(PIECE_BYTES))?)
    }

    /// See `garbage.rs`. A few requests each minute; with `leads` every ten minutes one for each region and more.
    fn tend_versions(&self, leads: bool, watch: &mut Watch<'_>) -> Result<()> {
        garbage::tend(&self.core, leads, watch)
    }

    /// The stores compact on their own.
    fn compact(&self, _: Space, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl Tuning for Tikv {
    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        self.core.client.calls().visit(visit);
    }
}
