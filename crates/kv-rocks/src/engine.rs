//! The engine: the contract over `Db`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nagi_encryption::{FileCipher, Keys};
use nagi_kv::{
    CachedSize, Clock, CommitStamp, Compressor, Cursor, DiskActivity, Engine, EngineEvent, Error,
    KeyRange, Maintenance, Next, RangeSize, Read, Result, Scratch, Snapshot, Space, Tuning, Txn,
    TxnOptions, Watch,
    overlay::{Base, Ledger, Op, Overlay, SharedOverlay, Staged},
    reuse::CacheEstimate,
};
use nagi_kv_disk::{
    capacity::{Capacity, Kind},
    group::{Group, Waiter},
    journal::{self, Journal, Log},
    marker,
    scratch::ScratchFile,
};
use nagi_percore::{PerCore, note_shared};
use parking_lot::{Mutex, RwLock};

use crate::{
    Options, capacity, closed,
    commit::{Committer, stage_plain},
    db::{Batch, Db, LAST_KEY, LiveFile, RocksCursor, System, Ticker},
    disk_map::{DiskMap, Placed},
    encrypted,
    found::{check_files, check_log, check_sequence, last_logged, renew_identity},
    governor::{self, Governor},
    large_commits,
    load::{Ascending, PIECE_SUFFIX, Piece, SMALL_BYTES, remove_pieces},
    range_sizes,
    reclaim::{self, Reclaim},
    repair, rewrite,
    ring_buffer::{self, RingBuffer},
    state::State,
    stats,
    upkeep::{self, Upkeep},
    wal,
    warm_up::{self, WarmUp},
};

/// A dropped range with fewer bytes in shared files does not justify rewriting them at once.
const RECLAIM_BYTES_MIN: u64 = 8 << 20;
/// Limit of a dropped range's entries that may stay in memtables: twenty thousand small entries, which a backward
/// scan skips in ten milliseconds. A lower limit would produce small files if there are many small drops.
const STEPPED_OVER_BYTES_MAX: u64 = 1 << 20;
/// The engine's name in the data directory's marker, and the name of its own folder.
pub(crate) const ENGINE: &str = "rocksdb";
/// With more level-0 files, where commits begin to slow down, a drop does not add another file.
const FLUSHED_FILES_MAX: u64 = 16;
const POOL_ENTRIES_MAX: usize = 64;
const POOLED_BYTES_MAX: usize = 256 << 10;
/// What an entry of a batch has in addition to key and value: its kind, its space, and their lengths.
const ENTRY_BYTES: usize = 12;

