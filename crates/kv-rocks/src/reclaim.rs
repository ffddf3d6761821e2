//! The thread that gives back the space of dropped ranges.
//!
//! A dropped range is hidden by a tombstone at once, and files wholly within it are unlinked at
//! once. What shares files with its neighbours stays until those files are rewritten; this thread
//! asks for that, one range at a time, so that foreground work keeps most of the disk.
//!
//! The same thread looks every few seconds whether the data still fits into the cache: while it
//! does, compaction puts what it writes into the cache, so that reads never find it cold.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use nagi_kv::{Result, Space};
use parking_lot::{Condvar, Mutex};

use crate::db::{Db, Warm};

const LOOK_EACH: Duration = Duration::from_secs(5);

const QUEUE_ENTRIES_MAX: usize = 1024;

#[derive(Default)]
struct State {
    ranges: Vec<(Space, Vec<u8>, Vec<u8>)>,
    stopped: bool,
}

/// Ranges to rewrite.
#[derive(Default)]
pub(crate) struct Reclaim {
    state: Mutex<State>,
    wake: Condvar,
}

impl Reclaim {
    /// Queues a range. Neighbours are joined; when far too many wait, the newest is left to
    /// ordinary compaction.
    pub(crate) fn push(&self, space: Space, start: &[u8], end: &[u8]) {
        let mut state = self.state.lock();
        let waiting = state.ranges.len();
        let neighbour = state.ranges.iter_mut().find(|(s, _, e)| *s == space && e == start);
        match neighbour {
            Some((_, _, last)) => *last = end.to_vec(),
            None if waiting < QUEUE_ENTRIES_MAX => {
                state.ranges.push((space, start.to_vec(), end.to_vec()));
            }
            None => {}
        }
        self.wake.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    pub(crate) fn waiting_count(&self) -> usize {
        self.state.lock().ranges.len()
    }

    fn run(&self, db: &Weak<Db>, cache_bytes: u64) {
        let mut warm = Warm::All;
        loop {
            let mut state = self.state.lock();
            if state.ranges.is_empty() && !state.stopped {
                self.wake.wait_for(&mut state, LOOK_EACH);
            }
            if state.stopped {
                return;
            }
            let range = if state.ranges.is_empty() { None } else { Some(state.ranges.remove(0)) };
            drop(state);
            let Some(db) = db.upgrade() else { return };
            match range {
                Some((space, start, end)) => db.compact(space, &start, &end),
                None => warm = keep_warm(&db, cache_bytes, warm),
            }
        }
    }
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
    let warmed =
        |space: &Space| space.is_records() || [Space::Index, Space::Changes].contains(space);
    for space in db.spaces().filter(warmed) {
        if let Err(error) = db.set_warm(space, wanted) {
            log::warn!(target: "STORAGE", id = 7_702_005, error:% = error;
                "The cache's policy cannot be changed");
        }
    }
    log::debug!(target: "STORAGE", id = 7_702_006, policy:? = wanted, data_bytes = cached_bytes;
        "Changed which new blocks go to the cache");
    wanted
}

/// Starts the thread.
pub(crate) fn start(
    reclaim: &Arc<Reclaim>,
    db: Weak<Db>,
    cache_bytes: u64,
) -> Result<JoinHandle<()>> {
    let reclaim = Arc::clone(reclaim);
    let thread = std::thread::Builder::new().name("reclaim".to_owned());
    Ok(thread.spawn(move || reclaim.run(&db, cache_bytes))?)
}
