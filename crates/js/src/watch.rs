//! The thread that has slow scripts asked in time: it looks at the interrupts of all engines every few
//! milliseconds, and sets the countdown of those that shall end ([`Countdown`]). It runs only while
//! there are engines.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::Interrupt;
use crate::raw::Countdown;

/// Between two polls.
const NAP: Duration = Duration::from_millis(10);

/// The engines that are watched.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    engines: Vec<(u64, Countdown, Interrupt)>,
    next: u64,
    /// Whether the thread runs.
    awake: bool,
}

/// An engine that is watched until this is dropped.
pub(crate) struct Watched {
    watch: Arc<Watch>,
    number: u64,
}

impl Watch {
    /// Watches an engine.
    pub(crate) fn add(self: &Arc<Watch>, countdown: Countdown, interrupt: Interrupt) -> Watched {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.engines.push((number, countdown, interrupt));
        if !state.awake {
            let own = Arc::clone(self);
            let spawned =
                std::thread::Builder::new().name("js-watch".into()).spawn(move || own.run());
            state.awake = spawned.is_ok();
            if let Err(error) = spawned {
                // Scripts still ask by themselves at every 10,000th call.
                log::warn!(target: "QUERY", id = 8200091, error = error.to_string();
                    "Cannot start the thread that watches scripts");
            }
        }
        Watched { watch: Arc::clone(self), number }
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.engines.is_empty() {
            for (_, countdown, interrupt) in &state.engines {
                if interrupt().is_err() {
                    countdown.end();
                }
            }
            self.changed.wait_for(&mut state, NAP);
        }
        state.awake = false;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut state = self.watch.state.lock();
        state.engines.retain(|(number, ..)| *number != self.number);
        if state.engines.is_empty() {
            self.watch.changed.notify_one();
        }
    }
}
