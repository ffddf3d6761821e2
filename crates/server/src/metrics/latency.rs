//! Times of operations: sums, and histograms with MongoDB's buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nagi_bson::{ArrayWriter, DocWriter};
use nagi_percore::PerCore;

use super::Counter;

/// The number of buckets of a histogram.
pub(crate) const BUCKET_COUNT: usize = 51;

/// Lower bounds of the buckets of histograms in microseconds: powers of two, with one step in between in the most
/// important range.
pub static BOUNDS: [u64; BUCKET_COUNT] = bounds();

const fn bounds() -> [u64; BUCKET_COUNT] {
    let mut bounds = [0; BUCKET_COUNT];
    let mut at = 1;
    while at < BUCKET_COUNT {
        bounds[at] = match at {
            ..11 => 1 << at,
            11..31 if at % 2 == 1 => 1 << (11 + (at - 11) / 2),
            11..31 => 3 << (10 + (at - 11) / 2),
            _ => 1 << (at - 10),
        };
        at += 1;
    }
    bounds
}

/// The bucket of a time.
pub(crate) fn bucket(micros: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound <= micros).saturating_sub(1)
}

/// Appends the buckets that are not empty.
pub(crate) fn write_histogram(counts: &[u64; BUCKET_COUNT], list: &mut ArrayWriter<'_>) {
    for (bound, count) in BOUNDS.iter().zip(counts).filter(|(_, count)| **count > 0) {
        list.doc(|bucket| {
            bucket.put("micros", *bound as i64);
            bucket.put("count", *count as i64);
        });
    }
}

/// A histogram to which every core adds without writing what another one reads.
struct Buckets([AtomicU64; BUCKET_COUNT]);

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets([const { AtomicU64::new(0) }; BUCKET_COUNT])
    }
}

/// Total time and number of operations, and how many took how long.
#[derive(Default)]
pub(crate) struct Latency {
    pub(crate) micros: Counter,
    pub(crate) count: Counter,
    buckets: PerCore<Buckets>,
}

impl Latency {
    pub(crate) fn record(&self, micros: u64) {
        self.micros.add(micros);
        self.count.increment();
        self.buckets.own().0[bucket(micros)].fetch_add(1, Relaxed);
    }

    /// The number of operations by bucket.
    pub(crate) fn histogram(&self) -> [u64; BUCKET_COUNT] {
        let mut sum = [0; BUCKET_COUNT];
        for core in self.buckets.iter() {
            for (total, count) in sum.iter_mut().zip(&core.0) {
                *total += count.load(Relaxed);
            }
        }
        sum
    }

    /// Appends the fields of `opLatencies`.
    pub(crate) fn write(&self, histograms: bool, out: &mut DocWriter<'_>) {
        if histograms {
            out.array("histogram", |list| write_histogram(&self.histogram(), list));
        }
        out.put("latency", self.micros.get());
        out.put("ops", self.count.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_its_bucket() {
        assert!(BOUNDS.windows(2).all(|pair| pair[0] < pair[1]));
        for (at, bound) in BOUNDS.iter().enumerate() {
            assert_eq!(bucket(*bound), at);
            assert_eq!(bucket(bound.saturating_sub(1)), at.saturating_sub(1));
        }
        assert_eq!(bucket(u64::MAX), BUCKET_COUNT - 1);
    }

    #[test]
    fn what_is_recorded_is_counted_once() {
        let latency = Latency::default();
        for micros in [0, 1, 2, 3, 3000, 3000, u64::MAX / 2] {
            latency.record(micros);
        }
        let histogram = latency.histogram();
        assert_eq!(histogram.iter().sum::<u64>(), 7);
        assert_eq!((histogram[0], histogram[1], histogram[bucket(3000)]), (2, 2, 2));
    }
}
