//! Memory checks before the store makes a large allocation for a request.

use nagi_budget::meter;
use nagi_error::{Code, Result, bail};

/// Smaller allocations are not checked beforehand.
const ASKED_BYTES: usize = 2 << 20;

/// Checks that `bytes` fit in the memory budget in addition to the charges of this thread's request.
///
/// # Errors
/// 146 if they do not fit; `what` names the purpose in the message.
#[inline]
pub(crate) fn check(bytes: usize, what: &str) -> Result<()> {
    if bytes <= ASKED_BYTES || meter::fits(bytes) {
        return Ok(());
    }
    bail!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: {what} need {bytes} bytes, and the server has less memory left"
    );
}

/// Like [`check`], but for any size: for buffers of which one request may have many.
///
/// # Errors
/// Like [`check`].
pub(crate) fn check_each(bytes: usize, what: &str) -> Result<()> {
    match meter::fits(bytes) {
        true => Ok(()),
        false => check(bytes.max(ASKED_BYTES + 1), what),
    }
}

/// Like [`check`], but waits a moment if the request holds nothing else that other requests might wait for.
///
/// # Errors
/// 146 if they do not fit after the wait either.
#[inline]
pub(crate) fn wait(bytes: usize, what: &str) -> Result<()> {
    match bytes <= ASKED_BYTES || meter::fits_in_time(bytes, None) {
        true => Ok(()),
        false => check(bytes, what),
    }
}

/// Checks if this thread's request was refused memory at a point that cannot fail (in a comparison). The results it
/// made since then must not be committed.
///
/// # Errors
/// 146 in this case.
#[inline]
pub(crate) fn check_refused() -> Result<()> {
    if meter::check_refused() {
        bail!(
            Code::EXCEEDED_MEMORY_LIMIT,
            "Exceeded memory limit: comparing long texts needs more memory than the server has left"
        );
    }
    Ok(())
}

/// Empties a buffer and frees its memory if it has grown large.
pub(crate) fn renew(buffer: &mut Vec<u8>) {
    match buffer.capacity() > ASKED_BYTES {
        true => *buffer = Vec::new(),
        false => buffer.clear(),
    }
}
