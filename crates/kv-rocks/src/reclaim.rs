//! The reclaim thread: releases the space of dropped ranges.
//!
//! A drop hides its range with a tombstone and unlinks files that are entirely within the range, both at once. Data
//! in files shared with neighbours stays until these files are rewritten. This thread requests that, one range at a
//! time, so that foreground work keeps most of the disk.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use nagi_encryption::Keys;
use nagi_kv::{Result, Space};
use parking_lot::{Condvar, Mutex};

use crate::{db::Db, encrypted};

/// After a cancelled rewrite.
const PAUSE: Duration = Duration::from_secs(5);
const QUEUE_ENTRIES_MAX: usize = 1024;

/// The file of ranges that are still to be rewritten. Each line has the number of the space, and start and end in
/// hexadecimal. It is rewritten at each change.
const NOTES: &str = "nagi.reclaim";

pub(crate) type Range = (Space, Vec<u8>, Vec<u8>);

#[derive(Default)]
struct State {
    ranges: Vec<Range>,
    stopped: bool,
}

impl State {
    fn write(&self, path: &Path, keys: Option<&Keys>) -> Result<()> {
        let mut text = String::new();
        for (space, start, end) in self.ranges.iter().filter(|range| range.0 != Space::Spill) {
            text.push_str(&format!("{} {} {}\n", *space as u8, hex(start), hex(end)));
        }
        encrypted::replace(path, &path.with_extension("tmp"), text.into_bytes(), keys)
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
    keys: Option<Arc<Keys>>,
    wake: Condvar,
}

impl Reclaim {
    /// Loads the ranges that an earlier process has not finished. Invalid lines are skipped: ordinary compaction
    /// will reach their ranges.
    pub(crate) fn load(files: &Path, keys: Option<Arc<Keys>>) -> Reclaim {
        let notes = files.join(NOTES);
        let text = encrypted::read(&notes, keys.as_deref()).unwrap_or_default();
        let text = String::from_utf8(text).unwrap_or_default();
        let ranges: Vec<_> = text.lines().take(QUEUE_ENTRIES_MAX).filter_map(read_range).collect();
        if !ranges.is_empty() {
            log::info!(target: "STORAGE", id = 7_702_010, ranges = ranges.len();
                "Resuming the reclamation of the disk space of dropped collections and indexes");
        }
        let state = State { ranges, ..State::default() };
        Reclaim { state: Mutex::new(state), wake: Condvar::default(), notes, keys }
    }

    /// Queues a range and stores it in the file, so that the next process continues. If the queue is full, the
    /// range is left to ordinary compaction.
    pub(crate) fn push_noted(&self, space: Space, start: &[u8], end: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let range = (space, start.to_vec(), end.to_vec());
        if state.ranges.len() < QUEUE_ENTRIES_MAX && !state.ranges.contains(&range) {
            state.ranges.push(range);
            if space != Space::Spill {
                state.write(&self.notes, self.keys.as_deref())?;
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    /// The dropped ranges whose entries are still in files.
    pub(crate) fn ranges(&self) -> Vec<Range> {
        self.state.lock().ranges.clone()
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
            self.wake.wait_for(&mut state, PAUSE);
            return;
        }
        state.ranges.remove(0);
        if *space != Space::Spill
            && let Err(error) = state.write(&self.notes, self.keys.as_deref())
        {
            log::warn!(target: "STORAGE", id = 7_702_011, error:% = error;
                "The progress of the reclamation cannot be recorded; the next start repeats it");
        }
    }

    fn run(&self, db: &Weak<Db>) {
        loop {
            let mut state = self.state.lock();
            while state.ranges.is_empty() && !state.stopped {
                self.wake.wait(&mut state);
            }
            if state.stopped {
                return;
            }
            let range = state.ranges[0].clone();
            drop(state);
            let Some(db) = db.upgrade() else { return };
            self.rewrite(&db, &range);
        }
    }
}

/// Starts the thread.
pub(crate) fn start(reclaim: &Arc<Reclaim>, db: Weak<Db>) -> Result<JoinHandle<()>> {
    let reclaim = Arc::clone(reclaim);
    let thread = std::thread::Builder::new().name("reclaim".to_owned());
    Ok(thread.spawn(move || reclaim.run(&db))?)
}
