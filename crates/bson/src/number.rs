//! Conversions, exact comparisons and widening arithmetic for the four numeric types.
//!
//! Comparisons do not round: an int64 or a decimal is compared with a double by their exact values.

use std::cmp::Ordering;

use crate::{Decimal128, Value};

/// Any number as the nearest double. `None` if the value is not a number.
pub fn as_f64(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int32(n) => Some(f64::from(n)),
        Value::Int64(n) => Some(n as f64),
        Value::Double(n) => Some(n),
        Value::Decimal128(n) => Some(n.to_f64()),
        _ => None,
    }
}

/// Any number as a decimal; a double is converted with 15 digits. `None` if the value is not a number.
pub fn as_decimal(value: Value<'_>) -> Option<Decimal128> {
    match value {
        Value::Int32(n) => Some(Decimal128::from_i64(i64::from(n))),
        Value::Int64(n) => Some(Decimal128::from_i64(n)),
        Value::Double(n) => Some(Decimal128::from_f64(n)),
        Value::Decimal128(n) => Some(n),
        _ => None,
    }
}

/// A number of any type that is an integer and fits into 64 bits: 3, 3.0, NumberLong(3), NumberDecimal("3").
pub fn as_i64_exact(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(i64::from(n)),
        Value::Int64(n) => Some(n),
        Value::Double(n) => f64_as_i64_exact(n),
        Value::Decimal128(n) => n.to_i64_exact(),
        _ => None,
    }
}

/// A double that is an integer and in the range of int64.
pub fn f64_as_i64_exact(n: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    ((-LIMIT..LIMIT).contains(&n) && n.trunc() == n).then_some(n as i64)
}

/// The integer part, limited to the range of int64; 0 for NaN. `None` if the value is not a number.
pub fn truncate_to_i64(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(i64::from(n)),
        Value::Int64(n) => Some(n),
        Value::Double(n) => Some(n as i64),
        Value::Decimal128(n) if n.is_nan() => Some(0),
        Value::Decimal128(n) => {
            Some(n.to_i64().unwrap_or(if n.is_negative() { i64::MIN } else { i64::MAX }))
        }
        _ => None,
    }
}

/// The reason why a value is not a 64-bit integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotInteger {
    /// It is not a number.
    NotNumber,
    Nan,
    /// It has a fraction.
    Fraction,
    /// It is infinite or outside of the range of int64.
    TooLarge,
    /// It is a negative integer where only non-negative ones are allowed.
    Negative,
}

/// A number of any type that is an integer and fits into 64 bits.
///
/// # Errors
/// The reason otherwise; never [`NotInteger::Negative`], which is for callers with a lower bound.
pub fn integer(value: Value<'_>) -> Result<i64, NotInteger> {
    if !value.is_number() {
        return Err(NotInteger::NotNumber);
    }
    as_i64_exact(value).ok_or_else(|| match () {
        () if is_nan(value) => NotInteger::Nan,
        () if truncate_is_exact(value) => NotInteger::Fraction,
        () => NotInteger::TooLarge,
    })
}

/// Like [`integer`], but the number must not be negative.
///
/// # Errors
/// Any reason.
pub fn non_negative_integer(value: Value<'_>) -> Result<i64, NotInteger> {
    match integer(value)? {
        n if n < 0 => Err(NotInteger::Negative),
        n => Ok(n),
    }
}

/// Returns true if the integer part of a number fits into 64 bits.
fn truncate_is_exact(value: Value<'_>) -> bool {
    match value {
        Value::Double(n) => f64_as_i64_exact(n.trunc()).is_some(),
        Value::Decimal128(n) => n.to_i64().is_some(),
        _ => true,
    }
}

/// Returns true if the value is a NaN of either type.
pub fn is_nan(value: Value<'_>) -> bool {
    match value {
        Value::Double(n) => n.is_nan(),
        Value::Decimal128(n) => n.is_nan(),
        _ => false,
    }
}

