//! Type bits: the information that an order-preserving key loses, stored with it.
//!
//! A stream of bits in the order of the key's values: null or missing (1 bit), string or symbol (1), int, double,
//! long or decimal (2, and more for a zero's sign and a decimal's exponent). Defaults are zeros, and trailing zero
//! bytes are omitted, so most keys need no byte at all.

/// A stream of bits to write.
#[derive(Default, Clone, Debug)]
pub struct TypeBits {
    bytes: Vec<u8>,
    bit_count: usize,
}

impl TypeBits {
    pub fn new() -> TypeBits {
        TypeBits::default()
    }

    /// Empties it and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bit_count = 0;
    }

    /// Appends the lowest `count` bits of `value`, lowest first.
    pub(crate) fn push(&mut self, value: u64, count: usize) {
        for bit in 0..count {
            let at = self.bit_count;
            self.bit_count += 1;
            if (value >> bit) & 1 == 1 {
                // A byte is added with its first set bit, so there are no trailing zeros.
                self.bytes.resize(at / 8 + 1, 0);
                self.bytes[at / 8] |= 1 << (at % 8);
            }
        }
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A stream of bits to read; after the end it yields zeros.
pub(crate) struct BitReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> BitReader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> BitReader<'b> {
        BitReader { bytes, at: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> u64 {
        let mut value = 0;
        for bit in 0..count {
            let byte = self.bytes.get(self.at / 8).copied().unwrap_or(0);
            value |= u64::from((byte >> (self.at % 8)) & 1) << bit;
            self.at += 1;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_cost_nothing() {
        let mut bits = TypeBits::new();
        bits.push(0, 9);
        assert!(bits.as_bytes().is_empty());
        bits.push(0b101, 3);
        bits.push(0, 20);
        assert_eq!(bits.as_bytes(), [0, 0b1010]);
        let mut reader = BitReader::new(bits.as_bytes());
        assert_eq!((reader.take(9), reader.take(3), reader.take(64)), (0, 0b101, 0));
    }
}