/// The engine on RocksDB. Dropping it writes the log out; the files are closed once the last transaction, snapshot
/// and cursor is dropped.
pub struct Rocks {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct Core {
    pub(crate) db: Arc<Db>,
    /// Outlives the database, whose log it receives.
    ring_buffer: Option<Arc<RingBuffer>>,
    pub(crate) ledger: Ledger,
    pub(crate) commit: Group<Committer, Prepared>,
    journal: Arc<Journal>,
    governor: Arc<Governor>,
    reclaim: Arc<Reclaim>,
    upkeep: Arc<Upkeep>,
    warm_up: Arc<WarmUp>,
    disk_map: Arc<DiskMap>,
    capacity: Capacity,
    batches: PerCore<Mutex<Vec<Batch>>>,
    /// Held (shared) by threads that change files without the commit lock, and (exclusively) when the engine is
    /// closed.
    changing: RwLock<()>,
    closed: AtomicBool,
    dir: PathBuf,
    files: PathBuf,
    /// Added to RocksDB's sequence number, for data directories from before stamps were times.
    stamps_from: u64,
    piece_number: AtomicU64,
    load_piece_bytes: usize,
    memtables_max: u64,
    compressors: [Compressor; Space::ALL.len()],
    /// The keys of the data directory, if its files are encrypted.
    pub(crate) keys: Option<Arc<Keys>>,
}

/// A transaction on the commit path: what a leader needs to write it.
pub(crate) struct Prepared {
    overlay: SharedOverlay,
    /// Its plain writes, staged. Taken by the leader.
    batch: Mutex<Option<Batch>>,
}

/// Opens the data directory `dir`, which is created if it is missing. After a crash it recovers every commit up to
/// some point, and none after it.
///
/// # Errors
/// `Io` with a clear message if another process has the data directory open, or if it belongs to another engine or
/// a newer format; `Corrupt` if files are damaged.
pub fn open(dir: &Path, options: &Options) -> Result<Arc<dyn Engine>> {
    fs::create_dir_all(dir)?;
    let marked = marker::claim(dir, ENGINE)?;
    let files = dir.join(ENGINE);
    repair::put_back(dir)?;
    fs::create_dir_all(&files)?;
    remove_pieces(&files)?;
    let closed = check_files(dir, &files, marked.fresh)?;
    renew_identity(&files, options.keys())?;
    let options = &capacity::fit(options, &files);
    let direct_io = capacity::takes_direct_io(&files);
    if options.direct_reads && !direct_io {
        log::warn!(target: "STORAGE", id = 7_702_007, path = files.display().to_string();
            "The file system refuses direct I/O: data is cached twice, here and by the system");
    }
    let direct_reads = direct_io && options.direct_reads;
    let system = System { direct_io, direct_reads, ..System::plain() };
    let check = || check_log(dir, &files, &closed, options);
    let (ring_buffer, db) = match open_files(&files, options, &system, &check) {
        Err(Error::Full) => {
            capacity::free(&files, options, &system)?;
            open_files(&files, options, &system, &check)?
        }
        opened => opened?,
    };
    check_sequence(&files, &closed, db.sequence(), options.keys())?;
    wal::forget(&files)?;
    if marked.fresh {
        marker::update(dir, ENGINE, marker::Marker { fresh: false, ..marked })?;
    }
    let newest = last_logged(&db)?.max(db.sequence() + marked.stamps_from);
    let ledger = Ledger::new(newest);
    let journal = Arc::new(Journal::new(ledger.active.newest(), options.on_fatal));
    let core = Arc::new(Core {
        ledger,
        commit: Group::new(Committer::new(journal.trust())),
        journal,
        governor: Arc::default(),
        reclaim: Arc::new(Reclaim::load(&files, options.keys.clone())),
        upkeep: Arc::default(),
        warm_up: Arc::default(),
        disk_map: DiskMap::new(&files),
        capacity: Capacity::new(&files, log_bytes(options), options.reserve_bytes),
        batches: PerCore::default(),
        changing: RwLock::new(()),
        closed: AtomicBool::new(false),
        dir: dir.to_owned(),
        stamps_from: marked.stamps_from,
        piece_number: AtomicU64::new(0),
        load_piece_bytes: options.write_buffer() as usize,
        memtables_max: options.memtables_max(),
        compressors: Space::ALL.map(|space| options.compressor(space)),
        keys: options.keys.clone(),
        files,
        db,
        ring_buffer,
    });
    let interval = Duration::from_millis(options.commit_interval_ms.max(1).into());
    let ring = core.ring_buffer.as_ref().map_or_else(std::sync::Weak::new, Arc::downgrade);
    let settings = upkeep::Settings::of(options);
    let mut threads = vec![
        journal::start(&core.journal, Arc::downgrade(&core), interval)?,
        governor::start(&core.governor, Arc::downgrade(&core.db), options.memtables_max())?,
        reclaim::start(&core.reclaim, Arc::downgrade(&core.db))?,
        upkeep::start(&core.upkeep, (Arc::downgrade(&core.db), ring), &core.reclaim, settings)?,
    ];
    core.drop_range(Space::Spill, &[], &[])?;
    if options.warm_up {
        threads.push(warm_up::start(&core.warm_up, Arc::downgrade(&core.db))?);
    }
    Ok(Arc::new(Rocks { core, threads: Mutex::new(threads) }))
}

/// Disk space that the log may need. Without a ring buffer a new log file is allocated with the size of a memtable.
/// With one, its content must fit on disk even if the process is killed, in files that are allocated ahead.
fn log_bytes(options: &Options) -> u64 {
    let ring_buffer = options.ring_bytes();
    options.write_buffer() * 5 / 4 + ring_buffer + 2 * ring_buffer::ahead(ring_buffer)
}

fn open_files(
    files: &Path,
    options: &Options,
    system: &System,
    check_log: &dyn Fn() -> Result<()>,
) -> Result<(Option<Arc<RingBuffer>>, Arc<Db>)> {
    let head = encrypted::header_bytes(options.keys());
    let ring_buffer = ring_buffer::open(files, options.ring_bytes(), head)?.map(Arc::new);
    check_log()?;
    let system = System { ring_buffer: ring_buffer.clone(), ..system.clone() };
    Ok((ring_buffer, Arc::new(Db::open(files, options, &system)?)))
}

impl Drop for Rocks {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            log::error!(target: "STORAGE", id = 7_702_003, error:% = error;
                "The journal cannot be written at close");
        }
    }
}

