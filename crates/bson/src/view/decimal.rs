//! Decimal128 (IEEE 754-2008, 34 digits): encoding, text, order and arithmetic.
//!
//! ```text
//!   sign (1 bit) | exponent, bias 6176 (14 bits) | coefficient, binary (113 bits)
//! ```
//!
//! Arithmetic and functions use Intel's library, as MongoDB does, so that the last digits agree. Printing and
//! ordering are implemented here, because they are frequent and simple.

use std::cmp::Ordering;
use std::fmt;

use dfp_number_sys::bid128_000 as bid;
use dfp_number_sys::{BID128, EXE_CLEAR, EXE_INVALID, EXE_OVERFLOW, RND_NEAREST_EVEN};

use crate::view::raw;

/// A decimal128 value as its 16 little-endian bytes. The exponent is kept (1.10 is not 1.1).
///
/// `==` compares bytes; [`Decimal128::compare`] compares numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal128([u8; 16]);

const BIAS: i32 = 6176;
const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;
const SIGN: u128 = 1 << 127;
const INFINITE: u128 = 0b1_1110 << 122;
const NOT_A_NUMBER: u128 = 0b1_1111 << 122;
const KIND: u128 = 0b1_1111 << 122;

/// The parts of a finite number: `coefficient * 10^exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    pub negative: bool,
    pub coefficient: u128,
    pub exponent: i32,
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $call:ident;)*) => {
        $($(#[$doc])* #[must_use] pub fn $name(self) -> Decimal128 {
            let mut flags = EXE_CLEAR;
            Decimal128::of(bid::$call(self.bid(), RND_NEAREST_EVEN, &mut flags))
        })*
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $call:ident;)*) => {
        $($(#[$doc])* #[must_use] pub fn $name(self, other: Decimal128) -> Decimal128 {
            let mut flags = EXE_CLEAR;
            let (a, b) = (self.bid(), other.bid());
            Decimal128::of(bid::$call(a, b, RND_NEAREST_EVEN, &mut flags))
        })*
    };
}

