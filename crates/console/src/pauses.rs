//! Times in which the process did not run: the machine was suspended, its processors were taken, or the process or its
//! control group was stopped.
//!
//! A thread wakes ten times a second. It wakes late for one of two reasons, and only one of them is a pause:
//!
//! ```text
//!   the process did not run        nothing could wake it; no other thread ran either
//!   the processors were busy       it could run and waited for one: Linux counts that as its run delay;
//!                                  or threads of this process ran instead, and used processor time
//! ```
//!
//! So what it waited for a processor, and what the process used, is no pause. Where Linux does not count the delay,
//! only a lateness counts that a busy machine does not cause.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nagi_proc::Schedstat;
use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};

use crate::sample::steady_ms;

/// The time between two looks.
const EVERY_MS: i64 = 100;
/// The shortest lateness that is a pause: longer than what other pauses of a healthy machine take.
pub(crate) const PAUSE_MS: i64 = 200;
/// The same where run delays are not known.
const UNKNOWN_MS: i64 = 600;
/// How long the sampler waits for the thread that has been woken together with it.
const TOGETHER: Duration = Duration::from_millis(100);

/// What one look sees.
#[derive(Debug, Clone, Copy)]
struct Look {
    steady_ms: i64,
    /// For how long the thread has waited for a processor in its life.
    waited_ms: Option<i64>,
    /// Processor time of the process.
    used_ms: i64,
}

/// How long the process did not run between two looks, at least; 0 if it did. `processors` may run at a time.
fn pause_ms(before: Look, now: Look, processors: i64) -> i64 {
    let late_ms = now.steady_ms - before.steady_ms - EVERY_MS;
    let waited_ms = now.waited_ms.zip(before.waited_ms).map(|(now, before)| now - before);
    let least_ms = if waited_ms.is_some() { PAUSE_MS } else { UNKNOWN_MS };
    // What the process can have used before the thread was due says nothing of the time afterwards.
    let used_ms = (now.used_ms - before.used_ms - EVERY_MS * processors).max(0);
    let paused_ms = late_ms - waited_ms.unwrap_or(0) - used_ms;
    if paused_ms >= least_ms { paused_ms } else { 0 }
}

/// The pauses since the last question.
#[derive(Default)]
pub(crate) struct Pauses {
    state: Mutex<State>,
    /// The thread has looked, or is to end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    looked_ms: i64,
    paused_ms: i64,
    ends: bool,
}

impl Pauses {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        let own = Arc::clone(self);
        std::thread::Builder::new().name("consolePauses".to_owned()).spawn(move || own.watch())
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().ends = true;
        self.changed.notify_all();
    }

    /// For how many milliseconds the process did not run since the last call. If the thread has just been woken from a
    /// pause together with the caller, this waits until it has looked.
    pub(crate) fn take(&self) -> i64 {
        let mut state = self.state.lock();
        let looked_ms = state.looked_ms;
        if looked_ms > 0 && steady_ms() - looked_ms - EVERY_MS >= PAUSE_MS {
            let looks = |state: &mut State| state.looked_ms == looked_ms && !state.ends;
            self.changed.wait_while_for(&mut state, looks, TOGETHER);
        }
        std::mem::take(&mut state.paused_ms)
    }

    fn watch(&self) {
        let processors = nagi_proc::machine::processor_count() as i64;
        let mut schedstat = Schedstat::of_this_thread();
        let mut look = || Look {
            steady_ms: steady_ms(),
            waited_ms: schedstat
                .as_mut()
                .and_then(Schedstat::waited)
                .map(|all| all.as_millis() as i64),
            used_ms: used_ms(),
        };
        let mut before = look();
        let mut state = self.state.lock();
        while !state.ends {
            let due = Duration::from_millis(EVERY_MS as u64);
            // The sampler's wait does not notify, so that only the end does.
            self.changed.wait_while_for(&mut state, |state| !state.ends, due);
            let now = look();
            state.paused_ms += pause_ms(before, now, processors);
            state.looked_ms = now.steady_ms;
            self.changed.notify_all();
            before = now;
        }
    }
}

/// Milliseconds of processor time that the process has used.
fn used_ms() -> i64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec * 1000 + used.tv_nsec / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look after `ms`, in which the thread waited and the process ran for so long.
    fn pause(ms: i64, waited_ms: Option<i64>, used_ms: i64) -> i64 {
        let before = Look { steady_ms: 5000, waited_ms: waited_ms.map(|_| 70), used_ms: 900 };
        let now = Look {
            steady_ms: 5000 + ms,
            waited_ms: waited_ms.map(|waited| 70 + waited),
            used_ms: 900 + used_ms,
        };
        pause_ms(before, now, 2)
    }

    #[test]
    fn a_process_that_did_not_run_was_paused() {
        assert_eq!(pause(100, Some(0), 0), 0);
        assert_eq!(pause(290, Some(0), 0), 0);
        assert_eq!(pause(300, Some(0), 0), 200);
        assert_eq!(pause(5100, Some(1), 3), 4999);
        // Both processors were used until then.
        assert_eq!(pause(400, Some(5), 200), 295);
    }

    #[test]
    fn a_busy_machine_is_no_pause() {
        // It waited for a processor, behind others.
        assert_eq!(pause(900, Some(780), 0), 0);
        // It did not, but threads of this process ran: it waited for something of its own.
        assert_eq!(pause(900, Some(0), 1700), 0);
        // Both, and a pause besides.
        assert_eq!(pause(1500, Some(300), 500), 800);
    }

    #[test]
    fn where_delays_are_not_known_only_long_ones_count() {
        assert_eq!([pause(690, None, 0), pause(700, None, 0)], [0, 600]);
        assert_eq!(pause(1500, None, 2000), 0);
    }

    #[test]
    fn the_thread_looks_and_ends() {
        let pauses = Arc::<Pauses>::default();
        let thread = pauses.start().unwrap();
        let mut state = pauses.state.lock();
        for _ in 0..2 {
            let looked_ms = state.looked_ms;
            pauses.changed.wait_while(&mut state, |state| state.looked_ms == looked_ms);
        }
        state.paused_ms += 10_000;
        drop(state);
        assert!(pauses.take() >= 10_000);
        pauses.stop();
        thread.join().unwrap();
    }
}
