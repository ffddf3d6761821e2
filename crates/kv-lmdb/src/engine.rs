//! The engine: implements the contract of `nagi_kv` over `Core`; opening and closing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use nagi_kv::{
    Clock, CommitStamp, Cursor, Engine, Error, Maintenance, Next, Read, Result, Scratch, Snapshot,
    Space, Tuning, Txn, TxnOptions, Watch, overlay::Staged,
};
use nagi_kv_disk::{
    capacity::{Capacity, Kind},
    descriptors, journal,
    marker::{self, Marker},
    scratch::ScratchFile,
};

use crate::{
    Options,
    allocator::{self, Allocator},
    apply, check,
    core::{Core, Parts},
    db::{self, Base, Db, RawCursor},
    hook::Hook,
    load,
    log::{Change, Log, replay},
    stats,
    step::size_key,
    view::{Layer, State, View},
};

/// The engine's name in the data directory's marker, and the name of its own folder.
pub(crate) const ENGINE: &str = "lmdb";
pub(crate) const JOURNAL: &str = "journal";
/// Prefix of scratch files, which are unlinked as soon as they are open.
const SCRATCH: &str = "scratch-";

/// The engine on LMDB. Dropping it writes every commit to the data file.
pub struct Lmdb {
    pub(crate) core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
    folder: PathBuf,
    /// Number of the next scratch file.
    scratch_number: AtomicU64,
}

/// Opens the data directory `dir`, which is created if it is missing. After a crash it recovers every commit up to
/// some point, and none after it.
///
/// # Errors
/// `Io` with a clear message if the data directory belongs to another engine or a newer format; `Corrupt` if files
/// are damaged.
pub fn open(dir: &Path, options: &Options) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(open_files(dir, options)?.0))
}

/// Like `open`; also returns what was lost of the log, which can happen only if `salvage` is set.
pub(crate) fn open_files(dir: &Path, options: &Options) -> Result<(Lmdb, Option<String>)> {
    open_with(dir, options, Hook::default())
}

/// Like `open`, with a test's hook installed from the start.
pub(crate) fn open_with(
    dir: &Path,
    options: &Options,
    hook: Hook,
) -> Result<(Lmdb, Option<String>)> {
    fs::create_dir_all(dir)?;
    let marker = marker::claim(dir, ENGINE)?;
    let folder = dir.join(ENGINE);
    let file = folder.join("data.mdb");
    if !marker.fresh && !file.exists() {
        return Err(Error::Corrupt(format!("{} is missing", file.display())));
    }
    if !marker.fresh {
        let wrong = db::check_roots(&file)?;
        if !wrong.is_empty() {
            return Err(Error::Corrupt(wrong.join("; ")));
        }
    }
    let journal_dir = dir.join(JOURNAL);
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(&journal_dir)?;
    fs::File::open(dir)?.sync_all()?;
    let map_bytes = options.map(dir);
    let (data, applied) = db::open_data(&folder, map_bytes)?;
    let spill = db::open_spill(&folder, map_bytes)?;
    let base = Base { data: Arc::new(data.read()?), spill: Arc::new(spill.read()?) };
    let view = View { layers: vec![Arc::new(Layer::new())], base: Arc::new(base) };
    let segment_bytes = options.segment(dir);
    let log = Log::open(&journal_dir, segment_bytes)?;
    let allocator = Allocator::new(&file, &data, log.spares(), segment_bytes, options.steps());
    let core = Arc::new(Core::new(Parts {
        newest: applied,
        view,
        log,
        data,
        spill,
        allocator: Arc::new(allocator),
        capacity: Capacity::new(dir, segment_bytes, options.reserve_bytes),
        layer_bytes: options.layer(dir),
        hook,
        on_fatal: options.on_fatal,
    }));
    core.say_files(&file, &journal_dir);
    let given_up = core.recover(&journal_dir, applied, options.salvage)?;
    if marker.fresh {
        marker::update(dir, ENGINE, Marker { fresh: false, ..marker })?;
    }
    let interval = Duration::from_millis(options.commit_interval_ms.max(1).into());
    let threads = vec![
        journal::start(&core.journal, Arc::downgrade(&core), interval)?,
        apply::start(&core.applier, Arc::downgrade(&core), options.sync_period)?,
        allocator::start(&core.allocator)?,
    ];
    descriptors::keep();
    Ok((Lmdb { core, threads, folder, scratch_number: AtomicU64::new(0) }, given_up))
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        let core = &self.core;
        core.journal.stop();
        core.applier.stop();
        core.allocator.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Err(error) = core.checkpoint().and_then(|()| core.commit.lock().log.end()) {
            log::error!(target: "STORAGE", id = 7_703_007, error:% = error;
                "The data file cannot be written at close");
        }
    }
}

impl Core {
    /// Logs the files that were found, in the words of MongoDB 2.
    fn say_files(&self, data: &Path, journal: &Path) {
        let (size_mb, used) = (|bytes: u64| bytes >> 20, self.data.info());
        let used_mb = size_mb(used.map_or(0, |info| info.used_bytes));
        let bytes = fs::metadata(data).map_or(0, |file| file.len());
        let (data, journal) = (data.display().to_string(), journal.display().to_string());
        log::info!(target: "STORAGE", id = 7_703_014, file = data, sizeMB = size_mb(bytes), usedMB = used_mb;
            "datafile {data}, size: {}MB, used: {used_mb}MB", size_mb(bytes));
        log::info!(target: "STORAGE", id = 7_703_015, dir = journal; "journal dir={journal}");
    }

