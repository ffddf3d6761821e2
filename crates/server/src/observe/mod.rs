//! Reports of finished operations: the log of slow operations and the profiler.

pub(crate) mod filtering;
pub(crate) mod profile_entries;
pub(crate) mod slow;
