//! Numbers: an exact order across int, long, double and decimal.
//!
//! A magnitude is encoded in binary up to the precision of doubles. Only a decimal continues after that, with its
//! own digits, which then are compared only with other decimals.
//!
//!   below 1, from 2^63     exponent of the leading bit, biased (2 bytes) | fraction
//!   between                integer part, shifted left by one bit (1 to 8 bytes) [| fraction]
//!
//! The lowest bit of the integer part tells if a fraction follows. A fraction is the bits after the point (or after
//! the leading bit), seven per byte, highest first; the lowest bit of a byte tells if more bytes follow. Eight such
//! bytes hold every double. After the eighth follows a decimal's tail: exponent (2 bytes, biased) and coefficient
//! of 34 digits (15 bytes). A negative number is the complement of its magnitude after another tag.

use nagi_bson::{Decimal128, Value};

use super::{TypeBits, big::Big, complement, tag};

/// Two bits for the type of a number.
pub(super) const INT: u64 = 0;
pub(super) const DOUBLE: u64 = 1;
pub(super) const LONG: u64 = 2;
pub(super) const DECIMAL: u64 = 3;

/// Bits of a fraction before a decimal's tail begins.
pub(super) const FRACTION_BITS: usize = 56;
/// Bias of a binary exponent.
pub(super) const EXPONENT_BIAS: i32 = 1 << 15;
/// Bias of a tail's decimal exponent.
pub(super) const TAIL_BIAS: i32 = 1 << 14;
/// Least magnitude that is encoded with an exponent.
const LARGE: f64 = 9_223_372_036_854_775_808.0;

/// The parts of a decimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parts {
    Nan,
    Infinity { negative: bool },
    Finite { negative: bool, exponent: i32, coefficient: u128 },
}

/// A positive finite number in the form of the encoding.
struct Magnitude {
    /// Exponent of the leading bit.
    exponent: i32,
    /// Integer part; valid if `exponent` is within 0..63.
    integer: u64,
    /// `FRACTION_BITS` bits after the point, or after the leading bit.
    fraction: u64,
    /// Exponent and coefficient of 34 digits, if the fraction is incomplete.
    tail: Option<(i32, u128)>,
}

pub(super) fn encode(value: Value<'_>, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    match value {
        Value::Int32(n) => integer(i64::from(n), INT, out, bits),
        Value::Int64(n) => integer(n, LONG, out, bits),
        Value::Double(n) => double(n, out, bits),
        Value::Decimal128(n) => decimal(n, out, bits),
        _ => debug_assert!(false, "not a number"),
    }
}

fn note(bits: &mut Option<&mut TypeBits>, value: u64, count: usize) {
    if let Some(bits) = bits {
        bits.push(value, count);
    }
}

fn integer(n: i64, kind: u64, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    note(bits, kind, 2);
    if n == 0 {
        out.push(tag::ZERO);
    } else {
        write(n < 0, &whole(n.unsigned_abs()), out);
    }
}

fn whole(integer: u64) -> Magnitude {
    let exponent = 63 - integer.leading_zeros() as i32;
    Magnitude { exponent, integer, fraction: 0, tail: None }
}

fn double(n: f64, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    note(bits, DOUBLE, 2);
    if n.is_nan() {
        out.push(tag::NAN);
    } else if n == 0.0 {
        out.push(tag::ZERO);
        note(bits, u64::from(n.is_sign_negative()), 1);
    } else if n.is_infinite() {
        out.push(if n < 0.0 { tag::NEGATIVE_INFINITY } else { tag::POSITIVE_INFINITY });
    } else {
        write(n < 0.0, &double_magnitude(n.abs()), out);
    }
}

