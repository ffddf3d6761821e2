//! Searches keys as if they were numbers.

/// Bytes of a key that are treated as a number; more than ident and record id.
const NUMBER_BYTES: usize = 16;

/// The least key after `from` that is `readable`, with the precision of numbers, if all keys behind it are; none if
/// no key is found. Steps of 1, 2, 4, ... are tried until a key is readable, then the interval is halved: some two
/// hundred calls.
pub(super) fn first(from: &[u8], mut readable: impl FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut readable = |number: u128| readable(&number.to_be_bytes());
    let start = number(from);
    let mut step: u128 = 1;
    let mut good = loop {
        match start.checked_add(step) {
            Some(candidate) if readable(candidate) => break candidate,
            Some(_) => step = step.checked_mul(2)?,
            None => return None,
        }
    };
    let mut bad = start + step / 2;
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        match readable(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    Some(good.to_be_bytes().to_vec())
}

fn number(key: &[u8]) -> u128 {
    let mut bytes = [0; NUMBER_BYTES];
    let length = key.len().min(NUMBER_BYTES);
    bytes[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_readable_number_is_found() {
        let key = |number: u128| number.to_be_bytes().to_vec();
        for good in [8, 9, 1000, 1 << 70] {
            assert_eq!(first(&key(7), |at| at >= key(good).as_slice()), Some(key(good)), "{good}");
        }
        assert_eq!(first(&key(7), |_| false), None);
        assert_eq!(first(&[0xff; 16], |_| true), None);
        // Longer keys are cut off, shorter ones filled up.
        assert_eq!(first(&[1, 2], |_| true), Some([&[1, 2][..], &[0; 13], &[1]].concat()));
    }
}
