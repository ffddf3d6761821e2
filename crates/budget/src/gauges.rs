//! What the watcher has seen last, for those who report it.

/// Figures of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Memory as the system counts it, now and at most, in bytes.
    pub resident: u64,
    pub resident_peak: u64,
    /// What the allocator has given out; none leaves the figure before.
    pub allocated: Option<u64>,
    /// What the allocator has in memory.
    pub allocator_resident: Option<u64>,
    /// How often free pages were given back because memory was tight.
    pub purge_count: u64,
    /// How often the caches were made smaller because that did not suffice.
    pub squeeze_count: u64,
    /// Steps that found the bound exceeded.
    pub over_count: u64,
}