fn double_magnitude(n: f64) -> Magnitude {
    if (1.0..LARGE).contains(&n) {
        let integer = n as u64;
        let exponent = 63 - integer.leading_zeros() as i32;
        // Exact: at least one of 53 bits is before the point.
        let fraction = ((n - integer as f64) * (1u64 << FRACTION_BITS) as f64) as u64;
        return Magnitude { exponent, integer, fraction, tail: None };
    }
    let bits = n.to_bits();
    let (mantissa, power) = match (bits >> 52) as i32 {
        0 => (bits, -1074),
        biased => ((bits & ((1 << 52) - 1)) | (1 << 52), biased - 1075),
    };
    let leading = 63 - mantissa.leading_zeros() as usize;
    let fraction = (mantissa ^ (1 << leading)) << (FRACTION_BITS - leading);
    Magnitude { exponent: power + leading as i32, integer: 0, fraction, tail: None }
}

fn decimal(n: Decimal128, out: &mut Vec<u8>, bits: &mut Option<&mut TypeBits>) {
    note(bits, DECIMAL, 2);
    match parts(n) {
        Parts::Nan => out.push(tag::NAN),
        Parts::Infinity { negative: true } => out.push(tag::NEGATIVE_INFINITY),
        Parts::Infinity { negative: false } => out.push(tag::POSITIVE_INFINITY),
        Parts::Finite { negative, exponent, coefficient: 0 } => {
            out.push(tag::ZERO);
            note(bits, u64::from(negative), 1);
            note(bits, (exponent + DECIMAL_BIAS) as u64, 14);
        }
        Parts::Finite { negative, exponent, coefficient } => {
            note(bits, (exponent + DECIMAL_BIAS) as u64, 14);
            write(negative, &decimal_magnitude(coefficient, exponent), out);
        }
    }
}

/// Bias of decimal128's own exponent.
const DECIMAL_BIAS: i32 = 6176;
/// The least number with 35 digits.
const COEFFICIENT_END: u128 = 10u128.pow(34);

/// Splits a decimal (binary integer encoding of IEEE 754-2008). A coefficient of more than 34 digits counts as
/// zero, as in the standard.
pub(super) fn parts(n: Decimal128) -> Parts {
    let raw = u128::from_le_bytes(n.to_bytes());
    let negative = raw >> 127 == 1;
    match (raw >> 122) & 0x1F {
        0x1F => Parts::Nan,
        0x1E => Parts::Infinity { negative },
        top if top >> 3 == 0x3 => {
            let exponent = ((raw >> 111) & 0x3FFF) as i32 - DECIMAL_BIAS;
            Parts::Finite { negative, exponent, coefficient: 0 }
        }
        _ => {
            let exponent = ((raw >> 113) & 0x3FFF) as i32 - DECIMAL_BIAS;
            let coefficient = raw & ((1 << 113) - 1);
            let coefficient = if coefficient < COEFFICIENT_END { coefficient } else { 0 };
            Parts::Finite { negative, exponent, coefficient }
        }
    }
}

/// Builds a decimal from its parts.
pub(super) fn assemble(parts: Parts) -> Decimal128 {
    let raw = match parts {
        Parts::Nan => 0x1F << 122,
        Parts::Infinity { negative } => (u128::from(negative) << 127) | (0x1E << 122),
        Parts::Finite { negative, exponent, coefficient } => {
            let exponent = (exponent + DECIMAL_BIAS) as u128 & 0x3FFF;
            (u128::from(negative) << 127) | (exponent << 113) | coefficient
        }
    };
    Decimal128::from_bytes(raw.to_le_bytes())
}

/// The biased exponent that was stored in the type bits.
pub(super) fn exponent_from_bits(bits: u64) -> i32 {
    bits as i32 - DECIMAL_BIAS
}

fn decimal_magnitude(coefficient: u128, exponent: i32) -> Magnitude {
    short_fraction(coefficient, exponent).unwrap_or_else(|| long_decimal(coefficient, exponent))
}

fn tail(mut coefficient: u128, mut exponent: i32) -> (i32, u128) {
    while coefficient < COEFFICIENT_END / 10 {
        coefficient *= 10;
        exponent -= 1;
    }
    (exponent, coefficient)
}

