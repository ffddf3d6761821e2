//! Hexadecimal and MD5 for the native functions.

use std::fmt::Write as _;

use md5::{Digest as _, Md5};

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// Decodes an even number of hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |at: usize| (digits[at] as char).to_digit(16);
    (0..digits.len()).step_by(2).map(|at| Some((digit(at)? << 4 | digit(at + 1)?) as u8)).collect()
}

pub(crate) fn md5(text: &str) -> String {
    hex(&Md5::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways() {
        for bytes in [&b""[..], b"f", b"\xff\x00"] {
            assert_eq!(from_hex(&hex(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!((from_hex("0"), from_hex("0g"), from_hex("+1")), (None, None, None));
    }

    #[test]
    fn md5_is_rfc_1321s() {
        assert_eq!(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
    }
}
