//! What is told of finished operations: the slow query log and the profiler.

pub(crate) mod filtering;
pub(crate) mod profile_entries;
pub(crate) mod slow;
