//! The reclaim thread: releases the space of dropped ranges.
//!
//! A drop hides its range with a tombstone and unlinks files that are entirely within the range, both at once. Data
//! in files shared with neighbours stays until these files are rewritten. This thread requests that, one range at a
//! time, so that foreground work keeps most of the disk.
//!
//! Every few seconds the same thread checks if the data still fits into the cache. While it does, compactions put
//! their output into the cache, so that reads find no cold blocks, and scans of any size add their blocks; otherwise
//! part of the cache is given to compressed blocks. It flushes memtables with many deletions, and suspends compactions
//! of spaces in which damage was met.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use nagi_kv::{Result, Space};
use parking_lot::{Condvar, Mutex};

use crate::{
    db::{Db, Warm},
    tier::{self, Sizes},
};

const LOOK_EACH: Duration = Duration::from_secs(5);

/// So many take a scan half a millisecond.
const FLUSHED_DELETIONS_MIN: u64 = 2000;
/// Fewer among other entries wait for these: small files with entries of all collections are expensive to merge.
const FLUSHED_DELETIONS_PART: u64 = 4;
const QUEUE_ENTRIES_MAX: usize = 1024;

/// The file of ranges that are still to be rewritten. Each line has the number of the space, and start and end in
/// hexadecimal. It is rewritten at each change.
const NOTES: &str = "nagi.reclaim";

type Range = (Space, Vec<u8>, Vec<u8>);

#[derive(Default)]
struct State {
    ranges: Vec<Range>,
    stopped: bool,
}

