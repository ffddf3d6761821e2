//! The exact sum of numbers of any type, for `$sum`, `$avg` and `$add`.
//!
//! Integers are summed in 128 bits, doubles in double-double arithmetic (a pair of doubles, with an error of about
//! 2^-106), and decimals as decimals. The three sums are combined when the result is requested, so the result does
//! not depend on the order of the input.

use nagi_bson::{Decimal128, Type, Value};

/// A running sum.
#[derive(Debug, Clone, Copy)]
pub struct NumberSum {
    integers: i128,
    doubles: DoubleDouble,
    decimals: Decimal128,
    /// The widest type so far: int, long, double, decimal.
    widest: Type,
}

#[derive(Debug, Clone, Copy)]
struct DoubleDouble {
    sum: f64,
    rest: f64,
    /// The plain sum, which is the result if an input is infinite or NaN.
    plain: f64,
}

impl Default for NumberSum {
    fn default() -> Self {
        NumberSum {
            integers: 0,
            doubles: DoubleDouble::ZERO,
            decimals: Decimal128::ZERO,
            widest: Type::Int,
        }
    }
}

impl NumberSum {
    /// Adds a number. Returns false for a value that is not a number.
    pub fn add(&mut self, value: Value<'_>) -> bool {
        match value {
            Value::Int32(n) => self.integers += i128::from(n),
            Value::Int64(n) => {
                self.integers += i128::from(n);
                self.widen(Type::Long);
            }
            Value::Double(n) => {
                self.doubles.add(n);
                self.widen(Type::Double);
            }
            Value::Decimal128(n) => {
                self.decimals = self.decimals.add(n);
                self.widen(Type::Decimal);
            }
            _ => return false,
        }
        true
    }

    /// Adds doubles. Faster than one after another, because four sums do not wait for each other.
    pub fn add_doubles(&mut self, values: &[f64]) {
        if values.is_empty() {
            return;
        }
        self.widen(Type::Double);
        let mut lanes = [DoubleDouble::ZERO; LANES];
        let mut chunks = values.chunks_exact(LANES);
        // If any order of additions overflows, the result depends on the order: then it is that of the documents.
        let mut bound = self.doubles.plain.abs() + self.doubles.sum.abs();
        for chunk in &mut chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                lane.add(*value);
            }
            bound += chunk.iter().map(|value| value.abs()).sum::<f64>();
        }
        if bound < f64::MAX / 4.0 {
            lanes.iter().for_each(|lane| self.doubles.merge(lane));
            chunks.remainder().iter().for_each(|value| self.doubles.add(*value));
        } else {
            values.iter().for_each(|value| self.doubles.add(*value));
        }
    }

    /// Adds an integer without widening the type of the result (the milliseconds of a date).
    pub fn add_integer(&mut self, n: i64) {
        self.integers += i128::from(n);
    }

    fn widen(&mut self, to: Type) {
        let rank = |t| match t {
            Type::Int => 0,
            Type::Long => 1,
            Type::Double => 2,
            _ => 3,
        };
        if rank(to) > rank(self.widest) {
            self.widest = to;
        }
    }

    /// A sum of integers: of longs, or only of ints.
    pub(super) fn of_whole(sum: i64, is_long: bool) -> NumberSum {
        let widest = if is_long { Type::Long } else { Type::Int };
        NumberSum { integers: i128::from(sum), widest, ..NumberSum::default() }
    }

    /// The sum, and true if an input was a long. None if an input was not an integer or the sum does not fit.
    pub(super) fn as_whole(&self) -> Option<(i64, bool)> {
        let is_long = self.widest == Type::Long;
        let whole = is_long || self.widest == Type::Int;
        i64::try_from(self.integers).ok().filter(|_| whole).map(|sum| (sum, is_long))
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &NumberSum) {
        self.integers += other.integers;
        self.doubles.merge(&other.doubles);
        self.decimals = self.decimals.add(other.decimals);
        self.widen(other.widest);
    }

    pub fn is_decimal(&self) -> bool {
        self.widest == Type::Decimal
    }

    /// The sum in the widest type of the inputs. An integer sum that does not fit is widened.
    pub fn value(&self) -> Value<'static> {
        match self.widest {
            Type::Int | Type::Long => match (i32::try_from(self.integers), self.widest) {
                (Ok(n), Type::Int) => Value::Int32(n),
                _ => match i64::try_from(self.integers) {
                    Ok(n) => Value::Int64(n),
                    Err(_) => Value::Double(self.integers as f64),
                },
            },
            Type::Double => Value::Double(self.double()),
            _ => Value::Decimal128(self.decimal()),
        }
    }

    /// The sum without decimals, as a double.
    pub fn double(&self) -> f64 {
        self.with_integers().value()
    }

    /// The sum as a decimal.
    pub fn decimal(&self) -> Decimal128 {
        let other = self.with_integers();
        let value = other.value();
        if !value.is_finite() {
            return self.decimals.add(Decimal128::from_f64(value));
        }
        let parts = shortest(self.doubles.sum).add(shortest(self.doubles.rest));
        let integers = match i64::try_from(self.integers) {
            Ok(n) => Decimal128::from_i64(n),
            Err(_) => shortest(self.integers as f64),
        };
        self.decimals.add(parts.add(integers))
    }

    fn with_integers(&self) -> DoubleDouble {
        let mut total = self.doubles;
        if self.integers != 0 {
            // Pieces of 48 bits are represented exactly as doubles.
            let mut rest = self.integers;
            let mut unit = 1.0;
            while rest != 0 {
                let piece = rest % (1 << 48);
                total.add(piece as f64 * unit);
                rest /= 1 << 48;
                unit *= (1u64 << 48) as f64;
            }
        }
        total
    }
}

