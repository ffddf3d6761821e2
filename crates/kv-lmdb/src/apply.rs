//! The `dataFileSync` thread: moves commits from memory to the data file, and the backpressure on commits that
//! outrun it.
//!
//!   freeze   a new active layer takes over; the old one takes no more commits; the log is synced up to that point
//!   write    step.rs: in synced steps, or in one transaction if the log cannot be synced
//!   finish   the last step stores the stamp; the frozen layer is dropped; its log segments are released
//!
//! Each step publishes a new view whose base includes the step. The frozen layer above it holds the same data, so
//! readers may use any of these views. A crash between steps loses nothing: the log still has the whole layer, and
//! writing it again gives the same result.
//!
//! Backpressure: while a layer is being written, the active layer may grow to `layer_bytes`. Beyond that each
//! commit sleeps for a short time that grows with the excess, and at three times the size commits wait.

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

/// The longest sleep of a commit that does not have to wait.
const SLEEP_MAX: Duration = Duration::from_micros(2000);
/// The maximum wait of a commit for memory while the data file cannot be written; afterwards it is refused.
const WAIT_MAX: Duration = Duration::from_secs(30);
const LOOK_EACH: Duration = Duration::from_millis(20);

/// Wakes the thread and reports its progress.
#[derive(Default)]
pub(crate) struct Applier {
    state: Mutex<Wanted>,
    wake: Condvar,
    /// Number of layers that were written to the data file since the start.
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
                // After a failure the next attempt is made after a second, not at the next request.
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
    /// On return every earlier commit is in the data file and durable.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _files = self.files.lock();
        self.journal.trust().check()?;
        // A layer that an earlier attempt left frozen goes first.
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
        // After a power cut between two steps, the rest must come from the log.
        match self.sync_ahead()? {
            true => self.apply_in_steps(&layer)?,
            false => self.apply_whole(&layer)?,
        }
        self.finish(applied)
    }

    /// Removes the frozen layer, which is in the file, from the view and releases its log segments.
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

    /// Releases the log segments whose records are all in the data file.
    pub(crate) fn give_back(&self, applied: u64) -> Result<()> {
        let (free, spares) = {
            let mut writer = self.commit.lock();
            (writer.log.release(applied), Arc::clone(writer.log.spares()))
        };
        free.iter().try_for_each(|path| spares.add(path))
    }

    /// Backpressure on a commit of `bytes`; see the module's header. Returns an error if the commit was refused.
    pub(crate) fn slow_down(&self, bytes: usize) -> Result<()> {
        let active = self.views.load().active().table.byte_count();
        if active <= self.layer_bytes {
            return Ok(());
        }
        self.applier.wake();
        let over = (active - self.layer_bytes) as f64 / self.layer_bytes as f64;
        if over < 2.0 {
            // The sleep is proportional to the commit's size, so that small commits do not pay for large ones.
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