impl Rocks {
    /// The orderly shutdown, which runs once: flushes everything, then records the files.
    fn end(&self) -> Result<()> {
        let core = &*self.core;
        let mut last = Instant::now();
        let mut lap =
            || (std::mem::replace(&mut last, Instant::now()).elapsed().as_millis()) as u64;
        core.journal.stop();
        core.governor.stop();
        core.reclaim.stop();
        core.upkeep.stop();
        core.warm_up.stop();
        core.db.stop_compacting();
        core.db.end_compacting();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
        let _alone = core.changing.write();
        if core.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let jobs = lap();
        // After a failure nothing is written, and the ring buffer stays, as after a kill.
        core.journal.trust().check().and_then(|()| core.sync_log())?;
        let log_synced = lap();
        let unflushed = stats::unflushed_bytes(&core.db);
        let folders = (&*core.dir, &*core.files);
        let synced = core.ring_buffer.as_ref().map(|ring_buffer| ring_buffer.mark());
        let known = (core.keys.as_deref(), synced.as_ref());
        let settled = closed::settle(folders, &core.db, unflushed, known);
        if let Some(ring_buffer) = &core.ring_buffer {
            ring_buffer.retire();
        }
        log::info!(target: "STORAGE", id = 8_200_417, jobsMillis = jobs, logMillis = log_synced,
            memtablesMillis = settled.flushed_ms, compactionsMillis = settled.stopped_ms,
            flushed = settled.flushed; "The storage engine is closed");
        Ok(())
    }
}

impl Core {
    /// A cursor over the newest data.
    fn cursor(&self, space: Space, (start, end): (&[u8], &[u8])) -> Box<dyn Cursor> {
        Box::new(RocksCursor::new(&self.db, None, space, start, end))
    }

    fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::other("the storage engine is shutting down")),
            false => self.journal.trust().check(),
        }
    }

    fn check_capacity(&self, overlay: &Overlay) -> Result<()> {
        let bytes = overlay.staged_bytes() as u64;
        let grows = || overlay.writes().any(|w| w.space.is_records() && matches!(w.op, Op::Put(_)));
        let pending = || stats::unflushed_bytes(&self.db);
        // There is almost always enough space for any kind; the kind is determined only if there is not.
        match self.capacity.check(bytes, Kind::Grows, pending) {
            Err(Error::Full) if !grows() => self.capacity.check(0, Kind::Shrinks, pending),
            result => result,
        }
    }

    /// Writes the transactions in one batch. Returns the stamp of its own, and tells the others theirs.
    fn write_group(
        &self,
        committer: &mut Committer,
        own: Option<&Prepared>,
        followers: &[Arc<Waiter<Prepared>>],
    ) -> Result<u64> {
        note_shared("clock", 1, 1);
        note_shared("newest stamp", 1, 3);
        let stamps = |prepared: &Prepared| prepared.overlay.lock().stamps();
        let others = followers.iter().map(|waiter| stamps(&waiter.payload)).sum::<u64>();
        let mut next = self.ledger.clock.take(own.map_or(0, stamps) + others);
        committer.begin();
        let (mut own_stamp, mut group) = (next, self.synced_note(committer));
        let all = own.map(|own| (own, None)).into_iter();
        for (prepared, waiter) in all.chain(followers.iter().map(|w| (&w.payload, Some(w)))) {
            let overlay = prepared.overlay.lock();
            let own = self.take_batch(prepared, &overlay);
            let batch = match &mut group {
                Some(batch) => {
                    batch.append(&own);
                    self.give_back(own);
                    batch
                }
                none => none.insert(own),
            };
            committer.stage(&self.db, batch, &overlay, next)?;
            next += overlay.stamps();
            waiter.map_or_else(|| own_stamp = next - 1, |waiter| waiter.set_stamp(next - 1));
        }
        let (last, Some(mut batch)) = (next - 1, group) else { return Ok(own_stamp) };
        let active = &self.ledger.active;
        self.begin_batch(last);
        if let Err(error) = committer.write(&self.db, &mut batch) {
            active.writing().failed(active.newest());
            return Err(error);
        }
        self.governor.wrote(batch.byte_count());
        active.publish(last);
        self.give_back(batch);
        Ok(own_stamp)
    }

    /// Implements `Engine::advance`.
    fn advance(&self, stamp: u64) {
        if stamp > self.ledger.active.newest() {
            let _nobody_writes = self.commit.lock();
            self.ledger.advance(stamp);
            self.begin_batch(self.ledger.active.newest());
        }
    }

    /// Publishes that a batch with this last stamp is about to be written. The caller has the commit lock.
    fn begin_batch(&self, last: u64) {
        // In this order: an ingestion in between counts as one of the time of the batch.
        let (_, loads) = self.db.ingests();
        self.ledger.active.writing().begin(last, self.db.sequence(), loads);
    }

    /// The plain writes of a transaction; those of a large one are staged only now.
    fn take_batch(&self, prepared: &Prepared, overlay: &Overlay) -> Batch {
        prepared.batch.lock().take().unwrap_or_else(|| self.staged(overlay))
    }

    fn staged(&self, overlay: &Overlay) -> Batch {
        let mut batch = self.batch();
        batch.reserve(overlay.staged_bytes() + ENTRY_BYTES * overlay.write_count());
        stage_plain(&self.db, &mut batch, overlay);
        batch
    }

    /// A batch that begins with a mark of the synced log position, if the position has advanced since the last mark;
    /// see `wal`.
    fn synced_note(&self, committer: &mut Committer) -> Option<Batch> {
        let ring_buffer = self.ring_buffer.as_ref()?;
        let mark = committer.take_mark(ring_buffer.newest(), || ring_buffer.mark())?;
        let mut batch = self.batch();
        self.db.note_batch(&mut batch, &mark.bytes());
        Some(batch)
    }

    fn batch(&self) -> Batch {
        self.batches.own().lock().pop().unwrap_or_else(Batch::new)
    }

    fn give_back(&self, mut batch: Batch) {
        if batch.byte_count() <= POOLED_BYTES_MAX {
            batch.clear();
            let mut batches = self.batches.own().lock();
            if batches.len() < POOL_ENTRIES_MAX {
                batches.push(batch);
            }
        }
    }

    /// The path of a table file that is not part of the database yet.
    fn piece_path(&self) -> PathBuf {
        let number = self.piece_number.fetch_add(1, Ordering::Relaxed);
        self.files.join(format!("load-{number}{PIECE_SUFFIX}"))
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let _changing = self.changing.read();
        self.check_open()?;
        let mut last = Vec::new();
        let mut cursor = self.cursor(space, (start, end));
        // A search for the last key reads a block of each file, however large.
        let any = if end.is_empty() { cursor.seek_back(end)? } else { cursor.seek(start)? };
        if !any && (space == Space::Spill || end.is_empty()) {
            return Ok(());
        }
        if end.is_empty() {
            last.extend_from_slice(cursor.key());
            last.push(0);
        }
        drop(cursor);
        let end = if end.is_empty() { last.as_slice() } else { end };
        let files = self.db.approximate_file_size(space, start, end)?;
        if any {
            let unflushed = self.db.approximate_size(space, start, end)?.saturating_sub(files);
            self.hide_range(space, start, end)?;
            // Every search for the neighbours of the range skips its entries in a memtable one by one: a search for
            // the last key before the range took 80 ms. A flush leaves these entries out.
            if unflushed >= STEPPED_OVER_BYTES_MAX
                && space != Space::Spill
                && self.db.level_0_files(space) < FLUSHED_FILES_MAX
                && let Err(error) = self.db.flush([space].into_iter(), false)
            {
                log::debug!(target: "STORAGE", id = 7_702_044, error:% = error;
                    "Dropped data in memory is kept until the next flush");
            }
        }
        // Also if the range seems empty: the process that hid it may have stopped before this step.
        self.db.delete_files(space, start, end)?;
        // A small rest is left to ordinary compaction, so that a drop stays cheap.
        if self.db.approximate_size(space, start, end)? >= RECLAIM_BYTES_MIN {
            self.reclaim.push_noted(space, start, end)?;
        }
        if files >= RECLAIM_BYTES_MIN {
            self.upkeep.wake();
        }
        Ok(())
    }

    fn hide_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let mut committer = self.commit.lock();
        if space == Space::Counters {
            committer.forget_all();
        }
        self.db.delete_range(space, start, end)?;
        drop(committer);
        match space {
            Space::Spill => Ok(()),
            _ => self.sync_log(),
        }
    }
}

