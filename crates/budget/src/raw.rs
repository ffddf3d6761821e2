//! An allocator that reports to the meter of the current thread what is allocated and freed.
//!
//! Cost: one addition to a thread-local number per call.
#![expect(unsafe_code, reason = "implementing GlobalAlloc is unsafe by its nature")]

use std::alloc::{GlobalAlloc, Layout};

use crate::meter::note;

/// Wraps another allocator with the meter. Allocations of C and C++ code are not counted.
#[derive(Debug, Default, Clone, Copy)]
pub struct Metered<A>(pub A);

// SAFETY: every call is passed on unchanged to the inner allocator, which keeps the contract; the meter is a
// const-initialised thread-local number without a destructor, so counting never allocates.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Metered<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is passed on.
        let taken = unsafe { self.0.alloc(layout) };
        if !taken.is_null() {
            note(layout.size() as i64);
        }
        taken
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is passed on.
        let taken = unsafe { self.0.alloc_zeroed(layout) };
        if !taken.is_null() {
            note(layout.size() as i64);
        }
        taken
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise about `ptr`, `layout` and `new_size` is passed on.
        let taken = unsafe { self.0.realloc(ptr, layout, new_size) };
        if !taken.is_null() {
            note(new_size as i64 - layout.size() as i64);
        }
        taken
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        // SAFETY: the caller's promise about `ptr` and `layout` is passed on.
        unsafe { self.0.dealloc(ptr, layout) }
    }
}
