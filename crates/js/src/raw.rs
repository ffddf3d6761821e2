//! The allocator of an engine: counts the memory of a script, enforces the limit, and triggers interrupt checks in
//! scripts that allocate much.
#![allow(unsafe_code)]

use std::rc::Rc;
use std::sync::Arc;

use rquickjs::allocator::{Allocator, RustAllocator};

use crate::heap::Heap;
use crate::pace::Pace;

/// Rust's allocator with a counter.
pub(crate) struct Counted {
    pub(crate) heap: Arc<Heap>,
    pub(crate) pace: Rc<Pace>,
    pub(crate) inner: RustAllocator,
}

/// The maximum overhead of an allocation: its header and rounding.
const EXTRA_BYTES: usize = 16;
/// The maximum size of a single allocation: a string, the elements of an array, a buffer. It is four times the size of
/// a document. Built-in functions that process one such value without an interrupt check finish within a second or two.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 20;

impl Counted {
    fn take(&self, bytes: usize) -> bool {
        self.pace.may_allocate(bytes) && self.heap.take(bytes.saturating_add(EXTRA_BYTES))
    }
}

// SAFETY: every method hands its arguments to `RustAllocator`, which fulfils the contract, or returns null
// before anything was allocated; sizes that do not fit are refused before they are rounded up.
unsafe impl Allocator for Counted {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if size > PIECE_BYTES_MAX || !self.take(size) {
            return std::ptr::null_mut();
        }
        let place = self.inner.alloc(size);
        if place.is_null() {
            self.heap.give(size + EXTRA_BYTES);
        } else {
            self.heap.give(size + EXTRA_BYTES);
            // SAFETY: it was allocated just now by the same allocator.
            let usable = unsafe { RustAllocator::usable_size(place) };
            self.heap.force(usable + EXTRA_BYTES);
        }
        place
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(bytes) = count.checked_mul(size) else { return std::ptr::null_mut() };
        let place = self.alloc(bytes);
        if !place.is_null() {
            // SAFETY: `alloc` gave at least `bytes` bytes.
            unsafe { place.write_bytes(0, bytes) };
        }
        place
    }

    unsafe fn dealloc(&mut self, place: *mut u8) {
        // SAFETY: the caller's promise: `place` comes from this allocator.
        let usable = unsafe { RustAllocator::usable_size(place) };
        self.heap.give(usable + EXTRA_BYTES);
        // SAFETY: as above.
        unsafe { self.inner.dealloc(place) };
    }

    unsafe fn realloc(&mut self, place: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: `place` comes from this allocator.
        let old = unsafe { RustAllocator::usable_size(place) };
        let more = new_size.saturating_sub(old);
        if (more > 0 && new_size > PIECE_BYTES_MAX) || !self.take(more) {
            return std::ptr::null_mut();
        }
        self.heap.give(more.saturating_add(EXTRA_BYTES));
        // SAFETY: as above; the size passed the limit, so rounding it up cannot overflow.
        let moved = unsafe { self.inner.realloc(place, new_size) };
        if !moved.is_null() {
            // SAFETY: it was allocated just now by the same allocator.
            let usable = unsafe { RustAllocator::usable_size(moved) };
            self.heap.give(old);
            self.heap.force(usable);
        }
        moved
    }

    unsafe fn usable_size(place: *mut u8) -> usize {
        // SAFETY: the caller's promise: `place` comes from this allocator.
        unsafe { RustAllocator::usable_size(place) }
    }
}
