//! Commits go from memory to the data file.
//!
//!   freeze   a new active layer; the old one takes no more commits; the log is synced up to there
//!   write    step.rs: in synced steps, or all at once when the log could not be synced
//!   finish   the last step notes the stamp; the frozen layer goes; log segments are free
//!
//! Each step is followed by a new view whose base has it: the frozen layer above says the same, so readers
//! may get any of these views. A crash between steps is no harm either: the log still has all of it, and
//! to write it again gives the same.
//!
//! Back-pressure: while a layer is being written, the active one may reach its size; beyond that each
//! commit sleeps a little, longer the fuller it is, and waits at three times the size.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nagi_kv::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::{
    core::Core,
    view::{Layer, View},
};

/// A commit's longest sleep while it is not refused.
const SLEEP_MAX: Duration = Duration::from_micros(2000);
/// How long a commit waits for room in memory when the file cannot be written.
const WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK_EACH: Duration = Duration::from_millis(20);

/// Wakes the thread and tells of its progress.
#[derive(Default)]
pub(crate) struct Applier {
    state: Mutex<Wanted>,
    wake: Condvar,
    /// Times that commits were brought to the data file, since the start.
    finished: AtomicU64,
}

#[derive(Default)]
struct Wanted {
    wanted: bool,
    stopped: bool,
    failed: bool,
}

impl Applier {
    pub(crate) fn wake(&self) {
        let mut state = self.state.lock();
        if !state.wanted {
            state.wanted = true;
            self.wake.notify_all();
        }
    }

    pub(crate) fn finished_count(&self) -> u64 {
        self.finished.load(Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    fn run(&self, core: &Weak<Core>, period: Duration) {
        loop {
            {
                let mut state = self.state.lock();
                // After a failure only time helps.
                let wait = if state.failed { Duration::from_secs(1) } else { period };
                let deadline = Instant::now() + wait;
                while !state.stopped && (!state.wanted || state.failed) {
                    if self.wake.wait_until(&mut state, deadline).timed_out() {
                        break;
                    }
                }
                if state.stopped {
                    return;
                }
                state.wanted = false;
            }
            let Some(core) = core.upgrade() else { return };
            let result = core.checkpoint();
            let mut state = self.state.lock();
            if let Err(error) = &result
                && !state.failed
            {
                log::error!(target: "STORAGE", id = 7_703_002, error:% = error;
                    "The data file cannot be written");
            }
            state.failed = result.is_err();
        }
    }
}

/// Starts the thread.
pub(crate) fn start(
    applier: &Arc<Applier>,
    core: Weak<Core>,
    period: Duration,
) -> Result<JoinHandle<()>> {
    let applier = Arc::clone(applier);
    let thread = std::thread::Builder::new().name("dataFileSync".to_owned());
    Ok(thread.spawn(move || applier.run(&core, period))?)
}

impl Core {
    /// Everything committed before is in the data file, and that on disk, when this returns.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _files = self.files.lock();
        // What an earlier attempt left goes first.
        self.apply_frozen()?;
        self.freeze();
        self.apply_frozen()
    }

    fn freeze(&self) {
        let writer = self.commit.lock();
        let view = self.views.load();
        if view.active().is_empty() || view.frozen().is_some() {
            return;
        }
        view.active().freeze(writer.covered);
        let layers = vec![Arc::new(Layer::new()), Arc::clone(view.active())];
        let base = Arc::clone(&view.base);
        self.views.store(Arc::new(View { layers, base }));
        self.applier.wake.notify_all();
    }

    fn apply_frozen(&self) -> Result<()> {
        let Some(layer) = self.views.load().frozen().cloned() else { return Ok(()) };
        let applied = layer.end();
        // If the power goes between two steps, the rest must come from the log.
        match self.sync_ahead()? {
            true => self.apply_in_steps(&layer)?,
            false => self.apply_whole(&layer)?,
        }
        self.finish(applied)
    }

    /// The frozen layer is in the file.
    fn finish(&self, applied: u64) -> Result<()> {
        {
            let _writer = self.commit.lock();
            let view = self.views.load();
            let layers = vec![Arc::clone(view.active())];
            let base = Arc::clone(&view.base);
            self.views.store(Arc::new(View { layers, base }));
        }
        self.applier.finished.fetch_add(1, Relaxed);
        self.applier.wake.notify_all();
        self.give_back(applied)
    }

    /// Log segments of which everything is in the file may be used again.
    pub(crate) fn give_back(&self, applied: u64) -> Result<()> {
        let (free, spares) = {
            let mut writer = self.commit.lock();
            (writer.log.release(applied), Arc::clone(writer.log.spares()))
        };
        free.iter().try_for_each(|path| spares.add(path))
    }

    /// Early back-pressure; see the module's header.
    pub(crate) fn slow_down(&self, bytes: usize) -> Result<()> {
        let active = self.views.load().active().table.byte_count();
        if active <= self.layer_bytes {
            return Ok(());
        }
        self.applier.wake();
        let over = (active - self.layer_bytes) as f64 / self.layer_bytes as f64;
        if over < 2.0 {
            // By the bytes, so that small commits are not punished for large ones.
            let share = (bytes as f64 / 1024.0).max(1.0);
            let sleep = Duration::from_micros((over * over * 20.0 * share) as u64);
            std::thread::sleep(sleep.min(SLEEP_MAX));
            return Ok(());
        }
        let deadline = Instant::now() + WAIT_MAX;
        let mut state = self.applier.state.lock();
        while self.views.load().active().table.byte_count() > self.layer_bytes * 3 {
            if state.stopped || (state.failed && Instant::now() >= deadline) {
                return Err(Error::other("the data file cannot be written; the write was refused"));
            }
            self.applier.wake.wait_for(&mut state, LOOK_EACH);
        }
        Ok(())
    }
}
