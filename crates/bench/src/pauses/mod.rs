//! Detects pauses of the machine itself: a server cannot answer while its processor is taken away.
//!
//! A thread on each processor sleeps for a millisecond at a time, with real-time priority where permitted, and
//! records each time that it woke much later. On a virtual machine whose host is overcommitted such pauses last
//! tens of milliseconds and are part of every measured latency. They are reported next to the stalls and never
//! subtracted. Without the right to real-time priority (root has it) a busy processor cannot be distinguished
//! from a pause; then nothing is recorded.
mod ffi;
mod others;

pub(crate) use others::Others;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(1);
/// Shorter pauses are not recorded.
const LEAST: Duration = Duration::from_millis(10);
const KEPT_MAX: usize = 100_000;

/// A pause: its time since the beginning of the watch, and its duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    pub(crate) at: Duration,
    pub(crate) took: Duration,
}

/// The watching threads.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Option<Vec<Pause>>>>,
}

impl Watch {
    pub(crate) fn start(begin: Instant) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(1, usize::from);
        let watch = |processor| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || watch(processor, begin, &stop))
        };
        let threads = (0..count).map(watch).collect();
        Watch { stop, threads }
    }

    /// All pauses of all processors; none if they cannot be distinguished from a busy processor.
    pub(crate) fn finish(self) -> Option<Vec<Pause>> {
        self.stop.store(true, Ordering::Relaxed);
        let found = self.threads.into_iter().map(|thread| thread.join().ok().flatten());
        found.collect::<Option<Vec<_>>>().map(|all| all.concat())
    }
}

fn watch(processor: usize, begin: Instant, stop: &AtomicBool) -> Option<Vec<Pause>> {
    if !ffi::pin(processor) || !ffi::real_time() {
        return None;
    }
    let mut found = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let asleep = Instant::now();
        thread::sleep(SLEEP);
        let late = asleep.elapsed().saturating_sub(SLEEP);
        if late >= LEAST && found.len() < KEPT_MAX {
            found.push(Pause { at: asleep.saturating_duration_since(begin), took: late });
        }
    }
    Some(found)
}

/// Returns true if a pause covers at least half of the operation's time.
pub(crate) fn explains(pauses: &[Pause], at: Duration, took: Duration) -> bool {
    let inside = |pause: &Pause| {
        let (from, to) = (pause.at.max(at), (pause.at + pause.took).min(at + took));
        to.saturating_sub(from)
    };
    pauses.iter().any(|pause| inside(pause) * 2 >= took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_explains_what_lies_mostly_in_it() {
        let ms = Duration::from_millis;
        let pauses = [Pause { at: ms(100), took: ms(60) }];
        assert!(explains(&pauses, ms(90), ms(75)));
        assert!(explains(&pauses, ms(130), ms(55)));
        assert!(!explains(&pauses, ms(140), ms(55)));
        assert!(!explains(&pauses, ms(300), ms(55)) && !explains(&[], ms(100), ms(60)));
    }
}
