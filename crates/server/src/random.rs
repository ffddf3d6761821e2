//! Random bytes of the operating system.

use nagi_error::{Code, Result, err};

/// Sixteen random bytes.
///
/// # Errors
/// InternalError if the operating system has no randomness: guessable bytes must not take its place.
pub(crate) fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        err!(Code::INTERNAL_ERROR, "the system provides no random bytes: {error}")
    })?;
    Ok(bytes)
}

/// A version 4 UUID.
///
/// # Errors
/// As [`random_bytes`].
pub(crate) fn random_uuid() -> Result<[u8; 16]> {
    let mut bytes = random_bytes()?;
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Ok(bytes)
}
