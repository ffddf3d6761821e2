//! Whether somebody still waits for the result of the calling thread's request.
//!
//! An embedded engine answers in microseconds. One that waits for other machines asks here while it waits, and ends
//! with [`Error::Interrupted`](crate::Error::Interrupted) if the request was cancelled or its time is over.

use std::sync::OnceLock;

static GO_ON: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the check, which returns false if the request that the calling thread runs was interrupted. The first call
/// counts: it is a property of the program, not of one store.
pub fn attach(go_on: fn() -> bool) {
    let _ = GO_ON.set(go_on);
}

/// Returns false if the request of the calling thread was interrupted. True for threads without a request.
pub fn go_on() -> bool {
    GO_ON.get().is_none_or(|go_on| go_on())
}
