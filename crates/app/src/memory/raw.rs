//! The allocator's figures and its one lever, by name.
#![expect(unsafe_code)]

use std::ffi::CStr;
use std::ptr;

use tikv_jemalloc_sys::mallctl;

/// What the allocator has, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocator {
    /// Given out to the program.
    pub(crate) allocated: u64,
    /// In memory: given out, pages kept for the next allocations, and its own bookkeeping.
    pub(crate) resident: u64,
}

/// The figures of now. Takes some microseconds; locks each arena for a moment.
pub(crate) fn figures() -> Allocator {
    refresh();
    Allocator { allocated: number(c"stats.allocated"), resident: number(c"stats.resident") }
}

/// Gives every page that is free back to the system.
pub(crate) fn purge() {
    // 4096 stands for all arenas. SAFETY: the name takes and gives no value.
    unsafe {
        mallctl(c"arena.4096.purge".as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0);
    }
}

/// The figures are taken anew whenever this counter is written.
fn refresh() {
    let mut epoch = 1_u64;
    // SAFETY: one number of the type that the name has.
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
    // SAFETY: the name's value is a size, written into `value` if `len` is right.
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
