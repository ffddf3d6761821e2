//! The watcher's latest gauges, for the code that reports them.

/// Gauges of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Resident memory according to the operating system, current and peak, in bytes.
    pub resident: u64,
    pub resident_peak: u64,
    /// Bytes allocated by the program. In [`crate::Budget::note`], none keeps the previous value.
    pub allocated: Option<u64>,
    /// Bytes that the allocator has in memory.
    pub allocator_resident: Option<u64>,
    /// Number of purges of free pages because memory was tight.
    pub purge_count: u64,
    /// Number of times that the caches were squeezed because a purge did not suffice.
    pub squeeze_count: u64,
    /// Number of steps that found the bound exceeded.
    pub over_count: u64,
}