impl Base for Core {
    const WRITES_DIFFERENCES: bool = true;

    type State = State;

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn state(self: &Arc<Core>) -> Result<State> {
        Ok(State::new(self))
    }

    fn get_newest(&self, space: Space, key: &[u8], buf: &mut Vec<u8>) -> Result<bool> {
        self.db.get(None, space, key, buf)
    }

    fn write(&self, overlay: &SharedOverlay) -> Result<u64> {
        self.check_open()?;
        let (bytes, batch) = {
            let overlay = overlay.lock();
            for space in Space::BY_COMPRESSOR {
                if overlay.has(space) {
                    self.db.make(space)?;
                }
            }
            self.check_capacity(&overlay)?;
            let bytes = overlay.staged_bytes();
            // While it waits, a transaction has its writes twice in memory.
            (bytes, (bytes <= POOLED_BYTES_MAX).then(|| self.staged(&overlay)))
        };
        self.governor.pause();
        large_commits::wait(bytes, self.memtables_max, &self.db, &self.upkeep);
        let prepared = Prepared { overlay: Arc::clone(overlay), batch: Mutex::new(batch) };
        self.commit.commit(prepared, bytes, &mut |committer, own, others| {
            self.write_group(committer, own, others)
        })
    }

    fn sync(&self, stamp: u64) -> Result<()> {
        self.journal.wait(stamp)
    }
}

impl Log for Core {
    fn newest(&self) -> u64 {
        self.ledger.active.newest()
    }

    fn sync_log(&self) -> Result<()> {
        let failures = || self.ring_buffer.as_ref().map_or(0, |ring_buffer| ring_buffer.failures());
        let (mark, before) = {
            // No other thread writes a batch meanwhile, so the log ends with a whole batch.
            let mut committer = self.commit.lock();
            let before = failures();
            committer.check_log(&self.db, before)?;
            (self.ring_buffer.as_ref().map(|ring_buffer| ring_buffer.mark()), before)
        };
        let mut result = self.db.sync_log();
        // RocksDB may have abandoned a failed log in the meantime without having flushed its memtables yet.
        if result.is_ok() && failures() != before {
            result = Err(Error::Full);
        }
        match (&result, &self.ring_buffer, mark) {
            (Err(_), ..) => self.commit.lock().set_log_failed(),
            (Ok(()), Some(ring_buffer), Some(mark)) => {
                ring_buffer.set_synced(&mark);
                self.commit.lock().set_mark(mark);
            }
            _ => {}
        }
        result
    }

