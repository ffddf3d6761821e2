//! An allocator that counts the allocations of the current thread.
//!
//! A test binary installs it and wraps the operation whose allocations it checks:
//!
//!   #[global_allocator]
//!   static ALLOCATOR: CountingAllocator = CountingAllocator;
//!   let (reply, spent) = count_allocations(|| server.handle(&frame));
//!   assert_eq!(spent.calls, 0);
//!
//! Counts are per thread, so tests on other threads do not affect them. A reallocation counts as one call.
//! Freeing changes only the number of held bytes. Cost: a few thread-local additions per allocation.
#![allow(unsafe_code)] // implementing GlobalAlloc is inherently unsafe

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// The system allocator with counters.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator;

/// The allocations of one thread between two points in time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Allocations {
    /// Calls of alloc and realloc.
    pub calls: u64,
    /// Bytes requested (a realloc counts its new size).
    pub bytes: u64,
}

/// Runs `f` and returns its result and this thread's allocations meanwhile. These are zero if the allocator is
/// not installed.
pub fn count_allocations<T>(f: impl FnOnce() -> T) -> (T, Allocations) {
    let before = current();
    let value = f();
    let after = current();
    let spent =
        Allocations { calls: after.calls - before.calls, bytes: after.bytes - before.bytes };
    (value, spent)
}

/// The number of bytes that this thread has allocated and not freed, relative to the beginning of the thread.
pub fn held_bytes() -> i64 {
    HELD.get()
}

/// Runs `f` and returns its result and the peak of this thread's held memory meanwhile, in bytes, relative to
/// the start.
pub fn peak_bytes<T>(f: impl FnOnce() -> T) -> (T, i64) {
    let before = HELD.get();
    PEAK.set(before);
    let value = f();
    (value, PEAK.get() - before)
}

fn hold(bytes: i64) {
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

fn current() -> Allocations {
    Allocations { calls: CALLS.get(), bytes: BYTES.get() }
}

fn note(bytes: usize) {
    // A thread that is being torn down no longer has counters; its allocations are not counted.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let _ = BYTES.try_with(|total| total.set(total.get() + bytes as u64));
}

// SAFETY: every call is passed on unchanged to `System`, which fulfils the contract; counting uses
// const-initialised thread-locals without destructors, so it never allocates.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        hold(layout.size() as i64);
        // SAFETY: the caller's guarantee about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        hold(layout.size() as i64);
        // SAFETY: the caller's guarantee about `layout` is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        hold(new_size as i64 - layout.size() as i64);
        // SAFETY: the caller's guarantee about `ptr` and `layout` is passed on.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
        // SAFETY: the caller's guarantee about `ptr` and `layout` is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}
