//! Reusable buffers in which arrays and documents are built before they are copied to the arena.
//!
//! The length of a result is known only when it is finished, and an arena cannot free the memory that a growing
//! buffer leaves behind. So the result grows in a buffer that the thread keeps for later evaluations, and only the
//! finished result is copied. Expressions nest, so a thread keeps several buffers.

use std::cell::RefCell;

/// The number of buffers that a thread keeps.
const KEPT: usize = 8;

/// The capacity in bytes of the largest buffer that is kept.
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
