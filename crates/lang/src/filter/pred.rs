//! The evaluation of predicates on one value.

use std::cmp::Ordering;

use nagi_bson::{Type, Value, compare, number};
use nagi_error::Result;

use super::matches::{MatchCx, Position};
use super::{CompareOp, Pred};
use crate::collation::{self, Collation};
use crate::path::Leaf;
use crate::regex::Pattern;

impl Pred {
    /// How a path that ends at an array passes it to this predicate: as a whole, or element by element.
    pub fn leaf(&self) -> Leaf {
        match self {
            Pred::Size(_) | Pred::ElemMatchObject(_) | Pred::ElemMatchValue(_) => Leaf::Whole,
            _ => Leaf::Traverse,
        }
    }

    /// True if the predicate is a comparison with a value of a type that missing values and arrays never equal.
    pub fn is_plain_comparison(&self) -> bool {
        match self {
            Pred::Compare { value, .. } => match value.value() {
                Value::String(_) | Value::ObjectId(_) | Value::Bool(_) | Value::DateTime(_) => true,
                value => value.is_number(),
            },
            _ => false,
        }
    }

    /// The result of a comparison for the value of a top-level field; none for an array, whose elements count, too, and
    /// for other predicates.
    #[inline]
    pub fn compares(&self, value: Value<'_>) -> Option<bool> {
        match (self, value) {
            (Pred::Compare { .. }, Value::Array(_)) => None,
            (Pred::Compare { op, value: operand, collation }, value) => {
                Some(compares(*op, value, operand.value(), *collation))
            }
            _ => None,
        }
    }

    /// Returns true if the value satisfies the predicate. Arrays are not traversed.
    pub(super) fn matches<'a>(
        &'a self,
        value: Value<'a>,
        cx: &MatchCx<'a>,
        position: &mut Position,
    ) -> Result<bool> {
        Ok(match self {
            Pred::Compare { op, value: operand, collation } => {
                compares(*op, value, operand.value(), *collation)
            }
            Pred::In(list) => return list.matches(value),
            Pred::Exists => !value.is_missing(),
            Pred::Type(types) => types.contains(value.kind()),
            Pred::Regex(pattern) => return regex_matches(pattern, value),
            Pred::Mod { divisor, remainder } => {
                dividend(value).is_some_and(|n| n.wrapping_rem(*divisor) == *remainder)
            }
            Pred::Size(count) => {
                matches!(value, Value::Array(array) if array.count() as i64 == *count)
            }
            Pred::Bits(bits) => bits.matches(value),
            Pred::Geo(test) => test.matches(value),
            Pred::Near(near) => near.distance(value).is_some_and(|d| near.accepts(d)),
            Pred::ElemMatchObject(filter) => {
                let Value::Array(array) = value else { return Ok(false) };
                for (index, element) in array.iter().enumerate() {
                    let doc = match element {
                        Value::Doc(doc) => doc,
                        Value::Array(inner) => nagi_bson::Doc::trusted(inner.as_bytes()),
                        _ => continue,
                    };
                    if filter.test(doc, cx, &mut Position::Ignored)? {
                        position.set(index as u32);
                        return Ok(true);
                    }
                }
                false
            }
            Pred::ElemMatchValue(filter) => {
                let Value::Array(array) = value else { return Ok(false) };
                for (index, element) in array.iter().enumerate() {
                    if filter.test_value(element, cx)? {
                        position.set(index as u32);
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

/// Compares two values of the same type class. Null, undefined and missing have separate rules.
#[inline]
pub(super) fn compares(
    op: CompareOp,
    value: Value<'_>,
    operand: Value<'_>,
    collation: Option<&Collation>,
) -> bool {
    match (value, operand) {
        (Value::Int32(a), Value::Int32(b)) => op.accepts(a.cmp(&b)),
        (Value::Double(a), Value::Double(b)) => compares_doubles(op, a, b),
        (Value::Double(a), Value::Int32(b)) => compares_doubles(op, a, f64::from(b)),
        (Value::Int32(a), Value::Double(b)) => compares_doubles(op, f64::from(a), b),
        (Value::String(a), Value::String(b)) if collation.is_none() => match op {
            CompareOp::Eq => a == b,
            _ => op.accepts(a.as_bytes().cmp(b.as_bytes())),
        },
        _ => compares_any(op, value, operand, collation),
    }
}

/// NaN equals NaN, and has no order among other numbers.
#[inline]
fn compares_doubles(op: CompareOp, a: f64, b: f64) -> bool {
    match a.partial_cmp(&b) {
        Some(order) => op.accepts(order),
        None => a.is_nan() && b.is_nan() && op.accepts(Ordering::Equal),
    }
}

/// The part of `compares` for less frequent pairs of types.
#[inline(never)]
fn compares_any(
    op: CompareOp,
    value: Value<'_>,
    operand: Value<'_>,
    collation: Option<&Collation>,
) -> bool {
    match (value, operand, collation) {
        (Value::String(a), Value::String(b), Some(collation)) => {
            return op.accepts(collation.compare(a, b));
        }
        (Value::ObjectId(a), Value::ObjectId(b), _) => return op.accepts(a.cmp(b)),
        (Value::DateTime(a), Value::DateTime(b), _) => return op.accepts(a.cmp(&b)),
        _ => {}
    }
    if let Value::MinKey | Value::MaxKey = operand
        && value.kind() != operand.kind()
    {
        return compares_with_end(op, operand);
    }
    if operand.kind() == Type::Null {
        return op.accepts(Ordering::Equal) && matches!(value, Value::Null | Value::Missing);
    }
    if compare::class(value) != compare::class(operand) || value.is_nullish() {
        return false;
    }
    match (number::is_nan(value), number::is_nan(operand)) {
        (false, false) => op.accepts(collation::values(value, operand, collation)),
        (a, b) => a && b && op.accepts(Ordering::Equal),
    }
}

/// All four range operators are true: other values sort above MinKey and below MaxKey, and MongoDB does not
/// distinguish.
fn compares_with_end(op: CompareOp, _: Value<'_>) -> bool {
    op != CompareOp::Eq
}

/// An operand of `$mod`: a finite number within 64 bits, truncated to an integer.
pub(super) fn dividend(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int32(n) => Some(i64::from(n)),
        Value::Int64(n) => Some(n),
        Value::Double(n) => number::f64_as_i64_exact(n.trunc()),
        Value::Decimal128(d) if !d.is_nan() => d.to_i64(),
        _ => None,
    }
}

/// Matches a pattern against a string, a symbol, or an equal regular expression.
pub(super) fn regex_matches(pattern: &Pattern, value: Value<'_>) -> Result<bool> {
    match value {
        Value::String(text) | Value::Symbol(text) => pattern.is_match(text),
        Value::Regex(regex) => {
            Ok(regex.pattern() == pattern.pattern() && regex.options() == pattern.options())
        }
        _ => Ok(false),
    }
}