    /// Replays the records of the log that the data file does not contain.
    fn recover(&self, journal_dir: &Path, applied: u64, salvage: bool) -> Result<Option<String>> {
        let mut record_count = 0_u64;
        let (newest, given_up) =
            replay(journal_dir, applied, salvage, &mut |(_, last), changes| {
                record_count += 1;
                let view = self.views.load();
                let layer = view.active();
                for (space, change) in changes {
                    match change {
                        _ if space == Space::Spill => {}
                        Change::Put(key, value) => {
                            layer.table.set(space, key, (last, Some(value.into())), u64::MAX);
                        }
                        Change::Delete(key) => {
                            layer.table.set(space, key, (last, None), u64::MAX);
                        }
                        Change::DropRange(start, end) => {
                            layer.table.remove_range(space, start, end);
                            layer.drop_range(space, start, end);
                        }
                    }
                }
                self.commit.lock().covered = last;
                self.ledger.advance(last);
                match layer.table.byte_count() > self.layer_bytes {
                    true => self.checkpoint(),
                    false => Ok(()),
                }
            })?;
        self.checkpoint()?;
        if record_count > 0 {
            log::info!(target: "STORAGE", id = 7_703_008, records = record_count, stamp = newest;
                "Recovered commits from the journal");
        } else {
            log::info!(target: "STORAGE", id = 7_703_016;
                "recover : no commits in the journal beyond the data file, no recovery needed");
        }
        self.commit.lock().log.begin(newest)?;
        self.give_back(newest)?;
        Ok(given_up)
    }
}

/// Reads of the newest snapshot.
impl Read for Lmdb {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let view = self.core.views.load();
        let found = view.get_copy(space, key, || self.core.newest(), buf)?;
        Ok(found.then_some(buf.as_slice()))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        State::new(&self.core).get_many(space, keys, visit)
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        State::new(&self.core).cursor(space, start, end)
    }
}

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        ENGINE
    }

    fn latest(&self) -> &(dyn Read + Sync) {
        self
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(State::new(&self.core)))
    }

    fn begin(&self, options: TxnOptions) -> Result<Box<dyn Txn>> {
        Ok(Box::new(Staged::begin(&self.core, options)))
    }

    fn clock(&self) -> &Clock {
        &self.core.ledger.clock
    }

    fn last_stamp(&self) -> CommitStamp {
        CommitStamp(self.core.newest())
    }

    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        self.core.advance(stamp.0)
    }

    fn sync(&self, stamp: CommitStamp) -> Result<()> {
        self.core.journal.wait(stamp.0)
    }
}

impl Maintenance for Lmdb {
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        load::load(&self.core, space, next)
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        let core = Arc::clone(&self.core);
        let capacity =
            move |bytes: u64| core.capacity.check(bytes, Kind::Grows, || core.unwritten_bytes());
        let number = self.scratch_number.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{SCRATCH}{number}"));
        ScratchFile::create(&path, Box::new(capacity), None)
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        if !end.is_empty() && start >= end {
            return Ok(());
        }
        self.core.drop_range(space, start, end)?;
        if space == Space::Spill { Ok(()) } else { self.core.sync() }
    }

    fn flush(&self) -> Result<()> {
        self.core.sync()
    }

    fn close(&self) -> Result<()> {
        self.core.checkpoint()
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        let files = dir.join(ENGINE);
        fs::create_dir(dir)?;
        fs::create_dir(&files)?;
        self.core.checkpoint()?;
        let copy = files.join("data.mdb");
        self.core.data.copy(&copy)?;
        fs::File::open(&copy)?.sync_all()?;
        fs::File::open(&files)?.sync_all()?;
        marker::write(dir, ENGINE)
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        approximate_size(&self.core, space, start, end)
    }

    /// LMDB reuses free pages and never shrinks its file. A compaction can only apply pending removals to the file,
    /// so that their pages become free.
    fn compact(&self, _: Space, _: &[u8], _: &[u8]) -> Result<()> {
        self.core.checkpoint()
    }

    fn verify(&self, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
        self.core.checkpoint()?;
        check::verify(&self.core, watch)
    }
}

impl Tuning for Lmdb {
    fn limit_conflicts(&self, bytes: u64) {
        self.core.ledger.conflicts.limit(bytes);
    }

    fn conflict_bytes(&self) -> u64 {
        self.core.ledger.conflicts.bytes()
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        stats::visit(&self.core, visit);
    }
}

/// Estimated from the sizes that are kept for each ident, and from how full the space's pages are. Data that is
/// only in layers is not counted, as it is not on disk.
fn approximate_size(core: &Core, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
    let base = Arc::clone(&core.views.load().base);
    let txn = base.of(space);
    let mut sizes = RawCursor::open(txn, Db::Sizes)?;
    let (mut all, mut inside) = (0_u64, 0_u64);
    let first = size_key(space, start);
    let mut more = sizes.seek(&first[..1])?;
    while more && sizes.key().first() == first.first() {
        let value = sizes.value().try_into().map_or(0, i64::from_le_bytes);
        let bytes = u64::try_from(value).unwrap_or(0);
        all += bytes;
        if sizes.key() >= first.as_slice() && (end.is_empty() || &sizes.key()[1..] < end) {
            inside += bytes;
        }
        more = sizes.next()?;
    }
    let pages = txn.stat(Db::Space(space))?.bytes;
    Ok(if all == 0 { 0 } else { (u128::from(inside) * u128::from(pages) / u128::from(all)) as u64 })
}
