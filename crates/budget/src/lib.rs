//! One memory budget for the whole process.
//!
//! ```text
//!   budget = engine's own work (fixed)
//!          + what requests need now: `Pool`s, charged before the memory is taken
//!          + caches: all the rest, down to a floor
//! ```
//! A sort, a cursor, a connection takes its room out of the caches: the more is charged, the smaller
//! the caches are set, and they grow again when it is given back. What no charge knows of (the
//! allocator's slack, code, stacks) is seen by the watcher, which compares the resident memory with the
//! bound and squeezes the caches by the difference.
//!
//! Charges are coarse: a connection, an operator's next megabyte, a large message. Nothing is charged
//! on the way of a point read. What a request holds that has no charge of its own is measured where it
//! is allocated and charged by the megabyte: see [`meter`].
//!
//! Invariants
//! - The sum of all charges never exceeds `demand_max`, a pool never its limit, except for charges that
//!   are `forced` (memory that is there already) and for one that is larger than its pool: it goes
//!   when the pool is empty.
//! - No one waits for room without a deadline.
//!
//! Does not know about: which allocator it is, the engine.

mod budget;
mod charge;
mod gauges;
mod line;
pub mod meter;
mod pool;
mod raw;
mod resident;
mod watch;

pub use budget::{Budget, Division, PoolState};
pub use charge::Charge;
pub use gauges::Gauges;
pub use meter::Metering;
pub use pool::Pool;
pub use raw::Metered;
pub use resident::Resident;
pub use watch::{Action, Watch};

/// Resident memory may exceed the budget by a tenth and this: code, stacks, allocator.
pub const SLACK_BYTES: u64 = 64 << 20;

/// What resident memory must never exceed, for a budget.
pub fn bound(budget_bytes: u64) -> u64 {
    budget_bytes.saturating_add(budget_bytes / 10).saturating_add(SLACK_BYTES)
}

/// The budget when no one chose one, for the memory of the machine or of the control group around the
/// process. With direct I/O the page cache is not needed: three quarters. Else mongod's rule, half of
/// what is beyond one gigabyte. At least 256 MB.
pub fn default_budget(memory_bytes: u64, direct_io: bool) -> u64 {
    const GIB: u64 = 1 << 30;
    let share = match direct_io {
        true => memory_bytes / 4 * 3,
        false => memory_bytes.saturating_sub(GIB) / 2,
    };
    share.max(GIB / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_follows_how_files_are_read() {
        const GIB: u64 = 1 << 30;
        assert_eq!(default_budget(16 * GIB, false), 15 * GIB / 2);
        assert_eq!(default_budget(16 * GIB, true), 12 * GIB);
        assert_eq!(default_budget(GIB, false), GIB / 4);
        assert_eq!(default_budget(GIB / 4, true), GIB / 4);
        assert_eq!(bound(GIB), GIB + GIB / 10 + (64 << 20));
    }
}