macro_rules! integral {
    ($($(#[$doc:meta])* $name:ident => $call:ident;)*) => {
        $($(#[$doc])* #[must_use] pub fn $name(self) -> Decimal128 {
            let mut flags = EXE_CLEAR;
            Decimal128::of(bid::$call(self.bid(), &mut flags))
        })*
    };
}

#[expect(clippy::should_implement_trait, reason = "an operator does not suggest rounding")]
impl Decimal128 {
    pub const ZERO: Decimal128 = Decimal128::from_bits((BIAS as u128) << 113);
    pub const ONE: Decimal128 = Decimal128::from_bits(((BIAS as u128) << 113) | 1);
    pub const NAN: Decimal128 = Decimal128::from_bits(NOT_A_NUMBER);
    pub const INFINITY: Decimal128 = Decimal128::from_bits(INFINITE);
    pub const NEG_INFINITY: Decimal128 = Decimal128::from_bits(INFINITE | SIGN);

    pub const fn from_bytes(bytes: [u8; 16]) -> Decimal128 {
        Decimal128(bytes)
    }

    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    const fn bits(self) -> u128 {
        u128::from_le_bytes(self.0)
    }

    const fn from_bits(bits: u128) -> Decimal128 {
        Decimal128(bits.to_le_bytes())
    }

    fn bid(self) -> BID128 {
        let bits = self.bits();
        BID128::new(bits as u64, (bits >> 64) as u64)
    }

    fn of(n: BID128) -> Decimal128 {
        let [low, high] = raw::decimal_words(n);
        Decimal128::from_bits((u128::from(high) << 64) | u128::from(low))
    }

    pub const fn is_nan(self) -> bool {
        self.bits() & KIND == NOT_A_NUMBER
    }

    pub const fn is_infinite(self) -> bool {
        self.bits() & KIND == INFINITE
    }

    pub const fn is_finite(self) -> bool {
        self.bits() & INFINITE != INFINITE
    }

    /// The sign bit, which is also set for -0 and for a negative NaN.
    pub const fn is_negative(self) -> bool {
        self.bits() & SIGN != 0
    }

    /// Returns true for a zero of either sign and with any exponent.
    pub fn is_zero(self) -> bool {
        self.parts().is_some_and(|p| p.coefficient == 0)
    }

    /// The sign, coefficient and exponent of a finite number. A coefficient of more than 34 digits counts as zero, as
    /// the standard requires for encodings that are not canonical.
    pub const fn parts(self) -> Option<Parts> {
        if !self.is_finite() {
            return None;
        }
        let bits = self.bits();
        let negative = bits & SIGN != 0;
        if (bits >> 125) & 0b11 == 0b11 {
            // The large form: its coefficient is at least 2^113, which is more than 34 digits.
            let exponent = ((bits >> 111) & 0x3FFF) as i32 - BIAS;
            return Some(Parts { negative, coefficient: 0, exponent });
        }
        let exponent = ((bits >> 113) & 0x3FFF) as i32 - BIAS;
        let coefficient = bits & ((1 << 113) - 1);
        let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
        Some(Parts { negative, coefficient, exponent })
    }

    /// The same number with all 34 digits; a zero gets the smallest exponent. MongoDB's library returns powers in
    /// this form.
    #[must_use]
    pub fn with_all_digits(self) -> Decimal128 {
        let Some(Parts { negative, mut coefficient, mut exponent }) = self.parts() else {
            return self;
        };
        if coefficient == 0 {
            exponent = -BIAS;
        }
        while coefficient > 0 && coefficient <= COEFFICIENT_MAX / 10 && exponent > -BIAS {
            coefficient *= 10;
            exponent -= 1;
        }
        Decimal128::from_parts(Parts { negative, coefficient, exponent }).unwrap_or(self)
    }

    /// Builds a number from its parts; `None` if the coefficient or the exponent is out of range.
    pub const fn from_parts(parts: Parts) -> Option<Decimal128> {
        let exponent = parts.exponent + BIAS;
        if parts.coefficient > COEFFICIENT_MAX || exponent < 0 || exponent > 12287 {
            return None;
        }
        let sign = if parts.negative { SIGN } else { 0 };
        Some(Decimal128::from_bits(sign | ((exponent as u128) << 113) | parts.coefficient))
    }

    pub fn from_i64(n: i64) -> Decimal128 {
        let coefficient = u128::from(n.unsigned_abs());
        let sign = if n < 0 { SIGN } else { 0 };
        Decimal128::from_bits(sign | ((BIAS as u128) << 113) | coefficient)
    }

    /// Converts a double with 15 significant digits, as MongoDB does: 0.1 becomes 0.100000000000000.
    pub fn from_f64(n: f64) -> Decimal128 {
        Decimal128::from_f64_digits(n, 15)
    }

    /// Converts a double with 34 significant digits, to the closest decimal.
    pub fn from_f64_exact(n: f64) -> Decimal128 {
        Decimal128::from_f64_digits(n, 34)
    }

    fn from_f64_digits(n: f64, digits: usize) -> Decimal128 {
        if n.is_nan() {
            return Decimal128::NAN;
        }
        if n.is_infinite() {
            return if n < 0.0 { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY };
        }
        if n == 0.0 {
            return if n.is_sign_negative() { Decimal128::ZERO.neg() } else { Decimal128::ZERO };
        }
        let text = format!("{n:.*e}", digits - 1);
        Decimal128::parse(&text).expect("scientific notation with at most 34 digits")
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        let mut flags = EXE_CLEAR;
        bid::bid128_to_binary64(self.bid(), RND_NEAREST_EVEN, &mut flags)
    }

    /// The integer part, if the number is finite and the part fits.
    pub fn to_i64(self) -> Option<i64> {
        let parts = self.parts()?;
        let mut magnitude = parts.coefficient;
        if parts.exponent < 0 {
            let power = 10_u128.checked_pow(parts.exponent.unsigned_abs());
            magnitude = power.map_or(0, |power| magnitude / power);
        } else if magnitude != 0 {
            let power = 10_u128.checked_pow(parts.exponent.unsigned_abs())?;
            magnitude = magnitude.checked_mul(power)?;
        }
        let magnitude = i128::try_from(magnitude).ok()?;
        i64::try_from(if parts.negative { -magnitude } else { magnitude }).ok()
    }

    /// The number as an int64, if it is an integer and fits.
    pub fn to_i64_exact(self) -> Option<i64> {
        let n = self.to_i64()?;
        (Decimal128::from_i64(n).compare(self) == Ordering::Equal).then_some(n)
    }

    /// Parses a decimal number, `Infinity` or `NaN` (any case). More than 34 digits are rounded to even. `None` for
    /// other texts and for numbers out of range.
    pub fn parse(text: &str) -> Option<Decimal128> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if ["inf", "infinity"].iter().any(|name| unsigned.eq_ignore_ascii_case(name)) {
            return Some(if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY });
        }
        if unsigned.eq_ignore_ascii_case("nan") {
            return Some(Decimal128::NAN);
        }
        if text.len() > 4096 || !is_number(unsigned) {
            return None;
        }
        let mut flags = EXE_CLEAR;
        let n = Decimal128::of(bid::bid128_from_string(text, RND_NEAREST_EVEN, &mut flags));
        (flags & (EXE_INVALID | EXE_OVERFLOW) == 0 && n.is_finite()).then_some(n)
    }

    /// The numeric order. NaN is below every number and equal to itself; -0 equals 0.
    pub fn compare(self, other: Decimal128) -> Ordering {
        let (Some(a), Some(b)) = (self.parts(), other.parts()) else {
            return self.rank().cmp(&other.rank());
        };
        match (a.coefficient == 0, b.coefficient == 0) {
            (true, true) => return Ordering::Equal,
            (true, false) if b.negative => return Ordering::Greater,
            (true, false) => return Ordering::Less,
            (false, true) if a.negative => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        match (a.negative, b.negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => compare_magnitudes(a, b),
            (true, true) => compare_magnitudes(b, a),
        }
    }

    /// The rank: NaN, negative infinity, finite, infinity.
    fn rank(self) -> u8 {
        match (self.is_nan(), self.is_infinite(), self.is_negative()) {
            (true, ..) => 0,
            (_, true, true) => 1,
            (_, true, false) => 3,
            _ => 2,
        }
    }

    /// The same order as [`Decimal128::compare`].
    pub fn cmp_total(self, other: Decimal128) -> Ordering {
        self.compare(other)
    }

    /// The number with the opposite sign and the same exponent.
    #[must_use]
    pub const fn neg(self) -> Decimal128 {
        Decimal128::from_bits(self.bits() ^ SIGN)
    }

    /// The number without its sign.
    #[must_use]
    pub const fn abs(self) -> Decimal128 {
        Decimal128::from_bits(self.bits() & !SIGN)
    }

    binary! {
        add => bid128_add;
        sub => bid128_sub;
        mul => bid128_mul;
        div => bid128_div;
        pow => bid128_pow;
        atan2 => bid128_atan2;
        /// `self` with the exponent of `other`, rounded to even.
        quantize => bid128_quantize;
    }

    unary! {
        sqrt => bid128_sqrt;
        exp => bid128_exp;
        /// Natural logarithm.
        ln => bid128_log;
        log10 => bid128_log10;
        log2 => bid128_log2;
        sin => bid128_sin;
        cos => bid128_cos;
        tan => bid128_tan;
        asin => bid128_asin;
        acos => bid128_acos;
        atan => bid128_atan;
        sinh => bid128_sinh;
        cosh => bid128_cosh;
        tanh => bid128_tanh;
        asinh => bid128_asinh;
        acosh => bid128_acosh;
        atanh => bid128_atanh;
    }

    integral! {
        floor => bid128_round_integral_negative;
        ceil => bid128_round_integral_positive;
        trunc => bid128_round_integral_zero;
        /// Rounds to the nearest integer, ties to even.
        round_integral => bid128_round_integral_nearest_even;
    }

    /// The remainder of truncated division, with the sign of `self`.
    #[must_use]
    pub fn rem(self, other: Decimal128) -> Decimal128 {
        let mut flags = EXE_CLEAR;
        Decimal128::of(bid::bid128_fmod(self.bid(), other.bid(), &mut flags))
    }

    /// Rounds to `places` digits after the decimal point (negative: before it), ties to even.
    #[must_use]
    pub fn round(self, places: i32) -> Decimal128 {
        self.to_places(places, RND_NEAREST_EVEN)
    }

    /// Truncates after `places` digits behind the decimal point (negative: before it).
    #[must_use]
    pub fn trunc_to(self, places: i32) -> Decimal128 {
        self.to_places(places, dfp_number_sys::RND_TOWARD_ZERO)
    }

    fn to_places(self, places: i32, mode: dfp_number_sys::RndMode) -> Decimal128 {
        let Some(parts) = self.parts() else { return self };
        let exponent = -places.clamp(-6111, 6176);
        if parts.exponent >= exponent {
            return self;
        }
        let Some(quantum) =
            Decimal128::from_parts(Parts { negative: false, coefficient: 1, exponent })
        else {
            return self;
        };
        let mut flags = EXE_CLEAR;
        Decimal128::of(bid::bid128_quantize(self.bid(), quantum.bid(), mode, &mut flags))
    }
}

/// `digits [. digits] [e digits]` with at least one digit before the exponent.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_good = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    digits(whole) && digits(fraction) && whole.len() + fraction.len() > 0 && exponent_good
}

