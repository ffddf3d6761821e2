//! `$covariancePop` and `$covarianceSamp` of two expressions, by Welford's method for pairs.
//!
//! The values are pairs; a value that is not an array of two numbers is ignored. The results are doubles, or decimals
//! if the window contains a decimal.

use nagi_bson::{Decimal128, Value, number};

use super::calculus::quotient;
use super::folded::Fold;

/// The count, the means, and the sum of the products of the deviations from the means.
#[derive(Clone)]
pub(super) struct Covariance {
    sample: bool,
    count: i64,
    means: [Value<'static>; 2],
    products: Value<'static>,
}

impl Covariance {
    pub(super) fn new(sample: bool) -> Covariance {
        let zero = Value::Double(0.0);
        Covariance { sample, count: 0, means: [zero, zero], products: zero }
    }
}

/// A number as a double or a decimal.
fn real(value: Value<'_>) -> Option<Value<'static>> {
    match value {
        Value::Decimal128(n) => Some(Value::Decimal128(n)),
        value => number::as_f64(value).map(Value::Double),
    }
}

/// `a * share / total`, in the type of `a`.
fn scaled(a: Value<'static>, share: i64, total: i64) -> Value<'static> {
    match a {
        Value::Decimal128(n) => {
            Value::Decimal128(n.mul(Decimal128::from_i64(share)).div(Decimal128::from_i64(total)))
        }
        a => number::multiply(a, Value::Double(share as f64 / total as f64)),
    }
}

impl Fold for Covariance {
    fn take(&mut self, value: Value<'_>) {
        let Value::Array(pair) = value else { return };
        let (Some(x), Some(y)) = (real(pair.get(0)), real(pair.get(1))) else { return };
        if pair.count() != 2 {
            return;
        }
        let one = Covariance { count: 1, means: [x, y], ..Covariance::new(self.sample) };
        self.absorb(&one);
    }

    fn absorb(&mut self, later: &Covariance) {
        if self.count == 0 || later.count == 0 {
            if later.count > 0 {
                *self = later.clone();
            }
            return;
        }
        let total = self.count + later.count;
        let apart = |at: usize| number::subtract(later.means[at], self.means[at]);
        let (dx, dy) = (apart(0), apart(1));
        let between = scaled(scaled(number::multiply(dx, dy), self.count, 1), later.count, total);
        self.products = number::add(number::add(self.products, later.products), between);
        self.means = [
            number::add(self.means[0], scaled(dx, later.count, total)),
            number::add(self.means[1], scaled(dy, later.count, total)),
        ];
        self.count = total;
    }

    fn result(&self) -> Value<'static> {
        let count = if self.sample { self.count - 1 } else { self.count };
        if count <= 0 {
            return Value::Null;
        }
        quotient(self.products, Value::Int64(count))
    }
}
