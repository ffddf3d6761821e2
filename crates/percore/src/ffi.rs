//! The core on which the current thread runs.
#![expect(unsafe_code, reason = "a C function without a safe wrapper")]

use std::cell::Cell;
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

/// Calls of [`core`] by a thread until it asks for its core again. A request makes some thirty; a thread that moves
/// to another core writes the copy of the old one for a request or two, which is slower and not wrong.
const CALLS_PER_LOOKUP: u32 = 64;

thread_local! {
    /// The core of the thread at its last lookup, and the calls left until the next one.
    static CURRENT: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// The number of the current core, below [`core_count`]. It is a hint, because the thread may have moved since the
/// last lookup or when this returns. Costs a few instructions, and a lookup without a system call every 64 calls.
#[inline]
pub fn core() -> usize {
    let (core, calls_left) = CURRENT.get();
    if calls_left == 0 {
        return look_up();
    }
    CURRENT.set((core, calls_left - 1));
    core as usize
}

#[cold]
fn look_up() -> usize {
    // SAFETY: takes no argument and has no precondition; -1 where it is not supported.
    let core = unsafe { libc::sched_getcpu() };
    let core = usize::try_from(core).unwrap_or(0) & (core_count() - 1);
    CURRENT.set((core as u32, CALLS_PER_LOOKUP));
    core
}
