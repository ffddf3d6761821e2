//! Buffers in which arrays and documents are put together before they go to the arena.
//!
//! How long a result will be is known when it is finished, and an arena cannot give back what a buffer
//! that grew has left behind. So it grows here, in a buffer that the thread keeps for the next
//! evaluation, and only the result is copied. Expressions nest, so there are several.

use std::cell::RefCell;

/// Buffers that a thread keeps.
const KEPT: usize = 8;

/// The largest buffer that is kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with an empty buffer.
pub(super) fn with<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    let result = work(&mut buffer);
    if buffer.capacity() <= KEPT_BYTES_MAX {
        buffer.clear();
        BUFFERS.with_borrow_mut(|kept| {
            if kept.len() < KEPT {
                kept.push(buffer);
            }
        });
    }
    result
}
