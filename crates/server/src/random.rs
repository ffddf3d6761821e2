//! The system's randomness.

use nagi_error::{Code, Result, err};

/// Sixteen bytes of the system's randomness.
///
/// # Errors
/// InternalError if the system has none: nothing that is guessable may take their place.
pub(crate) fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| err!(Code::INTERNAL_ERROR, "the system gives no random bytes: {error}"))?;
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
