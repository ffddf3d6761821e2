//! How old timestamps are, by the clock of this machine.
//!
//! The oracle's timestamps are times of day, which jump when another placement driver with another clock becomes the
//! leader. They keep their order. So this process remembers some timestamps that it has taken, and when:
//!
//! ```text
//!   this clock   asked -- received        asked -- received            now
//!   oracle            5000                     9000
//!   a timestamp 7000 was taken after 5000 was asked for, and before 9000 was received
//! ```
//!
//! Where it has none that is older, because it has just started, the oracle's times are compared.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::stamps::millis_of;

/// The time between two timestamps that are remembered: ages are known so exactly.
const EACH: Duration = Duration::from_secs(2);
/// Timestamps that are remembered: those of 20 minutes.
const COUNT_MAX: usize = 600;

/// A timestamp of the oracle.
#[derive(Clone, Copy)]
struct Sample {
    version: u64,
    asked: Instant,
    received: Instant,
}

/// See the module's header.
pub(crate) struct Ages {
    origin: Instant,
    each: Duration,
    /// When the next one is remembered, in milliseconds since the origin.
    next_ms: AtomicU64,
    /// In ascending order.
    samples: Mutex<VecDeque<Sample>>,
}

impl Ages {
    pub(crate) fn new() -> Ages {
        Ages::with(EACH)
    }

    fn with(each: Duration) -> Ages {
        let next_ms = AtomicU64::new(0);
        Ages { origin: Instant::now(), each, next_ms, samples: Mutex::default() }
    }

    /// A timestamp was asked for at `asked`, and has just arrived. Mostly a look at the clock.
    pub(crate) fn note(&self, version: u64, asked: Instant) {
        let received = Instant::now();
        let now_ms = millis(received.saturating_duration_since(self.origin));
        let next_ms = self.next_ms.load(Relaxed);
        let later = now_ms + millis(self.each);
        if now_ms < next_ms
            || self.next_ms.compare_exchange(next_ms, later, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let mut samples = self.samples.lock();
        if samples.back().is_none_or(|last| last.version < version) {
            samples.push_back(Sample { version, asked, received });
            if samples.len() > COUNT_MAX {
                samples.pop_front();
            }
        }
    }

    /// How old a timestamp is at most; `now`: one that was taken just now.
    pub(crate) fn at_most(&self, version: u64, now: u64) -> Duration {
        let samples = self.samples.lock();
        let later = samples.partition_point(|sample| sample.version <= version);
        match later.checked_sub(1).and_then(|before| samples.get(before)) {
            Some(before) => before.asked.elapsed(),
            None => Duration::from_millis(millis_of(now).saturating_sub(millis_of(version))),
        }
    }

    /// The newest timestamp that is so old at least; none if this process knows none. Whoever has taken one before it
    /// has asked for that longer ago.
    pub(crate) fn at_least(&self, age: Duration) -> Option<u64> {
        let samples = self.samples.lock();
        let younger = samples.partition_point(|sample| sample.received.elapsed() >= age);
        younger.checked_sub(1).and_then(|last| samples.get(last)).map(|sample| sample.version)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(millis: u64) -> u64 {
        millis << 18
    }

    /// The oracle's times jump between the second and the third sample.
    #[test]
    fn ages_are_those_of_this_clock() {
        let ages = Ages::with(Duration::ZERO);
        let now = Instant::now();
        let ago =
            |seconds| now.checked_sub(Duration::from_secs(seconds)).expect("the machine runs");
        let samples = [(1000, 30, 29), (2000, 20, 19), (900_000, 10, 9)].map(|(at, asked, got)| {
            Sample { version: version(at), asked: ago(asked), received: ago(got) }
        });
        ages.samples.lock().extend(samples);
        let seconds = |at| ages.at_most(version(at), version(910_000)).as_secs();
        assert_eq!((seconds(1000), seconds(1999), seconds(2000)), (30, 30, 20));
        assert_eq!((seconds(899_999), seconds(900_000), seconds(950_000)), (20, 10, 10));
        assert_eq!(seconds(0), 910, "by the oracle, as this process knows no older one");
        let older = |seconds| ages.at_least(Duration::from_secs(seconds));
        assert_eq!((older(9), older(10)), (Some(version(900_000)), Some(version(2000))));
        assert_eq!((older(29), older(30)), (Some(version(1000)), None));
    }

    #[test]
    fn some_are_remembered() {
        let ages = Ages::new();
        for at in 0..1000 {
            ages.note(version(at), Instant::now());
        }
        assert!(ages.samples.lock().len() < 10);
        let ages = Ages::with(Duration::ZERO);
        for at in 0..2000 {
            ages.note(version(at), Instant::now());
            ages.note(version(at / 2), Instant::now());
        }
        let samples = ages.samples.lock();
        assert_eq!(samples.len(), COUNT_MAX);
        assert!(samples.iter().map(|sample| sample.version).is_sorted_by(|a, b| a < b));
    }
}