/// Compares the magnitudes of two numbers that are not zero.
fn compare_magnitudes(a: Parts, b: Parts) -> Ordering {
    let top = |p: Parts| p.coefficient.ilog10() as i32 + p.exponent;
    top(a).cmp(&top(b)).then_with(|| {
        // The highest digits have the same position, so the exponents differ by 33 at most and the product is below
        // 10^34.
        let shift = a.exponent - b.exponent;
        let power = 10_u128.pow(shift.unsigned_abs());
        if shift >= 0 {
            (a.coefficient * power).cmp(&b.coefficient)
        } else {
            a.coefficient.cmp(&(b.coefficient * power))
        }
    })
}

impl fmt::Display for Decimal128 {
    /// MongoDB's text form: plain down to 10^-6, otherwise scientific; trailing zeros are kept.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parts) = self.parts() else {
            return f.write_str(match (self.is_nan(), self.is_negative()) {
                (true, _) => "NaN",
                (false, true) => "-Infinity",
                (false, false) => "Infinity",
            });
        };
        if parts.negative {
            f.write_str("-")?;
        }
        let digits = parts.coefficient.to_string();
        let adjusted = parts.exponent + digits.len() as i32 - 1;
        if parts.exponent > 0 || adjusted < -6 {
            f.write_str(&digits[..1])?;
            if digits.len() > 1 {
                write!(f, ".{}", &digits[1..])?;
            }
            return write!(f, "E{adjusted:+}");
        }
        let fraction = parts.exponent.unsigned_abs() as usize;
        if fraction == 0 {
            f.write_str(&digits)
        } else if digits.len() > fraction {
            let point = digits.len() - fraction;
            write!(f, "{}.{}", &digits[..point], &digits[point..])
        } else {
            write!(f, "0.{}{digits}", "0".repeat(fraction - digits.len()))
        }
    }
}

