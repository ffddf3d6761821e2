//! Reports of finished operations: the log of slow operations, the profiler and the audit log.

pub(crate) mod audited;
pub(crate) mod engine;
pub(crate) mod filtering;
pub(crate) mod long;
pub(crate) mod profile_entries;
pub(crate) mod sizes;
pub(crate) mod slow;
mod slow_shapes;
pub(crate) mod spans;
