//! Values as numbers, and back.

use nagi_bson::{Type, Value};

/// What doubles are multiplied with to become integers.
pub(super) const SCALES: [f64; 5] = [1.0, 10.0, 100.0, 10_000.0, 100_000_000.0];

/// The greatest magnitude of a scaled double: up to it, a double has each integer exactly.
const SCALED_MAX: f64 = 9_007_199_254_740_992.0;

/// How the differences of a type's values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Only repetitions.
    Repeated,
    /// 64 bits.
    Narrow,
    /// 64 bits; the differences of differences are stored.
    NarrowSecond,
    /// Doubles: 64 bits at some scale.
    Double,
    /// 128 bits.
    Wide,
}

pub(super) fn kind(of: Type) -> Kind {
    match of {
        Type::Int | Type::Long | Type::Bool => Kind::Narrow,
        Type::ObjectId | Type::Date | Type::Timestamp => Kind::NarrowSecond,
        Type::Double => Kind::Double,
        Type::Decimal | Type::BinData | Type::String | Type::JavaScript => Kind::Wide,
        _ => Kind::Repeated,
    }
}

/// The number of a value of a narrow kind; doubles are unscaled.
pub(super) fn narrow(value: Value<'_>) -> i64 {
    match value {
        Value::Int32(n) => i64::from(n),
        Value::Int64(n) | Value::DateTime(n) => n,
        Value::Bool(b) => i64::from(b),
        Value::Timestamp(n) => n as i64,
        Value::Double(n) => n.to_bits() as i64,
        Value::ObjectId(id) => from_object_id(id),
        _ => 0,
    }
}

/// The number of a value of the wide kind; none for a text or binary data that has none.
pub(super) fn wide(value: Value<'_>) -> Option<i128> {
    match value {
        Value::Decimal128(n) => Some(i128::from_le_bytes(n.to_bytes())),
        Value::Binary(b) => {
            let mut bytes = [0; 16];
            let given = b.bytes;
            bytes.get_mut(..given.len())?.copy_from_slice(given);
            Some(i128::from_le_bytes(bytes))
        }
        // The last characters are in the low bits: they are the ones that differ. A leading zero byte would be lost.
        Value::String(text) | Value::Code(text) => {
            let text = text.as_bytes();
            let mut bytes = [0; 16];
            let start = 16_usize.checked_sub(text.len())?;
            bytes[start..].copy_from_slice(text);
            (text.first() != Some(&0)).then_some(i128::from_be_bytes(bytes))
        }
        _ => None,
    }
}

/// The bytes of the text with this number.
pub(super) fn text_bytes(number: i128) -> ([u8; 16], usize) {
    let bytes = number.to_be_bytes();
    let start = bytes.iter().position(|b| *b != 0).unwrap_or(16);
    (bytes, start)
}

/// The parts of an ObjectId that count, most often changed bits lowest. Those in the middle identify the process.
fn from_object_id(id: &[u8; 12]) -> i64 {
    i64::from_le_bytes([id[11], id[3], id[10], id[2], id[9], id[1], id[0], 0])
}

/// Writes a number into the parts of an ObjectId that count.
pub(super) fn into_object_id(number: i64, id: &mut [u8; 12]) {
    let b = number.to_le_bytes();
    (id[0], id[1], id[2], id[3]) = (b[6], b[5], b[3], b[1]);
    (id[9], id[10], id[11]) = (b[4], b[2], b[0]);
}

/// A double as an integer at a scale; none if it would not come back with the same bits.
pub(super) fn scaled(value: f64, scale: usize) -> Option<i64> {
    let Some(factor) = SCALES.get(scale) else { return Some(value.to_bits() as i64) };
    let product = value * factor;
    // Also false for a NaN.
    if !(-SCALED_MAX..=SCALED_MAX).contains(&product) {
        return None;
    }
    let number = product.round() as i64;
    (unscaled(number, scale).to_bits() == value.to_bits()).then_some(number)
}

/// The double of an integer at a scale.
pub(super) fn unscaled(number: i64, scale: usize) -> f64 {
    match SCALES.get(scale) {
        Some(factor) => number as f64 / factor,
        None => f64::from_bits(number as u64),
    }
}

/// What the integers of a scale are divided by; none if there is no scale.
pub(super) fn factor(scale: usize) -> Option<f64> {
    SCALES.get(scale).copied()
}

pub(super) const fn zigzag(n: i64) -> u64 {
    (n << 1 ^ n >> 63) as u64
}

pub(super) const fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

pub(super) const fn zigzag_wide(n: i128) -> u128 {
    (n << 1 ^ n >> 127) as u128
}

pub(super) const fn unzigzag_wide(n: u128) -> i128 {
    (n >> 1) as i128 ^ -((n & 1) as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_in_the_lowest_bit() {
        for n in [0, 1, -1, 1000, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(n)), n);
            let wide = i128::from(n) << 40 | 5;
            assert_eq!(unzigzag_wide(zigzag_wide(wide)), wide);
        }
        assert_eq!((zigzag(-1), zigzag(1), zigzag(-1000)), (1, 2, 1999));
    }

    #[test]
    fn doubles_come_back_at_a_scale_or_are_refused() {
        assert_eq!(scaled(254.03, 2), Some(25403));
        assert_eq!(scaled(254.03, 1), None);
        for refused in [f64::NAN, f64::INFINITY, -0.0, 1e300, 0.1 + 0.2] {
            assert!((0..5).all(|scale| scaled(refused, scale).is_none()), "{refused}");
            assert_eq!(scaled(refused, 5).map(|n| n as u64), Some(refused.to_bits()));
        }
    }

    #[test]
    fn ids_and_texts_come_back() {
        let id = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let mut other = [0, 0, 0, 0, 5, 6, 7, 8, 9, 0, 0, 0];
        into_object_id(from_object_id(&id), &mut other);
        assert_eq!(other, id);
        for text in ["", "a", "sixteen bytes 16"] {
            let (bytes, start) = text_bytes(wide(Value::String(text)).unwrap());
            assert_eq!(&bytes[start..], text.as_bytes());
        }
        assert_eq!(wide(Value::String("seventeen bytes 7")), None);
        assert_eq!(wide(Value::String("\0a")), None);
    }
}
