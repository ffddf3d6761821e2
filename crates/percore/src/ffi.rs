//! The core on which the current thread runs.
#![expect(unsafe_code, reason = "a C function without a safe wrapper")]

use std::sync::OnceLock;

/// Limit of copies; further cores share them.
const CORES_MAX: usize = 64;

/// The number of copies of per-core state: a power of two, at least the number of cores up to 64.
pub fn core_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cores.next_power_of_two().min(CORES_MAX)
    })
}

/// The number of the current core, below [`core_count`]. It is a hint, because the thread may have moved when this
/// returns. Costs a few nanoseconds and no system call.
#[inline]
pub fn core() -> usize {
    // SAFETY: takes no argument and has no precondition; -1 where it is not supported.
    let core = unsafe { libc::sched_getcpu() };
    usize::try_from(core).unwrap_or(0) & (core_count() - 1)
}
