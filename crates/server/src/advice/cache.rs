//! How large a cache would have to be to answer nearly all reads, from what is known of its reads. No access to data.
//!
//! Only the size of the block cache is advised: what it does not answer is read from the disk. Reads that the cache of
//! documents does not answer go to the blocks, and the server divides the memory between both by itself.

use nagi_budget::Division;
use nagi_store::CacheEstimate;

/// The share of the reads that the caches should answer.
pub(crate) const TARGET: f64 = 0.99;
/// From this share on a cache is large enough: the estimate is not more exact than that.
const ENOUGH: f64 = 0.98;
/// With fewer reads in the sample an estimate is no evidence. With so many, a share of misses of 1 % is known to within
/// 0.6 points (two standard deviations).
const SAMPLED_MIN: u64 = 1000;

/// What is known of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CacheSize {
    /// Its size.
    pub(crate) limit_bytes: u64,
    /// The share of the reads that it is expected to answer, from 0 to 1.
    pub(crate) hit_rate: f64,
    /// The size that answers [`TARGET`] of the reads; `None` if no size within the estimate does, as while most reads
    /// are the first ones of their data.
    pub(crate) enough_bytes: Option<u64>,
    pub(crate) sampled_reads: u64,
}

impl CacheSize {
    /// `None` if the evidence is too thin.
    pub(crate) fn of(estimate: &CacheEstimate) -> Option<CacheSize> {
        (estimate.sampled >= SAMPLED_MIN).then_some(CacheSize {
            limit_bytes: estimate.capacity,
            hit_rate: estimate.hit_rate(estimate.capacity)?,
            enough_bytes: estimate.bytes_for(TARGET),
            sampled_reads: estimate.sampled,
        })
    }

    /// The size that it should have; `None` if it is large enough, or if no size is known to help.
    pub(crate) fn wanted_bytes(&self) -> Option<u64> {
        self.enough_bytes.filter(|bytes| self.hit_rate < ENOUGH && *bytes > self.limit_bytes)
    }
}

/// The memory budget (`cacheSizeGB`) with which all caches together have `more` bytes than with the budget `present`.
pub(crate) fn budget_with(present: u64, more: u64) -> u64 {
    let caches = Division::of(present).caches.saturating_add(more);
    // The engine's part is a quarter at most, so each round is at least four times closer.
    (0..16).fold(caches, |budget, _| caches.saturating_add(Division::of(budget).engine))
}

#[cfg(test)]
mod tests {
    use nagi_kv::reuse::Reuse;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Reads in turn of `entries` of 1 MiB, `rounds` times, by a cache of `capacity` bytes.
    fn estimate(entries: u64, rounds: u64, capacity: u64) -> Option<CacheEstimate> {
        let reuse = Reuse::new(0, capacity);
        for _ in 0..rounds {
            (0..entries).for_each(|entry| reuse.read(entry, MIB));
        }
        let (curve, sampled) = reuse.curve(entries * rounds)?;
        Some(CacheEstimate { curve, sampled, capacity, reserved: 0, density: 1.0 })
    }

    #[test]
    fn a_cache_that_is_too_small_gets_the_size_of_what_is_read() {
        let size = CacheSize::of(&estimate(40, 200, 10 * MIB).unwrap()).unwrap();
        assert!(size.hit_rate < 0.01, "{size:?}");
        let wanted = size.wanted_bytes().unwrap();
        assert!((40 * MIB..48 * MIB).contains(&wanted), "{size:?}");
        assert_eq!(size.sampled_reads, 8000);
    }

    #[test]
    fn no_advice_without_need_or_evidence() {
        let enough = CacheSize::of(&estimate(40, 200, 64 * MIB).unwrap()).unwrap();
        assert!(enough.hit_rate > 0.99, "{enough:?}");
        assert_eq!(enough.wanted_bytes(), None);
        // 400 reads: serverStatus shows an estimate, but it is no evidence.
        assert_eq!(CacheSize::of(&estimate(4, 100, 2 * MIB).unwrap()), None);
        // Every tenth read is the first one of its data: no size helps.
        let cold = CacheSize::of(&estimate(400, 10, 200 * MIB).unwrap()).unwrap();
        assert_eq!((cold.enough_bytes, cold.wanted_bytes()), (None, None));
        // More than eight times the size is beyond the estimate.
        let far = CacheSize::of(&estimate(40, 200, 4 * MIB).unwrap()).unwrap();
        assert_eq!(far.wanted_bytes(), None, "{far:?}");
    }

    #[test]
    fn a_budget_has_the_engine_beside_the_caches() {
        for present in [64 * MIB, 256 * MIB, 1024 * MIB, 100 << 30] {
            for more in [0, MIB, 700 * MIB, 90 << 30] {
                let budget = budget_with(present, more);
                let caches = Division::of(budget).caches;
                let wanted = Division::of(present).caches + more;
                assert!(caches.abs_diff(wanted) <= 64, "{present} {more}: {caches} {wanted}");
            }
        }
    }
}
