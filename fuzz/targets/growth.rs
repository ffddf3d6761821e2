//! Counts the memory that is allocated, so that a target finds what each run leaves behind, reachable or not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed};

struct Counted;

static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counted = Counted;

// SAFETY: every call is passed on to the allocator of the system, which the sanitizer replaces.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as isize, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as isize, Relaxed);
        unsafe { System.dealloc(place, layout) }
    }
}

/// The runs after which caches are full and tables have their size.
const SETTLED: u64 = 20_000;
/// The runs between two lines that say how much it is.
const REPORTED: u64 = 50_000;
/// What tables may grow later; a leak of 100 bytes a run passes it within a million runs.
const BOUND_BYTES: isize = 32 << 20;

/// Called at the end of each run. Prints the growth from time to time, for `fuzz/run` to read.
///
/// # Panics
/// If more memory is in use than after the first runs.
pub fn check() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    static SETTLED_BYTES: AtomicIsize = AtomicIsize::new(0);
    let live = LIVE_BYTES.load(Relaxed);
    match RUNS.fetch_add(1, Relaxed) {
        SETTLED => SETTLED_BYTES.store(live, Relaxed),
        run if run > SETTLED => {
            let grown = live - SETTLED_BYTES.load(Relaxed);
            assert!(grown < BOUND_BYTES, "{grown} bytes more than after {SETTLED} runs");
            if run.is_multiple_of(REPORTED) {
                eprintln!("growth: {grown} bytes between run {SETTLED} and run {run}");
            }
        }
        _ => {}
    }
}
