//! Base64 with padding (RFC 4648).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` in base64.
pub fn encode(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            if i <= group.len() {
                let digit = (word >> (18 - 6 * i)) & 63;
                out.push(char::from(DIGITS[digit as usize]));
            } else {
                out.push('=');
            }
        }
    }
}

/// Decodes base64, also with the digits `-` and `_` of base64url. Padding is optional; no other characters are
/// allowed. `None` if the text is invalid.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if text.len() - digits.len() > 2 || digits.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut word = 0_u32;
        for i in 0..4 {
            let value = match group.get(i) {
                Some(b'-') => 62,
                Some(b'_') => 63,
                Some(digit) => DIGITS.iter().position(|d| d == digit)? as u32,
                None => 0,
            };
            word = word << 6 | value;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for text in ["", "f", "fo", "foo", "foob"] {
            let mut coded = String::new();
            encode(&mut coded, text.as_bytes());
            assert_eq!(decode(&coded).unwrap(), text.as_bytes());
        }
        assert_eq!(decode("Zg==").unwrap(), b"f");
        assert!(decode("Z").is_none() && decode("Z!==").is_none());
    }
}