impl fmt::Debug for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal128 {
        Decimal128::parse(text).unwrap()
    }

    #[test]
    fn text_keeps_zeros_and_switches_to_scientific() {
        for text in [
            "0",
            "-0",
            "1.10",
            "0.000001",
            "1E-7",
            "1E+3",
            "1.5E+10",
            "-12.5",
            "NaN",
            "Infinity",
            "-Infinity",
            "0E-10",
            "0E+3",
            "0.00",
            "9.999999999999999999999999999999999E+6144",
            "1E-6176",
            "1234567890123456789012345678901234",
        ] {
            assert_eq!(d(text).to_string(), text);
        }
        assert_eq!(d("1e3").to_string(), "1E+3");
        assert_eq!(d("12345678901234567890123456789012345").to_string().len(), 39);
        for text in ["", "-", "1e", "1.2.3", "0x1", "1e7000", " 1", "1_0", "--1"] {
            assert!(Decimal128::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn order_ignores_exponents_and_puts_nan_first() {
        let sorted = ["NaN", "-Infinity", "-2", "-1E-6176", "0", "0.1", "1", "1E+34", "Infinity"];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(d(a).compare(d(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(d("1.10").compare(d("1.1")), Ordering::Equal);
        assert_eq!(d("-0").compare(d("0E+5")), Ordering::Equal);
    }

    #[test]
    fn arithmetic_keeps_exponents() {
        assert_eq!(d("1.10").add(d("2.2")).to_string(), "3.30");
        assert_eq!(d("1").div(d("3")).to_string(), "0.3333333333333333333333333333333333");
        assert_eq!(d("2").sqrt().to_string(), "1.414213562373095048801688724209698");
        assert_eq!(d("-7").rem(d("3")).to_string(), "-1");
        assert_eq!(d("2.5").round(0).to_string(), "2");
        assert_eq!(d("1.2345").round(2).to_string(), "1.23");
        assert_eq!(d("1555").round(-2).to_string(), "1.6E+3");
        assert_eq!(d("-1.99").trunc_to(1).to_string(), "-1.9");
        assert_eq!(d("1.5").ceil().to_string(), "2");
    }

    #[test]
    fn conversions() {
        assert_eq!(Decimal128::from_f64(0.1).to_string(), "0.100000000000000");
        assert_eq!(Decimal128::from_f64(-0.0).to_string(), "-0");
        assert_eq!(Decimal128::from_i64(i64::MIN).to_i64(), Some(i64::MIN));
        assert_eq!(d("9223372036854775808").to_i64(), None);
        assert_eq!(d("1.9").to_i64(), Some(1));
        assert_eq!(d("1.9").to_i64_exact(), None);
        assert_eq!(d("10E+2").to_i64_exact(), Some(1000));
        assert_eq!(d("1E-6000").to_i64(), Some(0));
        assert_eq!(d("0E+6000").to_i64(), Some(0));
        assert_eq!(d("0.5").to_f64(), 0.5);
    }
}
