//! How long flushes of memtables took.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Limit of flushes whose beginning is known. A flush that fails has no end, so the oldest knowledge is dropped.
const RUNNING_MAX: usize = 64;

/// The flushes since the database was opened.
#[derive(Default)]
pub(crate) struct Flushes(Mutex<State>);

#[derive(Default)]
struct State {
    /// When the flushes in progress began, by number of the job.
    running: HashMap<i32, Instant>,
    times: FlushTimes,
}

/// Times of finished flushes, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlushTimes {
    pub(crate) count: u64,
    pub(crate) last_ms: u64,
    pub(crate) min_ms: u64,
    pub(crate) max_ms: u64,
    pub(crate) total_ms: u64,
}

impl Flushes {
    /// Records that a flush begins.
    pub(crate) fn begun(&self, job: i32, now: Instant) {
        let mut state = self.0.lock();
        if state.running.len() >= RUNNING_MAX {
            state.running.clear();
        }
        state.running.insert(job, now);
    }

    /// Records that a flush has ended. Returns how long it took.
    pub(crate) fn finished(&self, job: i32, now: Instant) -> Duration {
        let mut state = self.0.lock();
        let begun = state.running.remove(&job);
        let took = begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let times = &mut state.times;
        times.min_ms = if times.count == 0 { ms } else { times.min_ms.min(ms) };
        times.max_ms = times.max_ms.max(ms);
        times.last_ms = ms;
        times.total_ms = times.total_ms.saturating_add(ms);
        times.count += 1;
        took
    }

    pub(crate) fn times(&self) -> FlushTimes {
        self.0.lock().times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flush_has_its_own_time() {
        let (flushes, begin) = (Flushes::default(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(flushes.times(), FlushTimes::default());
        flushes.begun(1, at(0));
        flushes.begun(2, at(10));
        flushes.finished(2, at(15));
        flushes.finished(1, at(40));
        let wanted = FlushTimes { count: 2, last_ms: 40, min_ms: 5, max_ms: 40, total_ms: 45 };
        assert_eq!(flushes.times(), wanted);
        flushes.finished(3, at(50));
        assert_eq!((flushes.times().count, flushes.times().min_ms), (3, 0), "nobody saw it begin");
    }

    #[test]
    fn failed_flushes_are_not_kept_for_ever() {
        let flushes = Flushes::default();
        (0..1000).for_each(|job| flushes.begun(job, Instant::now()));
        assert!(flushes.0.lock().running.len() <= RUNNING_MAX);
    }
}
