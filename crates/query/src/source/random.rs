//! Unpredictable random numbers for samples and random orders.

use std::hash::{BuildHasher, RandomState};

/// A small generator of random numbers (xorshift64*), seeded by the system's randomness.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Random {
        Random(RandomState::new().hash_one(0x5AFE_u64) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// An integer below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A number in `[0, 1)`.
    pub(crate) fn value(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
