//! Fills the cache: a thread reads the indexes and then the records, from the end of each space, where the newest
//! entries are, until all is read or the cache is nearly full. It does so after a start, and again whenever much of the
//! data is not in the cache although there is room: when a large collection was dropped, for example, the others were
//! evicted by it.
//!
//! Without it the first reads wait for the disk one by one, for minutes if the disk is slow. Read in order, the same
//! data takes seconds. Clients come first: while they read, the thread pauses for most of the time.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nagi_kv::{Cursor, Result, Space};
use parking_lot::{Condvar, Mutex};

use crate::{
    db::{Db, RocksCursor, Ticker},
    governor,
    large_reads::Allowance,
};

/// Bytes of keys and values that are read without a pause.
const PIECE_BYTES: usize = 1 << 20;
/// The share of the cache that may be filled: more would evict what clients have read.
const FILLED_PERCENT: u64 = 80;
/// The part of the cache that large values of a piece may take. They are pinned together, one of each file.
const LARGE_PART: u64 = 16;
/// More reads during a piece mean that clients are at work.
const IDLE_READS: u64 = 10;
/// Then the thread pauses for this many times the duration of the piece.
const PAUSES: u32 = 3;
const LOOK_EACH: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// With a smaller share of the data in the cache, the rest is read.
const COLD_PERCENT: u64 = 97;
/// The least share of the data that must be written between two times.
const WRITTEN_PERCENT: u64 = 10;

#[derive(Default)]
pub(crate) struct WarmUp {
    stopped: Mutex<bool>,
    wake: Condvar,
    blocks: AtomicU64,
    bytes: AtomicU64,
    rounds: AtomicU64,
}

impl WarmUp {
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.wake.notify_all();
    }

    /// Blocks added to the cache meanwhile: they were not read for clients.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Bytes of keys and values read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How often all was read for which there was room.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Relaxed)
    }

    fn run(&self, db: &Weak<Db>) {
        let mut written = 0;
        loop {
            if let Some(db) = db.upgrade() {
                written = written_bytes(&db);
            }
            if !self.fill(db) {
                return;
            }
            loop {
                if self.is_stopped_within(LOOK_EACH) {
                    return;
                }
                let Some(db) = db.upgrade() else { return };
                if is_cold(&db, written_bytes(&db) - written) {
                    break;
                }
            }
        }
    }

    /// Reads until the cache is filled. Returns false when the thread is to end.
    fn fill(&self, db: &Weak<Db>) -> bool {
        let (begin, before_bytes) = (Instant::now(), self.bytes());
        let records = Space::ALL.into_iter().filter(|space| space.is_records());
        for space in std::iter::once(Space::Index).chain(records) {
            let mut before = Vec::new();
            while let Some(db) = db.upgrade().filter(|db| has_room(db)) {
                let (piece, reads) = (Instant::now(), governor::reads(&db));
                // An error is not for this thread to report: who reads the data will meet it.
                if !self.read_piece(&db, space, &mut before).unwrap_or(false) {
                    break;
                }
                let others = governor::reads(&db).saturating_sub(reads);
                drop(db);
                let busy = others > IDLE_READS;
                let pause = if busy { piece.elapsed() * PAUSES } else { Duration::ZERO };
                if self.is_stopped_within(pause.min(PAUSE_MAX)) {
                    return false;
                }
            }
        }
        let (bytes, millis) = (self.bytes() - before_bytes, begin.elapsed().as_millis() as u64);
        if bytes > 0 {
            log::info!(target: "STORAGE", id = 7_702_090, bytes = bytes, durationMillis = millis;
                "Read data into the cache");
        }
        self.rounds.fetch_add(1, Relaxed);
        true
    }

    fn is_stopped_within(&self, pause: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped && !pause.is_zero() {
            self.wake.wait_for(&mut stopped, pause);
        }
        *stopped
    }

    /// Reads the entries before the key, the last ones if it is empty, and replaces it by the first key that was read.
    /// Returns false if there are no more.
    fn read_piece(&self, db: &Arc<Db>, space: Space, before: &mut Vec<u8>) -> Result<bool> {
        // With larger values the cache is not worth much, and the budget has no memory for them: the rest stays unread.
        let allowed = db.cache_capacity() / LARGE_PART;
        let _allowance = Allowance::begin(usize::try_from(allowed).unwrap_or(usize::MAX));
        // A cursor keeps the tables alive that it began with, so each piece has its own.
        let mut cursor = RocksCursor::filling(db, space);
        let blocks = db.ticker(Ticker::DataBlocksAdded);
        let (mut found, mut bytes) = (cursor.seek_back(before)?, 0);
        while found && bytes < PIECE_BYTES {
            before.clear();
            before.extend_from_slice(cursor.key());
            bytes += cursor.key().len() + cursor.value().len();
            found = cursor.prev()?;
        }
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.blocks.fetch_add(db.ticker(Ticker::DataBlocksAdded) - blocks, Relaxed);
        Ok(found)
    }
}

fn has_room(db: &Db) -> bool {
    db.cache_usage() < db.cache_capacity() / 100 * FILLED_PERCENT
}

/// Returns true if data that was written or uncovered since is probably not in the cache, and fits into it.
fn is_cold(db: &Db, written_bytes: u64) -> bool {
    let data = db.data.bytes();
    db.data.fits()
        && has_room(db)
        && db.cache_usage() < data / 100 * COLD_PERCENT
        && written_bytes >= data / 100 * WRITTEN_PERCENT
}

/// Bytes that flushes and compactions have written so far: a drop or a load of much data causes them, too.
fn written_bytes(db: &Db) -> u64 {
    db.ticker(Ticker::FlushBytesWritten) + db.ticker(Ticker::CompactionBytesWritten)
}

pub(crate) fn start(warm_up: &Arc<WarmUp>, db: Weak<Db>) -> Result<JoinHandle<()>> {
    let warm_up = Arc::clone(warm_up);
    let thread = std::thread::Builder::new().name("warm-up".to_owned());
    Ok(thread.spawn(move || warm_up.run(&db))?)
}
