//! Throttles long background jobs while clients work.
//!
//! Index builds, the deletion of expired documents and compactions work in small batches with an interrupt check in
//! between. At each check they also pause: half as long as the batch took if clients ran operations in the meantime,
//! not at all otherwise. The disk writes that they leave behind are spread over time by the engine's governor.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::metrics::Metrics;

/// Work shorter than this does not pause.
const WORK_MIN: Duration = Duration::from_millis(1);
/// The maximum pause, so that a job notices its cancellation promptly.
const REST_MAX: Duration = Duration::from_millis(20);
/// The ratio of pause to work.
const REST_SHARE: f64 = 0.5;
/// Below this rate of client operations per second a job does not pause.
const OPERATIONS_PER_S: f64 = 50.0;

/// The throttle of one job; used by the thread that works.
pub(crate) struct Pace<'m> {
    metrics: &'m Metrics,
    since: Cell<Instant>,
    operations: Cell<i64>,
}

impl Pace<'_> {
    pub(crate) fn new(metrics: &Metrics) -> Pace<'_> {
        let pace = Pace { metrics, since: Cell::new(Instant::now()), operations: Cell::new(0) };
        pace.operations.set(pace.seen());
        pace
    }

    /// Pauses if clients worked since the last call. Must be called between batches.
    pub(crate) fn rest(&self) {
        let worked = self.since.get().elapsed();
        if worked < WORK_MIN {
            return;
        }
        let operations = self.seen() - self.operations.get();
        if operations as f64 >= worked.as_secs_f64() * OPERATIONS_PER_S && operations > 0 {
            let rest = worked.mul_f64(REST_SHARE).min(REST_MAX);
            std::thread::sleep(rest);
            self.metrics.job_rests.increment();
            self.metrics.job_rest_micros.add(rest.as_micros() as u64);
        }
        self.operations.set(self.seen());
        self.since.set(Instant::now());
    }

    fn seen(&self) -> i64 {
        self.metrics.reads.count.get() + self.metrics.writes.count.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() {
        let begin = Instant::now();
        while begin.elapsed() < WORK_MIN * 2 {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_job_rests_only_while_clients_work() {
        let metrics = Metrics::default();
        let pace = Pace::new(&metrics);
        pace.rest();
        work();
        pace.rest();
        assert_eq!(metrics.job_rests.get(), 0);
        for _ in 0..1000 {
            metrics.reads.record(10);
        }
        work();
        pace.rest();
        assert_eq!(metrics.job_rests.get(), 1);
        let rested = metrics.job_rest_micros.get();
        assert!((1000..=20_000).contains(&rested), "{rested}");
        // Operations that were counted once are not counted again.
        work();
        pace.rest();
        assert_eq!(metrics.job_rests.get(), 1);
    }
}