/// The exact order of two numbers. NaN is below all other numbers and equal to NaN. A value that is not a number
/// counts as NaN; callers must check the types.
pub fn compare(a: Value<'_>, b: Value<'_>) -> Ordering {
    use Value::{Decimal128 as Dec, Double, Int32, Int64};
    match (a, b) {
        (Int32(a), Int32(b)) => a.cmp(&b),
        (Int64(a), Int64(b)) => a.cmp(&b),
        (Int32(a), Int64(b)) => i64::from(a).cmp(&b),
        (Int64(a), Int32(b)) => a.cmp(&i64::from(b)),
        (Double(a), Double(b)) => compare_f64(a, b),
        (Int32(a), Double(b)) => compare_f64(f64::from(a), b),
        (Double(a), Int32(b)) => compare_f64(a, f64::from(b)),
        (Int64(a), Double(b)) => compare_i64_f64(a, b),
        (Double(a), Int64(b)) => compare_i64_f64(b, a).reverse(),
        (Dec(a), Dec(b)) => a.compare(b),
        (Dec(a), Int32(b)) => a.compare(Decimal128::from_i64(i64::from(b))),
        (Dec(a), Int64(b)) => a.compare(Decimal128::from_i64(b)),
        (Int32(a), Dec(b)) => Decimal128::from_i64(i64::from(a)).compare(b),
        (Int64(a), Dec(b)) => Decimal128::from_i64(a).compare(b),
        (Dec(a), Double(b)) => compare_decimal_f64(a, b),
        (Double(a), Dec(b)) => compare_decimal_f64(b, a).reverse(),
        _ => is_number_rank(a).cmp(&is_number_rank(b)),
    }
}

fn is_number_rank(value: Value<'_>) -> bool {
    value.is_number() && !is_nan(value)
}

/// Compares doubles, with NaN first and -0.0 equal to 0.0.
pub fn compare_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_i64_f64(a: i64, b: f64) -> Ordering {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if b.is_nan() || b < -LIMIT {
        return Ordering::Greater;
    }
    if b >= LIMIT {
        return Ordering::Less;
    }
    // The integer part is exact; a fraction decides ties.
    let whole = b.trunc();
    a.cmp(&(whole as i64)).then_with(|| compare_f64(whole, b))
}

fn compare_decimal_f64(a: Decimal128, b: f64) -> Ordering {
    if a.is_nan() || b.is_nan() {
        return b.is_nan().cmp(&a.is_nan());
    }
    // Rounding is monotonic, so different doubles decide. Equal ones are compared digit by digit.
    compare_f64(a.to_f64(), b).then_with(|| match a.parts() {
        Some(parts) if b.is_finite() && b != 0.0 => compare_digits(parts, b),
        Some(parts) if b == 0.0 => match (parts.coefficient == 0, parts.negative) {
            (true, _) => Ordering::Equal,
            (false, true) => Ordering::Less,
            (false, false) => Ordering::Greater,
        },
        // The decimal is finite and the double is not: the rounding exceeded the range of doubles.
        Some(_) => 0.0_f64.total_cmp(&b),
        None if b.is_infinite() => Ordering::Equal,
        None => compare_f64(a.to_f64(), b),
    })
}

/// Compares a finite decimal and a double of the same sign that are close to each other and not zero.
fn compare_digits(a: crate::view::decimal::Parts, b: f64) -> Ordering {
    if a.coefficient == 0 {
        return 0.0_f64.total_cmp(&b);
    }
    // 767 significant digits represent any double exactly.
    let text = format!("{:.766e}", b.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let ours = a.coefficient.to_string();
    let our_exponent = a.exponent + ours.len() as i32 - 1;
    let theirs = mantissa.bytes().filter(|b| *b != b'.');
    let padded = ours.bytes().chain(std::iter::repeat(b'0')).take(767);
    let order = our_exponent.cmp(&exponent).then_with(|| padded.cmp(theirs));
    if a.negative { order.reverse() } else { order }
}

/// The rank of a type; the result of arithmetic has the highest one: int32, int64, double, decimal.
fn rank(value: Value<'_>) -> u8 {
    match value {
        Value::Int32(_) => 0,
        Value::Int64(_) => 1,
        Value::Double(_) => 2,
        _ => 3,
    }
}

struct Rules {
    int32: fn(i32, i32) -> Option<i32>,
    int64: fn(i64, i64) -> Option<i64>,
    double: fn(f64, f64) -> f64,
    decimal: fn(Decimal128, Decimal128) -> Decimal128,
}

const ADD: Rules = Rules {
    int32: i32::checked_add,
    int64: i64::checked_add,
    double: |a, b| a + b,
    decimal: Decimal128::add,
};
const SUBTRACT: Rules = Rules {
    int32: i32::checked_sub,
    int64: i64::checked_sub,
    double: |a, b| a - b,
    decimal: Decimal128::sub,
};
const MULTIPLY: Rules = Rules {
    int32: i32::checked_mul,
    int64: i64::checked_mul,
    double: |a, b| a * b,
    decimal: Decimal128::mul,
};

/// `None` if an int64 overflows or an operand is not a number.
fn checked(rules: &Rules, a: Value<'_>, b: Value<'_>) -> Option<Value<'static>> {
    if let (Value::Int32(a), Value::Int32(b)) = (a, b)
        && let Some(n) = (rules.int32)(a, b)
    {
        return Some(Value::Int32(n));
    }
    match rank(a).max(rank(b)) {
        0 | 1 => {
            let n = (rules.int64)(as_i64_exact(a)?, as_i64_exact(b)?)?;
            Some(Value::Int64(n))
        }
        2 => Some(Value::Double((rules.double)(as_f64(a)?, as_f64(b)?))),
        _ => Some(Value::Decimal128((rules.decimal)(as_decimal(a)?, as_decimal(b)?))),
    }
}

