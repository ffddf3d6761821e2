//! The figures of the last minutes, each second, and of the last hours, each 15 seconds.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::sample::{EVERY_MS, Sample};
use crate::stalls::Stall;

/// The time between two samples that are kept for hours.
pub(crate) const SPARSE_EVERY_MS: i64 = 15_000;
/// Ten minutes.
const SAMPLES_MAX: usize = 600;
/// Six hours, with the sample at their beginning.
const SPARSE_MAX: usize = 1441;
/// The number of stalls that are kept.
const STALLS_MAX: usize = 200;

#[derive(Default)]
struct Kept {
    samples: VecDeque<Arc<Sample>>,
    sparse: VecDeque<Arc<Sample>>,
    stalls: VecDeque<Stall>,
}

/// The history. About 2 MB when it is full.
#[derive(Default)]
pub(crate) struct History(Mutex<Kept>);

impl History {
    pub(crate) fn add(&self, sample: &Arc<Sample>) {
        let mut kept = self.0.lock();
        push(&mut kept.samples, sample.clone(), SAMPLES_MAX);
        let due = kept
            .sparse
            .back()
            .is_none_or(|last| sample.steady_ms - last.steady_ms >= SPARSE_EVERY_MS - EVERY_MS / 2);
        if due {
            push(&mut kept.sparse, sample.clone(), SPARSE_MAX);
        }
    }

    /// Adds a stall, or replaces the last one if it is the same stall, which has grown.
    pub(crate) fn add_stall(&self, stall: Stall) {
        let mut kept = self.0.lock();
        if kept.stalls.back().is_some_and(|last| last.from_ms == stall.from_ms) {
            kept.stalls.pop_back();
        }
        push(&mut kept.stalls, stall, STALLS_MAX);
    }

    /// The samples, oldest first: those of each second, or the sparse ones.
    pub(crate) fn samples(&self, sparse: bool) -> Vec<Arc<Sample>> {
        let kept = self.0.lock();
        let list = if sparse { &kept.sparse } else { &kept.samples };
        list.iter().cloned().collect()
    }

    /// The newest sample that is at least `ms` older than `now`, or the oldest one.
    pub(crate) fn before(&self, now: &Sample, ms: i64) -> Option<Arc<Sample>> {
        let kept = self.0.lock();
        let is_dense = ms < SAMPLES_MAX as i64 * EVERY_MS;
        let list = if is_dense { &kept.samples } else { &kept.sparse };
        let old = list.iter().rev().find(|sample| sample.steady_ms <= now.steady_ms - ms);
        old.or(list.front()).cloned()
    }

    /// The known values of a figure in the sparse samples, with their times by the steady clock.
    pub(crate) fn line(&self, figure: usize) -> Vec<(i64, f64)> {
        let kept = self.0.lock();
        let points = kept.sparse.iter().map(|sample| (sample.steady_ms, sample.values[figure]));
        points.filter(|point| !point.1.is_nan()).collect()
    }

    pub(crate) fn stalls(&self) -> Vec<Stall> {
        self.0.lock().stalls.iter().cloned().collect()
    }
}

fn push<T>(list: &mut VecDeque<T>, one: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(one);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latencies::Ended;

    fn sample(at_ms: i64) -> Arc<Sample> {
        Arc::new(Sample {
            at_ms,
            steady_ms: at_ms,
            values: Box::new([]),
            paused_ms: 0,
            ended: Ended::default(),
        })
    }

    #[test]
    fn both_lists_are_bounded() {
        let history = History::default();
        for second in 0..30_000 {
            history.add(&sample(second * EVERY_MS));
        }
        let (dense, sparse) = (history.samples(false), history.samples(true));
        assert_eq!((dense.len(), sparse.len()), (SAMPLES_MAX, SPARSE_MAX));
        assert_eq!(dense[0].at_ms, (30_000 - 600) * 1000);
        assert!(sparse.windows(2).all(|pair| pair[1].at_ms - pair[0].at_ms == SPARSE_EVERY_MS));
        // A clock that was set back does not end the history.
        let back = |steady_ms| Sample {
            at_ms: 5,
            steady_ms,
            values: Box::new([]),
            paused_ms: 0,
            ended: Ended::default(),
        };
        history.add(&Arc::new(back(30_010_000)));
        assert_eq!(history.samples(true).last().unwrap().at_ms, 5);
        let before = history.before(&back(30_020_000), 60_000).unwrap();
        assert_eq!(before.steady_ms, 29_960_000);
    }

    #[test]
    fn a_stall_that_grows_stays_one() {
        let history = History::default();
        let stall = |from_ms, to_ms| Stall { from_ms, to_ms, ..Stall::default() };
        for to_ms in [1, 2, 3] {
            history.add_stall(stall(1, to_ms));
        }
        for from_ms in 2..=300 {
            history.add_stall(stall(from_ms, from_ms + 1));
        }
        let stalls = history.stalls();
        assert_eq!((stalls.len(), stalls.last().unwrap().from_ms), (STALLS_MAX, 300));
    }
}
