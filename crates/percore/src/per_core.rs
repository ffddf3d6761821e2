//! A value for each core.

use crate::{core, core_count};

/// A value that shares no cache line with its neighbours. 128 bytes, as processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// One value a core.
#[derive(Debug)]
pub struct PerCore<T>(Box<[Padded<T>]>);

impl<T: Default> Default for PerCore<T> {
    fn default() -> PerCore<T> {
        PerCore::new(|_| T::default())
    }
}

impl<T> PerCore<T> {
    /// Makes the values; `make` gets the core's number.
    pub fn new(make: impl Fn(usize) -> T) -> PerCore<T> {
        PerCore((0..core_count()).map(|core| Padded(make(core))).collect())
    }

    /// As [`PerCore::new`] with at most so many values: cores beyond share one. For what there is much of.
    pub fn at_most(count: usize, make: impl Fn(usize) -> T) -> PerCore<T> {
        PerCore((0..core_count().min(count.max(1))).map(|core| Padded(make(core))).collect())
    }

    /// That of the core on which the thread runs.
    #[inline]
    pub fn own(&self) -> &T {
        self.of(core())
    }

    /// That of a core; numbers go round.
    #[inline]
    pub fn of(&self, core: usize) -> &T {
        &self.0[core % self.0.len()].0
    }

    /// Those of all cores, in the order of the cores.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}
