//! Hit rates by cache size.

/// Buckets for each doubling of the size.
const PER_DOUBLING: f64 = 8.0;
/// The first bucket ends here.
const FIRST_BYTES: f64 = 4096.0;
/// The last one begins at 128 TiB.
const BUCKETS: usize = 36 * PER_DOUBLING as usize;

/// Reads by the size of the cache that would have answered them. 2.3 KiB.
#[derive(Clone)]
pub(super) struct Weights {
    by_size: Box<[f64]>,
    /// Reads that no cache answers: the first ones of their entries.
    cold: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { by_size: vec![0.0; BUCKETS].into(), cold: 0.0 }
    }
}

impl Weights {
    pub(super) fn add(&mut self, size: f64, weight: f64) {
        let at = ((size / FIRST_BYTES).log2() * PER_DOUBLING).ceil().max(0.0) as usize;
        self.by_size[at.min(BUCKETS - 1)] += weight;
    }

    pub(super) fn add_cold(&mut self, weight: f64) {
        self.cold += weight;
    }

    pub(super) fn scale(&mut self, by: f64) {
        self.by_size.iter_mut().for_each(|weight| *weight *= by);
        self.cold *= by;
    }

    /// The curve. `missing`: reads that the sample has too few, or (negative) too many. Those are reads of the most
    /// frequent entries, because all others are sampled in proportion; so they belong to the smallest caches.
    pub(super) fn curve(&self, missing: f64) -> Curve {
        let counted = self.by_size.iter().sum::<f64>() + self.cold;
        // An entry that every read needs, like the top of an index, stands for many times all reads if it is in the
        // sample: what is left without it may be a small part of what was counted. If nothing is left, the sample says
        // nothing.
        let missing = if counted + missing > 0.0 { missing } else { 0.0 };
        let mut sum = missing;
        let mut up_to_now = 0.0_f64;
        let shares = self.by_size.iter().map(|weight| {
            sum += weight;
            up_to_now = up_to_now.max((sum / (counted + missing)).clamp(0.0, 1.0));
            up_to_now
        });
        Curve { shares: shares.collect() }
    }
}

/// The expected hit rate of a cache by its size; it never falls with the size.
#[derive(Debug, Clone)]
pub struct Curve {
    shares: Box<[f64]>,
}

impl Curve {
    /// The share of reads that a cache of this size answers, from 0 to 1.
    pub fn hit_rate(&self, bytes: u64) -> f64 {
        let position = ((bytes as f64 / FIRST_BYTES).log2() * PER_DOUBLING).max(0.0);
        let (at, part) = (position as usize, position.fract());
        let share = |at: usize| self.shares[at.min(BUCKETS - 1)];
        share(at) * (1.0 - part) + share(at + 1) * part
    }

    /// The size of the smallest cache that answers this share of the reads, rounded up to a ninth; none if no size
    /// does.
    pub fn bytes_for(&self, share: f64) -> Option<u64> {
        let at = self.shares.iter().position(|one| *one >= share)?;
        Some((FIRST_BYTES * (at as f64 / PER_DOUBLING).exp2()).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_sizes() {
        let mut weights = Weights::default();
        weights.add(1.0, 1.0);
        weights.add(1_000_000.0, 2.0);
        weights.add_cold(1.0);
        let curve = weights.curve(0.0);
        assert_eq!(curve.hit_rate(4096), 0.25);
        assert_eq!((curve.hit_rate(900_000), curve.hit_rate(1_100_000)), (0.25, 0.75));
        assert_eq!(curve.hit_rate(u64::MAX), 0.75);
        assert_eq!(curve.hit_rate(0), 0.25);
        let bytes = curve.bytes_for(0.7).unwrap();
        assert!((1_000_000..1_100_000).contains(&bytes), "{bytes}");
        assert_eq!(curve.bytes_for(0.8), None);
    }

    #[test]
    fn a_correction_concerns_the_smallest_caches() {
        let mut weights = Weights::default();
        weights.add(4000.0, 6.0);
        weights.add(1_000_000.0, 2.0);
        let with = |missing| weights.curve(missing).hit_rate(10_000);
        assert_eq!((with(0.0), with(8.0), with(-4.0)), (0.75, 0.875, 0.5));
        // More than the entries of small caches, and more than all.
        assert_eq!((with(-7.0), with(-8.0)), (0.0, 0.75));
    }
}
