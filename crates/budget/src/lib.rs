//! The memory budget: one account of the memory of the whole process.
//!
//! ```text
//!   |<------------------------- budget (1024 MB in this example) ------------------------->|
//!   | engine: 64 MB, fixed | charged by requests: 0 | caches: 960 MB                       |
//!   | engine               | charged: 300 MB        | caches: 660 MB                       |
//!   | engine               | charged: 704 MB        | caches: 256 MB, their minimum        |
//!                            grows ->                 <- shrink
//! ```
//!
//! # Parts
//!
//! - A [`Pool`] is a purpose of memory: sorts, messages, cursors, scripts. Each has a limit in percent of the
//!   budget. The table is in `pool.rs`.
//! - A [`Charge`] is the memory of one holder in one pool. It is charged *before* the memory is allocated, and
//!   released when it is dropped. Without capacity the caller spills to disk, waits in a queue with a deadline
//!   (`line.rs`), or fails with the error of its operation. Charges are coarse: a connection, an operator's next
//!   megabyte, a large message. A point read makes none.
//! - The caches get the rest. When charges grow, they are made smaller at once; the watcher lets them grow back
//!   later.
//! - The [`meter`] of a thread counts what a request allocates beyond all of its charges, and charges that by the
//!   megabyte to [`Pool::Evaluation`]. So operators without charges of their own are limited, too.
//! - [`Work`] is the charge of the engine's flushes and compactions for large values. It waits behind one request only,
//!   because the others may be waiting for what it frees.
//! - The watcher ([`Watch`]) corrects the account. It compares resident memory with [`bound`], and so sees memory
//!   that has no charge: code, stacks, free pages that the allocator keeps. First it has the allocator purge free
//!   pages; then it squeezes the caches by the excess. The thread is in `nagi-host`.
//!
//! # Example
//!
//! A server has a budget of 1024 MB. The pool `execution` has a limit of 40 %, which is 409 MB.
//!
//! ```text
//!   sort A   charges 300 MB of `execution`   granted                                 caches 960 -> 660 MB
//!   sort B   charges 150 MB                  refused, 450 > 409: B spills to disk    caches 660 MB
//!   message  charges 30 MB of `requests`     granted                                 caches 660 -> 630 MB
//!   watcher  finds resident memory above the threshold: purges, then squeezes by 20  caches 630 -> 610 MB
//!   sort A   finishes, its charge is dropped; the caches grow at the watcher's next step
//!   watcher  finds memory in plenty again and reduces the squeeze step by step       caches -> 930 MB
//! ```
//!
//! The same with the API:
//!
//! ```
//! use nagi_budget::{Budget, Charge, Pool};
//!
//! const MIB: u64 = 1 << 20;
//! let budget = Budget::new(1024 * MIB);
//! let sort = budget.try_charge(Pool::Execution, 300 * MIB).expect("the pool is empty");
//! let mut other = Charge::empty(&budget, Pool::Execution);
//! assert!(!other.cover(150 * MIB, MIB)); // 450 MiB is beyond the pool's limit: spill to disk
//! assert_eq!(budget.demand(), 300 * MIB);
//! drop(sort);
//! assert!(other.cover(150 * MIB, MIB));
//! ```
//!
//! # Invariants
//!
//! - The sum of all charges never exceeds `demand_max`, nor a pool its limit, with two exceptions: forced charges,
//!   for memory that exists already, and a charge larger than its pool's limit, which is granted when its holder is
//!   the only one in the pool.
//! - Every wait for capacity has a deadline.
//! - The crate does not know the allocator or the engine: both are attached as functions.
//!
//! Read more: docs/decisions/013 (the budget) and 044 (the meter).

mod budget;
mod charge;
mod gauges;
mod line;
pub mod meter;
mod pool;
mod raw;
mod resident;
mod watch;
mod work;

pub use budget::{Budget, Division, PoolState};
pub use charge::Charge;
pub use gauges::Gauges;
pub use line::Patience;
pub use meter::Metering;
pub use pool::Pool;
pub use raw::Metered;
pub use resident::Resident;
pub use watch::{Action, Watch};
pub use work::{Work, WorkOrders};

/// Resident memory may exceed the budget by a tenth and by this: code, stacks, allocator.
pub const SLACK_BYTES: u64 = 64 << 20;

/// The bound of resident memory for a budget: budget, a tenth of it, and [`SLACK_BYTES`].
pub fn bound(budget_bytes: u64) -> u64 {
    budget_bytes.saturating_add(budget_bytes / 10).saturating_add(SLACK_BYTES)
}

/// The default budget, for the memory of the machine or of the process's control group. With direct I/O the page
/// cache is not needed, so it is three quarters. Otherwise it follows mongod's rule: half of the memory beyond one
/// gigabyte. At least 256 MB.
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
