//! A value for each core.

use crate::{core, core_count};

/// A value that shares no cache line with its neighbours. 128 bytes, because processors prefetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// One value for each core. The number of values is a power of two, so that finding one needs no division.
#[derive(Debug)]
pub struct PerCore<T>(Box<[Padded<T>]>);

impl<T: Default> Default for PerCore<T> {
    fn default() -> PerCore<T> {
        PerCore::new(|_| T::default())
    }
}

impl<T> PerCore<T> {
    /// Creates the values; `make` gets the core's number.
    pub fn new(make: impl Fn(usize) -> T) -> PerCore<T> {
        PerCore::at_most(core_count(), make)
    }

    /// Like [`PerCore::new`] with at most `count` values, which further cores share. For large numbers of objects.
    pub fn at_most(count: usize, make: impl Fn(usize) -> T) -> PerCore<T> {
        let count = 1 << core_count().min(count.max(1)).ilog2();
        PerCore((0..count).map(|core| Padded(make(core))).collect())
    }

    /// The value of the core on which the thread runs.
    #[inline]
    pub fn own(&self) -> &T {
        self.of(core())
    }

    /// The value of a core; numbers wrap around.
    #[inline]
    pub fn of(&self, core: usize) -> &T {
        &self.0[core & (self.0.len() - 1)].0
    }

    /// The values of all cores, in the order of the cores.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}
