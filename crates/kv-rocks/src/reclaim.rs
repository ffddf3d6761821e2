//! The thread that gives back the space of dropped ranges.
//!
//! A dropped range is hidden by a tombstone at once, and files wholly within it are unlinked at
//! once. What shares files with its neighbours stays until those files are rewritten; this thread
//! asks for that, one range at a time, so that foreground work keeps most of the disk.
//!
//! The same thread looks every few seconds whether the data still fits into the cache: while it
//! does, compaction puts what it writes into the cache, so that reads never find it cold; when it no
//! longer does, part of the cache is given to compressed blocks. And it lets spaces rest whose
//! compactions have met damage.

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

const QUEUE_ENTRIES_MAX: usize = 1024;

/// Ranges that are still to be rewritten, one a line: number of the space, start and end in
/// hexadecimal. Written anew with each change.
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

/// Ranges to rewrite.
pub(crate) struct Reclaim {
    state: Mutex<State>,
    notes: PathBuf,
    wake: Condvar,
}

impl Reclaim {
    /// Begins with what an earlier run has noted and not done. A line that makes no sense is left
    /// out: ordinary compaction comes to that range in its own time.
    pub(crate) fn load(files: &Path) -> Reclaim {
        let notes = files.join(NOTES);
        let text = fs::read_to_string(&notes).unwrap_or_default();
        let ranges: Vec<_> = text.lines().take(QUEUE_ENTRIES_MAX).filter_map(read_range).collect();
        if !ranges.is_empty() {
            log::info!(target: "STORAGE", id = 7_702_010, ranges = ranges.len();
                "Going on with giving back the space of what was dropped");
        }
        let state = State { ranges, ..State::default() };
        Reclaim { state: Mutex::new(state), wake: Condvar::default(), notes }
    }

    /// Queues a range and notes it, so that the next run does what this one does not come to. When
    /// far too many wait, the newest is left to ordinary compaction.
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

    /// Rewrites the first range of the queue, and forgets it if that was not cut short.
    fn rewrite(&self, db: &Db, (space, start, end): &Range) {
        let interrupted_before = db.interrupt_count();
        db.compact(*space, start, end);
        let mut state = self.state.lock();
        if state.stopped || db.interrupt_count() != interrupted_before {
            // Perhaps not done. Whoever ended it may not want it again at once.
            self.wake.wait_for(&mut state, LOOK_EACH);
            return;
        }
        state.ranges.remove(0);
        if *space != Space::Spill
            && let Err(error) = state.write(&self.notes)
        {
            log::warn!(target: "STORAGE", id = 7_702_011, error:% = error;
                "What was reclaimed cannot be noted; the next start does it again");
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
            match range {
                Some(range) => self.rewrite(&db, &range),
                None => {
                    warm = keep_warm(&db, db.cache_capacity(), warm);
                    tier = tier.map(|percent| fit_tier(&db, percent));
                }
            }
        }
    }
}

/// Whether clients read it again and again.
fn is_cached(space: Space) -> bool {
    space.is_records() || [Space::Index, Space::Changes].contains(&space)
}

/// Gives compressed blocks the part of the cache that the data asks for; the part they have then.
fn fit_tier(db: &Db, percent: u32) -> u32 {
    let mut sizes = Sizes::default();
    db.spaces().filter(|space| is_cached(*space)).for_each(|space| db.add_sizes(space, &mut sizes));
    let wanted = tier::percent(sizes, db.cache_capacity());
    if !tier::differs(percent, wanted) {
        return percent;
    }
    db.set_tier(wanted);
    log::debug!(target: "STORAGE", id = 7_702_012, percent = wanted, data_bytes = sizes.raw,
        stored_bytes = sizes.packed; "Changed the part of the cache for compressed blocks");
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
        "Changed which new blocks go to the cache");
    wanted
}

/// Starts the thread. `tier`: the part of the cache for compressed blocks, if it is to follow the data.
pub(crate) fn start(
    reclaim: &Arc<Reclaim>,
    db: Weak<Db>,
    tier: Option<u32>,
) -> Result<JoinHandle<()>> {
    let reclaim = Arc::clone(reclaim);
    let thread = std::thread::Builder::new().name("reclaim".to_owned());
    Ok(thread.spawn(move || reclaim.run(&db, tier))?)
}
