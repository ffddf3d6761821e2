//! What a cache of another size would do: an estimate from a sample of its reads.
//!
//! A read finds its entry in a cache with LRU eviction exactly if the cache is larger than the *reuse distance*: the
//! bytes of the different entries that were used since the previous use of this one. So the distances of all reads give
//! the hit rates of all sizes at once. To know them, all entries would have to be remembered; a sample of the entries
//! is enough (SHARDS, Waldspurger et al., FAST 2015): those whose hash is below a threshold, with all of their reads.
//!
//! ```text
//!   read of a  --hash(a) < threshold?--no--> nothing: one comparison
//!                        |yes
//!                        v
//!   [a b c d e]  distance = (bytes of b..e) / rate + bytes of a  --> counted at this size;  [b c d e a]
//! ```
//!
//! Memory is bounded by the number of entries in the sample: when there are too many, the threshold is halved and
//! half of them leave. Entries farther away than [`REACH`] times the cache's size leave as well. A read counts
//! as much as the entries that the sample stands for. Counts are halved every ten minutes, so the estimate follows
//! the load.
//!
//! Called by the record cache of `store` and by the block cache of RocksDB. Decision 089 has the reasons, and the
//! errors that were measured.

mod curve;
mod stack;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use curve::Curve;
use curve::Weights;
use stack::{ENTRIES_MAX, Stack};

/// Entries that were not used for so many times the cache's size are forgotten: the largest size with an estimate.
pub const REACH: u64 = 8;
/// The counts are halved in this time.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// If the number of all reads is told less often, there is no correction by it: older counts have faded by then.
const CORRECTED_WITHIN: Duration = Duration::from_secs(120);
/// With fewer reads in the sample, the estimate would be noise.
const SAMPLED_MIN: f64 = 300.0;

/// A sample of the reads of one cache. Bounded by 256 KiB.
pub struct Reuse {
    /// Entries with a smaller hash are sampled.
    threshold: AtomicU64,
    threshold_most: u64,
    state: Mutex<State>,
}

struct State {
    stack: Stack,
    weights: Weights,
    /// Size of the cache in bytes of entries, and the greatest one since the sample began.
    capacity: u64,
    capacity_most: u64,
    halved_at: Instant,
    /// Reads of the sample, halved like the weights.
    sampled: f64,
    /// The weights of all reads of the sample since `last`.
    weight_since: f64,
    /// Reads that the sample has too few or too many.
    missing: f64,
    /// The number of all reads as it was told last, and when that was.
    last: Option<(u64, Instant)>,
}

impl Reuse {
    /// Samples at most one of `2^shift` entries.
    pub fn new(shift: u32, capacity: u64) -> Reuse {
        let threshold = u64::MAX >> shift;
        let state = State {
            stack: Stack::new(),
            weights: Weights::default(),
            capacity,
            capacity_most: capacity,
            halved_at: Instant::now(),
            sampled: 0.0,
            weight_since: 0.0,
            missing: 0.0,
            last: None,
        };
        Reuse {
            threshold: AtomicU64::new(threshold),
            threshold_most: threshold,
            state: Mutex::new(state),
        }
    }

    /// True if the entry with this hash is in the sample. The hash must be evenly distributed. The other calls are for
    /// such entries only.
    #[inline]
    pub fn samples(&self, hash: u64) -> bool {
        hash < self.threshold.load(Relaxed)
    }

    /// The threshold of [`Reuse::samples`], for a comparison outside Rust.
    pub fn threshold(&self) -> &AtomicU64 {
        &self.threshold
    }

    /// A read, whether or not the cache has the entry. `bytes`: the entry's size; 0 if it is not known, in which case a
    /// new entry comes by [`Reuse::cached`]. While another thread is here, the read is not counted.
    pub fn read(&self, hash: u64, bytes: u64) {
        self.read_at(hash, bytes, Instant::now());
    }

    fn read_at(&self, hash: u64, bytes: u64, now: Instant) {
        let Some(mut state) = self.state.try_lock() else { return };
        state.fade(now);
        let rate = self.rate();
        state.sampled += 1.0;
        state.weight_since += 1.0 / rate;
        match state.stack.use_again(hash) {
            Some((after, own)) => {
                state.weights.add(after as f64 / rate + own as f64, 1.0 / rate);
            }
            None => state.weights.add_cold(1.0 / rate),
        }
        if bytes > 0 {
            self.put(&mut state, hash, bytes);
        }
    }

    /// The entry was put into the cache: after a read that did not find it, or before any read.
    pub fn cached(&self, hash: u64, bytes: u64) {
        if let Some(mut state) = self.state.try_lock() {
            self.put(&mut state, hash, bytes);
        }
    }

