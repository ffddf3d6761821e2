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
    use super::*;

    #[test]
    fn the_figures_follow_what_is_allocated() {
        let before = figures();
        let large = vec![1_u8; 32 << 20];
        let with = figures();
        assert!(with.allocated >= before.allocated + (30 << 20), "{before:?} {with:?}");
        assert!(with.resident >= with.allocated);
        drop(large);
        purge();
        assert!(figures().resident < with.resident - (16 << 20));
    }
}
