//! The allocator's statistics and its purge operation, through `mallctl`.
#![expect(unsafe_code)]

use std::ffi::CStr;
use std::ptr;

use nagi_host::Figures;
use tikv_jemalloc_sys::mallctl;

/// Reads the current statistics. Takes some microseconds; locks each arena briefly.
pub(super) fn figures() -> Figures {
    refresh();
    Figures { allocated: number(c"stats.allocated"), resident: number(c"stats.resident") }
}

/// Returns all free pages to the system.
pub(super) fn purge() {
    // 4096 means all arenas. SAFETY: the operation has neither an input nor an output value.
    unsafe {
        mallctl(c"arena.4096.purge".as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0);
    }
}

/// The allocator updates its statistics when this counter is written.
fn refresh() {
    let mut epoch = 1_u64;
    // SAFETY: the value is one number of the operation's type.
    unsafe {
        mallctl(
            c"epoch".as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            (&raw mut epoch).cast(),
            size_of::<u64>(),
        );
    }
}

fn number(name: &CStr) -> u64 {
    let mut value = 0_usize;
    let mut len = size_of::<usize>();
    // SAFETY: the statistic is a size, which is written into `value` if `len` matches.
    let failed = unsafe {
        mallctl(name.as_ptr(), (&raw mut value).cast(), &raw mut len, ptr::null_mut(), 0)
    };
    if failed == 0 { value as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Longer than other tests of the process allocate and free at the same time.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The figures are those of the whole process: other tests allocate and free meanwhile. So they follow at some
    /// attempt.
    fn until(mut followed: impl FnMut() -> Result<(), String>) {
        let begun = Instant::now();
        while let Err(seen) = followed() {
            assert!(begun.elapsed() < PATIENCE, "{seen}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_figures_follow_what_is_allocated() {
        until(|| {
            let before = figures();
            let large = std::hint::black_box(vec![1_u8; 32 << 20]);
            let with = figures();
            drop(large);
            let follows = with.allocated >= before.allocated + (30 << 20);
            let covers = with.resident >= with.allocated;
            if follows && covers { Ok(()) } else { Err(format!("{before:?} {with:?}")) }
        });
        until(|| {
            let large = std::hint::black_box(vec![1_u8; 32 << 20]);
            let with = figures();
            drop(large);
            purge();
            let after = figures();
            let follows = after.resident + (16 << 20) < with.resident;
            if follows { Ok(()) } else { Err(format!("{with:?} {after:?}")) }
        });
    }
}
