//! A generator of ObjectIds: seconds, five random bytes of the process, a counter.
//!
//! ```text
//!   seconds (4, big-endian) | random (5) | counter (3, big-endian)
//! ```
//!
//! The ids of one generator in one second are ascending; the counter wraps after 2^24 ids.

use std::sync::atomic::{AtomicU32, Ordering};

/// Generates ObjectIds. It is shared by all threads without a lock.
#[derive(Debug)]
pub struct Generator {
    random: [u8; 5],
    counter: AtomicU32,
}

impl Generator {
    /// `random` distinguishes processes; `start` is the first value of the counter.
    pub const fn new(random: [u8; 5], start: u32) -> Generator {
        Generator { random, counter: AtomicU32::new(start) }
    }

    /// The next id for a time in seconds since 1970.
    pub fn next(&self, seconds: u32) -> [u8; 12] {
        let count = self.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let time = seconds.to_be_bytes();
        let r = self.random;
        [
            time[0], time[1], time[2], time[3], r[0], r[1], r[2], r[3], r[4], count[1], count[2],
            count[3],
        ]
    }
}

/// The time in an ObjectId, in seconds since 1970.
pub fn seconds(id: &[u8; 12]) -> u32 {
    u32::from_be_bytes([id[0], id[1], id[2], id[3]])
}

/// Parses 24 hexadecimal digits.
pub fn parse(text: &str) -> Option<[u8; 12]> {
    let digits = text.as_bytes();
    if digits.len() != 24 {
        return None;
    }
    let mut id = [0; 12];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_second_grow_and_carry_it() {
        let ids = Generator::new([1, 2, 3, 4, 5], 0x00FF_FFFE);
        let first = ids.next(7);
        let second = ids.next(7);
        assert!(first < second);
        assert_eq!(seconds(&second), 7);
        assert_eq!(ids.next(8)[9..], [0, 0, 0]);
        assert_eq!(parse(&crate::text::Hex(&first).to_string()), Some(first));
        assert_eq!(parse("zz"), None);
    }
}
