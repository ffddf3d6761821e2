//! Memory for what the store makes at once on behalf of a request.

use nagi_budget::meter;
use nagi_error::{Code, Result, bail};

/// What is smaller is not asked for before it is made.
const ASKED_BYTES: usize = 2 << 20;

/// Asks for room for `bytes`, beside what the request of this thread has.
///
/// # Errors
/// 146 if there is none; `what` says for what.
#[inline]
pub(crate) fn check(bytes: usize, what: &str) -> Result<()> {
    if bytes <= ASKED_BYTES || meter::fits(bytes) {
        return Ok(());
    }
    bail!(
        Code::EXCEEDED_MEMORY_LIMIT,
        "Exceeded memory limit: {what} need {bytes} bytes, and the server has not so many left"
    );
}

/// As [`check`], however few they are: for buffers of which one request may have many.
///
/// # Errors
/// As there.
pub(crate) fn check_each(bytes: usize, what: &str) -> Result<()> {
    match meter::fits(bytes) {
        true => Ok(()),
        false => check(bytes.max(ASKED_BYTES + 1), what),
    }
}

/// As [`check`], and waits a moment if the request holds nothing else that others might wait for.
///
/// # Errors
/// 146 if there is no room then either.
#[inline]
pub(crate) fn wait(bytes: usize, what: &str) -> Result<()> {
    match bytes <= ASKED_BYTES || meter::fits_in_time(bytes, None) {
        true => Ok(()),
        false => check(bytes, what),
    }
}

/// Asks whether the request of this thread was refused where it could not fail, in a comparison: what it made
/// since must not be committed.
///
/// # Errors
/// 146 then.
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

/// Empties a buffer, of which no more than a little stays.
pub(crate) fn renew(buffer: &mut Vec<u8>) {
    match buffer.capacity() > ASKED_BYTES {
        true => *buffer = Vec::new(),
        false => buffer.clear(),
    }
}