    fn idle(&self) {
        let mut committer = self.commit.lock();
        let Some(mut batch) = self.synced_note(&mut committer) else { return };
        // On a full disk no mark is written; after a fatal error `write` refuses every other write.
        let _ = committer.write(&self.db, &mut batch);
        drop(committer);
        self.give_back(batch);
    }
}

/// Reads of the newest data.
impl Read for Rocks {
    fn get<'a>(
        &'a self,
        space: Space,
        key: &[u8],
        buf: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>> {
        let found = self.core.db.get(None, space, key, buf)?;
        Ok(found.then_some(buf.as_slice()))
    }

    fn get_many(
        &self,
        space: Space,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.core.db.get_many(None, space, keys, visit)
    }

    fn cursor(&self, space: Space, start: &[u8], end: &[u8]) -> Result<Box<dyn Cursor>> {
        Ok(self.core.cursor(space, (start, end)))
    }
}

impl Engine for Rocks {
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
        CommitStamp(self.core.ledger.active.writing().last())
    }

    fn advance(&self, stamp: CommitStamp) -> Result<()> {
        self.core.check_open()?;
        self.core.advance(stamp.0);
        Ok(())
    }

    fn sync(&self, stamp: CommitStamp) -> Result<()> {
        self.core.journal.wait(stamp.0)
    }
}

impl Maintenance for Rocks {
    fn load(&self, space: Space, next: &mut Next<'_>) -> Result<()> {
        let core = &*self.core;
        core.check_open()?;
        core.db.make(space)?;
        let mut piece = Piece::default();
        let mut ascending = Ascending::new(&core.db, space);
        let mut is_sorted = true;
        loop {
            let most = if is_sorted { SMALL_BYTES } else { core.load_piece_bytes };
            let more = piece.fill(most, next)?;
            let pending = || stats::unflushed_bytes(&core.db);
            core.capacity.check(piece.byte_count() as u64, Kind::Grows, pending)?;
            let changing = core.changing.read();
            core.check_open()?;
            is_sorted = is_sorted && piece.ascends_behind(ascending.last());
            if piece.is_empty() {
                ascending.take_in()?;
            } else if is_sorted && (ascending.is_open() || !piece.is_small()) {
                ascending.put(&piece, || core.piece_path())?;
            } else {
                // The last entry of a key wins, so earlier entries are ingested first.
                ascending.take_in()?;
                if piece.is_small() {
                    let mut batch = core.batch();
                    piece.stage(&core.db, &mut batch, space);
                    core.commit.lock().write(&core.db, &mut batch)?;
                    core.give_back(batch);
                } else {
                    piece.ingest(&core.db, space, &core.piece_path())?;
                }
            }
            if !more {
                ascending.take_in()?;
                break;
            }
            drop(changing);
            if space != Space::Spill {
                core.governor.spread(piece.byte_count());
            }
        }
        match space {
            Space::Spill => Ok(()),
            _ => core.sync_log(),
        }
    }

    fn scratch(&self) -> Result<Arc<dyn Scratch>> {
        self.core.check_open()?;
        let core = Arc::clone(&self.core);
        let capacity = move |bytes: u64| {
            core.check_open()?;
            core.capacity.check(bytes, Kind::Grows, || stats::unflushed_bytes(&core.db))
        };
        let cipher = self.core.keys.as_ref().map(|_| FileCipher::ephemeral()).transpose();
        let cipher = cipher.map_err(std::io::Error::from)?;
        ScratchFile::create(&self.core.piece_path(), Box::new(capacity), cipher)
    }

    fn drop_range(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        self.core.drop_range(space, start, end)
    }

    fn flush(&self) -> Result<()> {
        self.core.sync_log()
    }

    fn close(&self) -> Result<()> {
        self.end()
    }

    fn checkpoint(&self, dir: &Path) -> Result<()> {
        let _changing = self.core.changing.read();
        fs::create_dir(dir)?;
        self.core.sync_log()?;
        self.core.db.checkpoint(&dir.join(ENGINE))?;
        if self.core.keys.is_some() {
            // Afterwards, so that it has the generations of all files.
            encrypted::copy_keys(&self.core.dir, dir)?;
        }
        let stamps_from = self.core.stamps_from;
        marker::update(dir, ENGINE, marker::Marker { fresh: false, stamps_from })
    }