/// Amounts of money and similar decimals: at least one, few digits. Does not allocate.
fn short_fraction(coefficient: u128, exponent: i32) -> Option<Magnitude> {
    if !(-18..=0).contains(&exponent) || coefficient >= 1 << 63 {
        return None;
    }
    let scale = 10u128.pow(exponent.unsigned_abs());
    let rest = coefficient % scale;
    let integer = (coefficient / scale) as u64;
    if integer == 0 {
        return None;
    }
    let fraction = ((rest << FRACTION_BITS) / scale) as u64;
    let exact = (rest << FRACTION_BITS).is_multiple_of(scale);
    let tail = (!exact).then(|| tail(coefficient, exponent));
    Some(Magnitude { fraction, tail, ..whole(integer) })
}

/// Any decimal. Takes up to about a millisecond for exponents near the limits.
fn long_decimal(coefficient: u128, exponent: i32) -> Magnitude {
    let mut big = Big::from_u128(coefficient);
    let mut point = 0;
    let mut exact = true;
    if exponent >= 0 {
        big.mul_ten(exponent.unsigned_abs());
    } else {
        let scale = exponent.unsigned_abs();
        // More bits than 10^scale has, plus those of a fraction.
        point = scale as usize * 3322 / 1000 + 2 + 64;
        big.shl(point);
        exact = big.div_ten(scale);
    }
    let leading = big.bit_len() - 1;
    let binary_exponent = leading as i32 - point as i32;
    let (integer, unit) = match binary_exponent {
        0..63 => (big.bits(point, 63), point),
        _ => (0, leading),
    };
    let low = unit.saturating_sub(FRACTION_BITS);
    let fraction = big.bits(low, unit - low) << (FRACTION_BITS - (unit - low));
    let exact = exact && !big.any_below(low);
    let tail = (!exact).then(|| tail(coefficient, exponent));
    Magnitude { exponent: binary_exponent, integer, fraction, tail }
}

fn write(negative: bool, magnitude: &Magnitude, out: &mut Vec<u8>) {
    let start = out.len();
    let has_fraction = magnitude.fraction != 0 || magnitude.tail.is_some();
    match magnitude.exponent {
        0..63 => {
            let shifted = (magnitude.integer << 1) | u64::from(has_fraction);
            let len = 8 - shifted.leading_zeros() as usize / 8;
            out.push(match negative {
                true => tag::NEGATIVE_INT - len as u8,
                false => tag::POSITIVE_INT + len as u8,
            });
            out.extend_from_slice(&shifted.to_be_bytes()[8 - len..]);
            if has_fraction {
                write_fraction(magnitude, out);
            }
        }
        exponent => {
            out.push(match (negative, exponent < 0) {
                (true, true) => tag::NEGATIVE_SMALL,
                (true, false) => tag::NEGATIVE_LARGE,
                (false, true) => tag::POSITIVE_SMALL,
                (false, false) => tag::POSITIVE_LARGE,
            });
            out.extend_from_slice(&((exponent + EXPONENT_BIAS) as u16).to_be_bytes());
            write_fraction(magnitude, out);
        }
    }
    if negative {
        complement(&mut out[start + 1..]);
    }
}

fn write_fraction(magnitude: &Magnitude, out: &mut Vec<u8>) {
    // The highest bit of the fraction becomes the highest of 64.
    let mut rest = magnitude.fraction << (64 - FRACTION_BITS);
    for _ in 0..FRACTION_BITS / 7 {
        let group = (rest >> 57) as u8;
        rest <<= 7;
        let more = rest != 0 || magnitude.tail.is_some();
        out.push((group << 1) | u8::from(more));
        if !more {
            return;
        }
    }
    if let Some((exponent, coefficient)) = magnitude.tail {
        out.extend_from_slice(&((exponent + TAIL_BIAS) as u16).to_be_bytes());
        out.extend_from_slice(&coefficient.to_be_bytes()[1..]);
    }
}
