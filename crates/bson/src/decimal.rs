//! Decimal128: the 16 bytes, text, order and arithmetic (IEEE 754-2008, 34 digits).

/// A decimal128 value as its 16 little-endian bytes; the exponent is kept (1.10 is not 1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal128([u8; 16]);

impl Decimal128 {
    pub const fn from_bytes(bytes: [u8; 16]) -> Decimal128 {
        Decimal128(bytes)
    }

    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}
