//! Counts latencies in nanoseconds, in buckets of about 1.6 % width.
//!
//! The bucket is derived from the leading bit and the six bits after it, so recording takes a few instructions
//! and a histogram always occupies 30 KB. The maximum is kept exactly.

const SUB_BITS: u32 = 6;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { buckets: vec![0; BUCKETS], count: 0, max: 0 }
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.max = self.max.max(ns);
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The largest recorded value.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The value below which this share (0 to 1) of all values lies, accurate to the width of a bucket.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted && *n > 0 {
                return upper(index).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(value: u64) -> usize {
    let bits = 64 - value.leading_zeros();
    if bits <= SUB_BITS {
        return value as usize;
    }
    let shift = bits - SUB_BITS - 1;
    ((shift as usize + 1) << SUB_BITS) + ((value >> shift) as usize & ((1 << SUB_BITS) - 1))
}

fn upper(index: usize) -> u64 {
    let (group, sub) = (index >> SUB_BITS, (index & ((1 << SUB_BITS) - 1)) as u64);
    if group == 0 {
        return sub;
    }
    let shift = group - 1;
    (((1 << SUB_BITS) + sub + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bucket() {
        let mut h = Histogram::new();
        for ns in 1..=100_000 {
            h.record(ns);
        }
        for (share, expected) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let seen = h.quantile(share) as f64;
            assert!((seen / expected - 1.0).abs() < 0.02, "{share}: {seen}");
        }
        assert_eq!((h.max(), h.count(), h.quantile(1.0)), (100_000, 100_000, 100_000));
    }

    #[test]
    fn buckets_are_monotonic_and_bounded() {
        let values = [0, 1, 63, 64, 65, 127, 128, 1 << 20, (1 << 40) + 5, u64::MAX];
        for pair in values.windows(2) {
            assert!(bucket(pair[0]) < bucket(pair[1]) && bucket(pair[1]) < BUCKETS);
        }
    }
}
