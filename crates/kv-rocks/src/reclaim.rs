//! The thread that gives back the space of dropped ranges.
//!
//! A dropped range is hidden by a tombstone at once, and files wholly within it are unlinked at
//! once. What shares files with its neighbours stays until those files are rewritten; this thread
//! asks for that, one range at a time, so that foreground work keeps most of the disk.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
};

use nagi_kv::{Result, Space};
use parking_lot::{Condvar, Mutex};

use crate::db::Db;

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

    fn run(&self, db: &Weak<Db>) {
        loop {
            let (space, start, end) = {
                let mut state = self.state.lock();
                loop {
                    if state.stopped {
                        return;
                    }
                    if !state.ranges.is_empty() {
                        break state.ranges.remove(0);
                    }
                    self.wake.wait(&mut state);
                }
            };
            let Some(db) = db.upgrade() else { return };
            db.compact(space, &start, &end);
        }
    }
}

/// Starts the thread.
pub(crate) fn start(reclaim: &Arc<Reclaim>, db: Weak<Db>) -> Result<JoinHandle<()>> {
    let reclaim = Arc::clone(reclaim);
    let thread = std::thread::Builder::new().name("reclaim".to_owned());
    Ok(thread.spawn(move || reclaim.run(&db))?)
}