fn widening(rules: &Rules, a: Value<'_>, b: Value<'_>) -> Value<'static> {
    checked(rules, a, b).unwrap_or_else(|| match (as_f64(a), as_f64(b)) {
        (Some(a), Some(b)) => Value::Double((rules.double)(a, b)),
        _ => Value::Null,
    })
}

/// The sum by the rules of expressions: int32 widens to int64, int64 to double. Null for non-numbers.
pub fn add(a: Value<'_>, b: Value<'_>) -> Value<'static> {
    widening(&ADD, a, b)
}

/// The difference, with the widening of [`add`].
pub fn subtract(a: Value<'_>, b: Value<'_>) -> Value<'static> {
    widening(&SUBTRACT, a, b)
}

/// The product, with the widening of [`add`].
pub fn multiply(a: Value<'_>, b: Value<'_>) -> Value<'static> {
    widening(&MULTIPLY, a, b)
}

/// The product, with the widening of [`add`].
pub fn mul(a: Value<'_>, b: Value<'_>) -> Value<'static> {
    multiply(a, b)
}

/// The sum by the rules of updates: `None` if an int64 overflows (or an operand is not a number).
pub fn checked_add(a: Value<'_>, b: Value<'_>) -> Option<Value<'static>> {
    checked(&ADD, a, b)
}

/// The product by the rules of updates: `None` if an int64 overflows (or an operand is not a number).
pub fn checked_mul(a: Value<'_>, b: Value<'_>) -> Option<Value<'static>> {
    checked(&MULTIPLY, a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> Value<'static> {
        Value::Decimal128(Decimal128::parse(text).unwrap())
    }

    #[test]
    fn comparisons_do_not_round() {
        let big = 9_007_199_254_740_993_i64;
        let cases = [
            (Value::Int64(big), Value::Double(9_007_199_254_740_992.0), Ordering::Greater),
            (Value::Int64(i64::MAX), Value::Double(9_223_372_036_854_775_808.0), Ordering::Less),
            (Value::Int64(3), Value::Double(3.5), Ordering::Less),
            (Value::Int64(-3), Value::Double(-3.5), Ordering::Greater),
            (dec("0.1"), Value::Double(0.1), Ordering::Less),
            (dec("0.5"), Value::Double(0.5), Ordering::Equal),
            (dec("-0.1"), Value::Double(-0.1), Ordering::Greater),
            (dec("1E+6000"), Value::Double(f64::INFINITY), Ordering::Less),
            (dec("1E-6000"), Value::Double(0.0), Ordering::Greater),
            (dec("Infinity"), Value::Double(f64::INFINITY), Ordering::Equal),
            (dec("NaN"), Value::Double(f64::NAN), Ordering::Equal),
            (dec("NaN"), Value::Double(f64::NEG_INFINITY), Ordering::Less),
            (dec("9007199254740993"), Value::Double(9_007_199_254_740_992.0), Ordering::Greater),
            (Value::Int32(0), Value::Double(-0.0), Ordering::Equal),
            (Value::Double(f64::NAN), Value::Int64(i64::MIN), Ordering::Less),
        ];
        for (a, b, order) in cases {
            assert_eq!(compare(a, b), order, "{a} {b}");
            assert_eq!(compare(b, a), order.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn sums_widen() {
        let max32 = Value::Int32(i32::MAX);
        assert_eq!(add(max32, Value::Int32(1)), Value::Int64(2_147_483_648));
        assert_eq!(add(Value::Int64(i64::MAX), Value::Int32(1)), Value::Double(2_f64.powi(63)));
        assert_eq!(checked_add(Value::Int64(i64::MAX), Value::Int32(1)), None);
        assert_eq!(add(Value::Int32(1), Value::Double(0.5)), Value::Double(1.5));
        assert_eq!(mul(dec("1.10"), Value::Int32(2)), dec("2.20"));
        assert_eq!(truncate_to_i64(dec("-1E+40")), Some(i64::MIN));
        assert_eq!(as_i64_exact(Value::Double(2.5)), None);
    }
}
