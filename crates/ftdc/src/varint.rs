//! Unsigned integers of variable length: seven bits a byte, lowest first, the high bit if more follow.

/// Appends `value`, 1 to 10 bytes.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes an integer from the front of `bytes`; none if they end within it or it has more than 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_read_back() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) | 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put(&mut out, value);
                let mut rest = out.as_slice();
                assert_eq!((take(&mut rest), rest.len()), (Some(value), 0));
                assert_eq!(take(&mut &out[..out.len() - 1]), None);
            }
        }
    }

    #[test]
    fn an_integer_beyond_64_bits_is_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(0x02);
        assert_eq!(take(&mut bytes.as_slice()), None);
        assert_eq!(take(&mut [0x80; 11].as_slice()), None);
    }
}