/// How many sums `add_doubles` has at a time.
const LANES: usize = 4;

impl DoubleDouble {
    const ZERO: DoubleDouble = DoubleDouble { sum: 0.0, rest: 0.0, plain: 0.0 };

    fn add(&mut self, value: f64) {
        self.plain += value;
        let (high, low) = two_sum(self.rest, value);
        let (sum, rest) = two_sum(self.sum, high);
        let (sum, rest) = two_sum(sum, rest + low);
        self.sum = sum;
        self.rest = rest;
    }

    fn merge(&mut self, other: &DoubleDouble) {
        let plain = self.plain + other.plain;
        self.add(other.sum);
        self.add(if other.rest.is_nan() { 0.0 } else { other.rest });
        self.plain = plain;
    }

    fn value(&self) -> f64 {
        if self.sum.is_nan() || self.rest.is_nan() || !self.plain.is_finite() {
            // The pair is invalid only after infinities, NaN, or an intermediate overflow.
            return if self.sum.is_finite() && self.rest.is_finite() {
                self.sum
            } else {
                self.plain
            };
        }
        self.sum + self.rest
    }
}

/// A double as a decimal with all its digits (up to 34) and without trailing zeros: 2.5 is 2.5, 5.0 is 5.
fn shortest(n: f64) -> Decimal128 {
    let exact = Decimal128::from_f64_exact(n);
    let Some(mut parts) = exact.parts() else {
        return exact;
    };
    while parts.exponent < 0 && parts.coefficient.is_multiple_of(10) {
        parts.coefficient /= 10;
        parts.exponent += 1;
    }
    Decimal128::from_parts(parts).unwrap_or(exact)
}

/// The rounded sum and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let a_part = sum - b_part;
    (sum, (b - b_part) + (a - a_part))
}

impl NumberSum {
    /// Writes the parts as array elements, for [`NumberSum::from_partial`].
    pub(super) fn write_partial(&self, out: &mut nagi_bson::ArrayWriter<'_>) {
        out.push(self.widest as u8 as i32);
        out.push((self.integers >> 64) as i64);
        out.push(self.integers as i64);
        out.push(self.doubles.sum);
        out.push(self.doubles.rest);
        out.push(self.doubles.plain);
        out.push(Value::Decimal128(self.decimals));
    }

    /// Reads the parts that `write_partial` wrote.
    pub(super) fn from_partial(part: Value<'_>) -> NumberSum {
        let mut sum = NumberSum::default();
        let Value::Array(parts) = part else {
            sum.add(part);
            return sum;
        };
        let mut parts = parts.iter();
        let mut next = || parts.next().unwrap_or(Value::Null);
        if let Value::Int32(kind) = next() {
            sum.widest = Type::from_byte(kind as u8).unwrap_or(Type::Int);
        }
        if let (Value::Int64(high), Value::Int64(low)) = (next(), next()) {
            sum.integers = (i128::from(high) << 64) | i128::from(low as u64);
        }
        if let (Value::Double(a), Value::Double(b), Value::Double(plain)) = (next(), next(), next())
        {
            sum.doubles = DoubleDouble { sum: a, rest: b, plain };
        }
        if let Value::Decimal128(n) = next() {
            sum.decimals = n;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_by_one(start: f64, values: &[f64]) -> NumberSum {
        let mut sum = NumberSum::default();
        for value in std::iter::once(&start).chain(values) {
            sum.add(Value::Double(*value));
        }
        sum
    }

    /// Values of all sizes, and lists of which some orders overflow.
    #[test]
    fn doubles_together_are_doubles_one_by_one() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        let odd = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, -f64::MAX, -0.0, 5e-324];
        for round in 0..3000 {
            let one = |n: u32, kind: u32| match kind {
                0 => odd[n as usize % odd.len()],
                1 => f64::from(n as i32) * 1e300,
                _ => f64::from(n as i32) / 1000.0,
            };
            let kinds = if round % 3 == 0 { 3 } else { 1 };
            let start = one(next(), 2);
            let values: Vec<f64> = (0..next() % 40)
                .map(|_| one(next(), if kinds == 1 { 2 } else { next() % 30 }))
                .collect();
            let expected = one_by_one(start, &values).value();
            let mut sum = one_by_one(start, &[]);
            sum.add_doubles(&values);
            let same = match (sum.value(), expected) {
                (Value::Double(a), Value::Double(b)) => {
                    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                }
                _ => false,
            };
            assert!(same, "{:?} is not {expected:?}: {values:?}", sum.value());
        }
    }
}
