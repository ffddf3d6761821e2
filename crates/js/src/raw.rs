//! The allocator of an engine: counts what a script holds, and refuses beyond its limit. And the
//! engine's countdown to its next question, so that another thread can have it asked at once.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use parking_lot::Mutex;
use rquickjs::allocator::{Allocator, RustAllocator};
use rquickjs::{Ctx, qjs};

use crate::heap::Heap;

/// Rust's allocator behind a count.
pub(crate) struct Counted {
    pub(crate) heap: Arc<Heap>,
    pub(crate) inner: RustAllocator,
}

/// Bytes that an allocation takes beside those asked for, at most: its header and rounding.
const EXTRA_BYTES: usize = 16;
/// What a script gets in one piece: a string, the elements of an array, a buffer. Four times what a
/// document may have; functions that go over one piece without asking end within a second or two.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 20;

impl Counted {
    fn take(&self, bytes: usize) -> bool {
        self.heap.take(bytes.saturating_add(EXTRA_BYTES))
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

/// Calls and backward jumps that a context may still make before it asks whether to continue.
///
/// The engine asks at every 10,000th, however long each takes: a loop that searches a text of
/// megabytes would be asked every few minutes. Nothing public sets the countdown. It is a plain 32-bit
/// field of the context, found by what it does: it falls by one with every call.
#[derive(Clone)]
pub(crate) struct Countdown(Arc<Mutex<Option<Place>>>);

struct Place(NonNull<AtomicI32>);

// SAFETY: it is an atomic, which `Countdown::close` takes away before its memory goes.
unsafe impl Send for Place {}

impl Countdown {
    /// Finds the countdown of a context whose memory came from [`Counted`]. `call` makes so many
    /// calls. Whoever asks closes it before the context goes.
    pub(crate) fn find(context: &Ctx<'_>, call: impl Fn(i32)) -> Option<Countdown> {
        const TRIES: usize = 4;
        let raw = context.as_raw().as_ptr();
        let place = raw.cast::<i32>();
        // SAFETY: the engine allocated the context, and says how large a piece it took.
        let words = unsafe { qjs::js_malloc_usable_size(raw, raw.cast()) } as usize / 4;
        // SAFETY: within that piece, which the engine filled with zeros when it made the context.
        let read = |at: usize| unsafe { place.add(at).read_volatile() };
        let words = || (0..words).map(read).collect::<Vec<i32>>();
        // It starts anew now and then, perhaps during a try.
        for _ in 0..TRIES {
            let before = words();
            call(3);
            let between = words();
            call(5);
            let after = words();
            let mut falls = (0..before.len()).filter(|at| {
                let fell = |from: i32, to: i32| from.wrapping_sub(to);
                after[*at] > 0
                    && fell(before[*at], between[*at]) == 3
                    && fell(between[*at], after[*at]) == 5
            });
            if let (Some(at), None) = (falls.next(), falls.next()) {
                // SAFETY: within the allocation, aligned as an `i32` is.
                let place = NonNull::new(unsafe { place.add(at) }.cast()).map(Place);
                return Some(Countdown(Arc::new(Mutex::new(place))));
            }
        }
        None
    }

    /// Has the context ask at its next call or jump. Its own thread counts down without an atomic
    /// operation, so that this may be lost: call it again until the script has ended.
    pub(crate) fn end(&self) {
        if let Some(Place(place)) = &*self.0.lock() {
            // SAFETY: it was not closed, so the context is still there.
            unsafe { place.as_ref() }.store(0, Relaxed);
        }
    }

    /// The context goes: no one uses its countdown any more.
    pub(crate) fn close(&self) {
        self.0.lock().take();
    }
}