impl State {
    fn write(&self, path: &Path) -> Result<()> {
        let mut text = String::new();
        for (space, start, end) in self.ranges.iter().filter(|range| range.0 != Space::Spill) {
            text.push_str(&format!("{} {} {}\n", *space as u8, hex(start), hex(end)));
        }
        let temporary = path.with_extension("tmp");
        fs::write(&temporary, text)?;
        fs::File::open(&temporary)?.sync_all()?;
        Ok(fs::rename(&temporary, path)?)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_range(line: &str) -> Option<Range> {
    let bytes = |text: &str| -> Option<Vec<u8>> {
        let pairs = text.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        pairs.map(byte).collect()
    };
    let mut words = line.split_ascii_whitespace();
    let space = Space::by_number(words.next()?.parse().ok()?)?;
    Some((space, bytes(words.next()?)?, bytes(words.next()?)?))
}

/// The queue of ranges to rewrite.
pub(crate) struct Reclaim {
    state: Mutex<State>,
    notes: PathBuf,
    wake: Condvar,
}

impl Reclaim {
    /// Loads the ranges that an earlier process has not finished. Invalid lines are skipped: ordinary compaction
    /// will reach their ranges.
    pub(crate) fn load(files: &Path) -> Reclaim {
        let notes = files.join(NOTES);
        let text = fs::read_to_string(&notes).unwrap_or_default();
        let ranges: Vec<_> = text.lines().take(QUEUE_ENTRIES_MAX).filter_map(read_range).collect();
        if !ranges.is_empty() {
            log::info!(target: "STORAGE", id = 7_702_010, ranges = ranges.len();
                "Resuming the reclamation of the disk space of dropped collections and indexes");
        }
        let state = State { ranges, ..State::default() };
        Reclaim { state: Mutex::new(state), wake: Condvar::default(), notes }
    }

    /// Queues a range and stores it in the file, so that the next process continues. If the queue is full, the
    /// range is left to ordinary compaction.
    pub(crate) fn push_noted(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let range = (space, start.to_vec(), end.to_vec());
        if state.ranges.len() < QUEUE_ENTRIES_MAX && !state.ranges.contains(&range) {
            state.ranges.push(range);
            if space != Space::Spill {
                state.write(&self.notes)?;
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.state.lock().ranges.len()
    }

    /// Rewrites the first range of the queue, and removes it unless the rewrite was cancelled.
    fn rewrite(&self, db: &Db, (space, start, end): &Range) {
        let interrupted_before = db.interrupt_count();
        db.compact(*space, start, end);
        let mut state = self.state.lock();
        if state.stopped || db.interrupt_count() != interrupted_before {
            // It may be incomplete. The thread that cancelled it may not want it to continue at once.
            self.wake.wait_for(&mut state, LOOK_EACH);
            return;
        }
        state.ranges.remove(0);
        if *space != Space::Spill
            && let Err(error) = state.write(&self.notes)
        {
            log::warn!(target: "STORAGE", id = 7_702_011, error:% = error;
                "The progress of the reclamation cannot be recorded; the next start repeats it");
        }
    }

    fn run(&self, db: &Weak<Db>, tier: Option<u32>) {
        let (mut warm, mut tier) = (Warm::All, tier);
        loop {
            let mut state = self.state.lock();
            if state.ranges.is_empty() && !state.stopped {
                self.wake.wait_for(&mut state, LOOK_EACH);
            }
            if state.stopped {
                return;
            }
            let range = state.ranges.first().cloned();
            drop(state);
            let Some(db) = db.upgrade() else { return };
            db.damaged().settle(&db);
            flush_deletions(&db);
            match range {
                Some(range) => self.rewrite(&db, &range),
                None => {
                    warm = keep_warm(&db, db.cache_capacity(), warm);
                    let sizes = cached_sizes(&db);
                    db.set_all_fits(tier::all_fits(sizes, db.cache_capacity()));
                    tier = tier.map(|percent| fit_tier(&db, sizes, percent));
                }
            }
        }
    }
}

/// Returns true if clients read the space repeatedly.
fn is_cached(space: Space) -> bool {
    space.is_records() || [Space::Index, Space::Changes].contains(&space)
}

/// The sizes of all data that clients read repeatedly.
fn cached_sizes(db: &Db) -> Sizes {
    let mut sizes = Sizes::default();
    db.spaces().filter(|space| is_cached(*space)).for_each(|space| db.add_sizes(space, &mut sizes));
    sizes
}

/// Flushes memtables with many deletions: each scan steps over them, and a compaction removes them together with what
/// they delete once they are in a file. Without it they would stay as long as nothing else is written.
fn flush_deletions(db: &Db) {
    let full = |space: &Space| {
        let deletions = db.property(*space, c"rocksdb.num-deletes-active-mem-table");
        let entries = db.property(*space, c"rocksdb.num-entries-active-mem-table");
        is_cached(*space)
            && deletions >= FLUSHED_DELETIONS_MIN
            && deletions >= entries / FLUSHED_DELETIONS_PART
    };
    let spaces: Vec<Space> = db.spaces().filter(full).collect();
    if !spaces.is_empty() {
        // Whoever commits next meets the error.
        let _ = db.flush(spaces.into_iter(), false);
    }
}

/// Adapts the share of compressed blocks in the cache to the data. Returns the new share.
fn fit_tier(db: &Db, sizes: Sizes, percent: u32) -> u32 {
    let wanted = tier::percent(sizes, db.cache_capacity());
    if !tier::differs(percent, wanted) {
        return percent;
    }
    db.set_tier(wanted);
    log::debug!(target: "STORAGE", id = 7_702_012, percent = wanted, data_bytes = sizes.raw,
        stored_bytes = sizes.packed; "Changed the share of compressed blocks in the cache");
    wanted
}

/// Data on disk is compressed: it takes about twice as much in the cache.
fn keep_warm(db: &Db, cache_bytes: u64, warm: Warm) -> Warm {
    let disk = |space| db.property(space, c"rocksdb.live-sst-files-size");
    let cached_bytes = db.spaces().map(disk).sum::<u64>() * 2;
    let wanted = match warm {
        Warm::All if cached_bytes > cache_bytes => Warm::Flushed,
        Warm::Flushed if cached_bytes < cache_bytes / 2 => Warm::All,
        _ => return warm,
    };
    for space in db.spaces().filter(|space| is_cached(*space)) {
        if let Err(error) = db.set_warm(space, wanted) {
            log::warn!(target: "STORAGE", id = 7_702_005, error:% = error;
                "The cache's policy cannot be changed");
        }
    }
    log::debug!(target: "STORAGE", id = 7_702_006, policy:? = wanted, data_bytes = cached_bytes;
        "Changed the cache's admission policy for new blocks");
    wanted
}

/// Starts the thread. `tier`: the share of compressed blocks in the cache, if it adapts to the data.
pub(crate) fn start(
    reclaim: &Arc<Reclaim>,
    db: Weak<Db>,
    tier: Option<u32>,
) -> Result<JoinHandle<()>> {
    let reclaim = Arc::clone(reclaim);
    let thread = std::thread::Builder::new().name("reclaim".to_owned());
    Ok(thread.spawn(move || reclaim.run(&db, tier))?)
}