    fn approximate_size(&self, space: Space, start: &[u8], end: &[u8]) -> Result<u64> {
        let end = if end.is_empty() { &LAST_KEY } else { end };
        self.core.db.approximate_size(space, start, end)
    }

    fn range_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Vec<RangeSize>> {
        let all = |range: &KeyRange<'_>| self.approximate_size(range.space, range.start, range.end);
        range_sizes::on_disk(&self.core.db, &all, ranges)
    }

    fn cached_sizes(&self, ranges: &[KeyRange<'_>]) -> Result<Option<Vec<CachedSize>>> {
        let all = |range: &KeyRange<'_>| self.approximate_size(range.space, range.start, range.end);
        range_sizes::in_memory(&self.core.db, &all, ranges).map(Some)
    }

    fn compact(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let _changing = self.core.changing.read();
        self.core.check_open()?;
        self.core.db.compact(space, start, end);
        Ok(())
    }

    fn compact_watched(&self, range: KeyRange<'_>, watch: &mut Watch<'_>) -> Result<bool> {
        let _changing = self.core.changing.read();
        self.core.check_open()?;
        rewrite::compact(&self.core.db, &range, watch)
    }

    fn hold_files(&self, watch: &mut Watch<'_>) -> Result<bool> {
        let core = &self.core;
        core.governor.hurry(&core.db, || rewrite::hold(&core.db, &core.files, watch))
    }

    fn begin_close(&self) {
        self.core.db.end_compacting();
    }

    fn release_files(&self) -> Result<()> {
        rewrite::release(&self.core.db)
    }

    fn verify(&self, watch: &mut Watch<'_>) -> Result<Option<Vec<String>>> {
        rewrite::verify(&self.core.db, watch)
    }
}

impl Tuning for Rocks {
    fn compressor(&self, space: Space) -> Compressor {
        self.core.compressors[space as usize]
    }

    fn limit_conflicts(&self, bytes: u64) {
        self.core.ledger.conflicts.limit(bytes);
    }

    fn conflict_bytes(&self) -> u64 {
        self.core.ledger.conflicts.bytes()
    }

    fn resize_cache(&self, bytes: u64) {
        self.core.db.resize_cache(bytes);
    }

    fn blocks_read(&self) -> u64 {
        self.core.db.ticker(Ticker::DataBlocksAdded).saturating_sub(self.core.warm_up.blocks())
    }

    fn cached_data_bytes(&self) -> u64 {
        self.core.db.data.bytes()
    }

    fn events_after(&self, number: u64) -> Vec<EngineEvent> {
        self.core.db.damaged().events.after(number)
    }

    fn disk_activity(&self) -> Option<DiskActivity> {
        let db = &self.core.db;
        let files = || {
            let placed = |file: LiveFile| Placed {
                name: file.name,
                space: file.space,
                level: file.level,
                bytes: file.byte_count,
                first: file.smallest,
            };
            db.live_files().into_iter().map(placed).collect()
        };
        Some(self.core.disk_map.take(db.damaged().events.newest(), files))
    }

    fn cache_estimate(&self) -> Option<CacheEstimate> {
        let db = &self.core.db;
        let (curve, sampled) = db.reuse().curve(db.block_reads())?;
        Some(CacheEstimate {
            curve,
            sampled,
            capacity: db.cache_capacity(),
            reserved: stats::unflushed_bytes(db),
            density: db.data.density(),
        })
    }

    fn stats(&self, visit: &mut dyn FnMut(&'static str, i64)) {
        let core = &*self.core;
        let ring_buffer = core.ring_buffer.as_ref().map(|ring| ring.gauges()).unwrap_or_default();
        stats::visit(
            &core.db,
            &core.capacity,
            &core.reclaim,
            &core.warm_up,
            &ring_buffer,
            &core.governor.gauges(),
            visit,
        );
    }
}