    /// The entry is no longer valid: its next read misses, whatever the cache's size.
    pub fn removed(&self, hash: u64) {
        if let Some(mut state) = self.state.try_lock() {
            state.stack.remove(hash);
        }
    }

    fn put(&self, state: &mut State, hash: u64, bytes: u64) {
        // The threshold may have been lowered since the caller compared.
        if !self.samples(hash) {
            return;
        }
        state.stack.put(hash, u32::try_from(bytes).unwrap_or(u32::MAX));
        let reach = state.capacity.saturating_mul(REACH) as f64 * self.rate();
        while state.stack.bytes() as f64 > reach && state.stack.len() > 1 {
            state.stack.remove_oldest();
        }
        if state.stack.len() > ENTRIES_MAX {
            let threshold = self.threshold.load(Relaxed) / 2;
            self.threshold.store(threshold, Relaxed);
            state.stack.keep_below(threshold);
        }
    }

    /// The share of entries that are sampled.
    fn rate(&self) -> f64 {
        self.threshold.load(Relaxed) as f64 / u64::MAX as f64
    }

    /// Tells the cache's size in bytes of entries, as `read` counts them. A cache that has become much smaller begins a
    /// new sample, because the old one has too few entries for it.
    pub fn set_capacity(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.capacity = bytes;
        if bytes < state.capacity_most / 2 {
            state.stack.keep_below(0);
            self.threshold.store(self.threshold_most, Relaxed);
            state.capacity_most = bytes;
        }
        state.capacity_most = state.capacity_most.max(bytes);
    }

    /// Tells the number of all reads of the cache so far, sampled or not. The estimate needs it some times in two
    /// minutes: the most frequent entries may all be in the sample, or none of them.
    pub fn set_reads(&self, reads: u64) {
        self.state.lock().set_reads(reads, Instant::now());
    }

    /// The hit rates by size, and the number of reads behind them; `None` while there are too few. `reads` as for
    /// [`Reuse::set_reads`].
    pub fn curve(&self, reads: u64) -> Option<(Curve, u64)> {
        self.curve_at(reads, Instant::now())
    }

    fn curve_at(&self, reads: u64, now: Instant) -> Option<(Curve, u64)> {
        let mut state = self.state.lock();
        state.fade(now);
        state.set_reads(reads, now);
        (state.sampled >= SAMPLED_MIN)
            .then(|| (state.weights.curve(state.missing), state.sampled as u64))
    }
}

impl State {
    fn set_reads(&mut self, reads: u64, now: Instant) {
        if let Some((before, at)) = self.last
            && now.saturating_duration_since(at) <= CORRECTED_WITHIN
        {
            self.missing += reads.saturating_sub(before) as f64 - self.weight_since;
        }
        self.weight_since = 0.0;
        self.last = Some((reads, now));
    }

    /// Halves the counts if it is time.
    fn fade(&mut self, now: Instant) {
        let halves = now.saturating_duration_since(self.halved_at).as_secs() / HALF_LIFE.as_secs();
        if halves == 0 {
            return;
        }
        self.halved_at = now;
        let by = 0.5_f64.powi(i32::try_from(halves.min(60)).unwrap_or(60));
        self.weights.scale(by);
        self.sampled *= by;
        self.missing *= by;
    }
}

/// What is known of a cache: its curve, and what its size means in bytes of entries.
#[derive(Debug, Clone)]
pub struct CacheEstimate {
    /// By bytes of entries.
    pub curve: Curve,
    /// Reads in the sample, the older ones counted less.
    pub sampled: u64,
    /// The cache's size.
    pub capacity: u64,
    /// Bytes of it that are used for other things.
    pub reserved: u64,
    /// Bytes of entries in a byte of the cache: above 1 if it compresses them.
    pub density: f64,
}

impl CacheEstimate {
    /// The expected hit rate of a cache of `bytes`, from 0 to 1; `None` if the size is beyond the estimate.
    pub fn hit_rate(&self, bytes: u64) -> Option<f64> {
        if bytes > self.capacity.saturating_mul(REACH) {
            return None;
        }
        Some(
            self.curve.hit_rate((bytes.saturating_sub(self.reserved) as f64 * self.density) as u64),
        )
    }

    /// The smallest cache that answers this share of the reads; `None` if none within the estimate does.
    pub fn bytes_for(&self, share: f64) -> Option<u64> {
        let entries = self.curve.bytes_for(share)? as f64;
        let bytes = (entries / self.density.max(f64::MIN_POSITIVE)) as u64 + self.reserved;
        (bytes <= self.capacity.saturating_mul(REACH)).then_some(bytes)
    }
}

#[cfg(test)]
mod tests;
